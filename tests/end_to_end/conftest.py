import asyncio
import gc
import os
from dataclasses import replace
from pathlib import Path

import pytest
from audit import AuditLog
from clusters import embedded, real
from shipped import NAMESPACE, deploy
from tests.support.control_plane import ASSETS, ControlPlane
from tests.support.invariants import check_invariants
from tests.support.proxy import FaultProxy
from workloads import NAME

from bayplan.client import HttpClient, load_kubeconfig

# A cancelled request over TLS closes its connection later, possibly after the test's event loop has ended. Such
# connections are collected at the end of each test, and their warnings are ignored.
REAL = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(params=["embedded", pytest.param("apiserver", marks=REAL)])
def backend(request):
    """None for the embedded API server; the value of `control_plane` for a real one."""
    return None if request.param == "embedded" else request.getfixturevalue("control_plane")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """A control plane with the scheduler's kubeconfig and the audit log.

    All tests of a run share it, because it takes longer to start than most tests run.
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
    """Apply the shipped manifests. Returns a kubeconfig for their account."""
    async with HttpClient(load_kubeconfig(plane.admin)) as client:
        await deploy(client, "bayplan.yaml")
    return await plane.account_kubeconfig(NAME, NAMESPACE)


@pytest.fixture
async def cluster(request, backend, tmp_path):
    """A cluster with all controllers, except those that a test names by parametrizing this fixture."""
    without = getattr(request, "param", ())
    async with embedded(tmp_path, without) if backend is None else real(*backend, without) as cluster:
        yield cluster
    if backend is not None:
        gc.collect()


@pytest.fixture
def invariants(cluster):
    """Checks the invariants of the scheduler after a test. The cluster says how many ran, and what others bind."""
    yield
    check_invariants(cluster.observer, NAME, foreign=cluster.foreign, schedulers=cluster.schedulers)


@pytest.fixture
async def proxy(cluster):
    """A proxy between the scheduler and the server. `access` is the scheduler's access through it."""
    target = cluster.access
    async with FaultProxy(target.server, tls=target.tls) as proxy:
        proxy.access = replace(target, server=proxy.url, tls=None)
        yield proxy


@pytest.fixture
def _unclosed_connections():
    """Collects unclosed connections (see clusters.ABRUPT) before the test that left them ends."""
    yield
    gc.collect()


HANGS_AFTER = 600
"""Seconds after which a test counts as one that hangs: it may wait for several events with PATIENCE."""


def pytest_collection_modifyitems(config, items):
    """Skips the full-length tests, except in `make soak`, and leaves those of this folder time on a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(HANGS_AFTER))
    if "soak" not in (config.option.markexpr or ""):
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: run `make soak`"))
