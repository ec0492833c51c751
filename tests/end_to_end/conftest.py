from __future__ import annotations

import asyncio
import gc
import os
from dataclasses import replace

import pytest
from audit import AuditLog
from clusters import embedded, real
from shipped import NAMESPACE, deploy
from workloads import NAME

from bayplan.client import HttpClient, load_kubeconfig
from bayplan.testing.control_plane import ASSETS, ControlPlane
from bayplan.testing.proxy import FaultProxy

# Over TLS the connection of a request that is cancelled says goodbye in its own time, and a test's loop may end before:
# such connections are collected, and excused, at the end of each test.
REAL = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(params=["embedded", pytest.param("apiserver", marks=REAL)])
def backend(request):
    """Nothing for the embedded API server; what `control_plane` gives for a real one."""
    return None if request.param == "embedded" else request.getfixturevalue("control_plane")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """One for all tests of a run, since starting it takes longer than most of them; the scheduler's kubeconfig for it,
    and its audit log.
    """
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    audit = AuditLog(tmp_path_factory.mktemp("audit"))
    plane = ControlPlane(api_server_flags=audit.flags)
    with asyncio.Runner() as runner:
        runner.run(plane.__aenter__())
        try:
            yield plane, runner.run(deploy_to(plane)), audit
        finally:
            runner.run(plane.__aexit__())


async def deploy_to(plane):
    """Apply what is shipped. Returns a kubeconfig of the account that it makes."""
    async with HttpClient(load_kubeconfig(plane.admin)) as client:
        await deploy(client, "bayplan.yaml")
    return await plane.account_kubeconfig(NAME, NAMESPACE)


@pytest.fixture
async def cluster(request, backend, tmp_path):
    """With all controllers, or without those that the test names by parametrizing this fixture."""
    without = getattr(request, "param", ())
    async with embedded(tmp_path, without) if backend is None else real(*backend, without) as cluster:
        yield cluster
    if backend is not None:
        gc.collect()


@pytest.fixture
async def proxy(cluster):
    """Between the scheduler and the server. `access` is the scheduler's, with the proxy for a server."""
    target = cluster.access
    async with FaultProxy(target.server, tls=target.tls) as proxy:
        proxy.access = replace(target, server=proxy.url, tls=None)
        yield proxy


@pytest.fixture
def _forgotten_connections():
    """See clusters.ABRUPT: they are collected while the test that left them behind is still there to answer for it."""
    yield
    gc.collect()


def pytest_collection_modifyitems(config, items):
    """Tests at full length are for `make soak`."""
    if "soak" not in (config.option.markexpr or ""):
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: run `make soak`"))
