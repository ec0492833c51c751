"""The commands on a real kube-apiserver, with the rights of the insight ClusterRole only."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager

import pytest
from bayplan_documents import document
from click.testing import CliRunner
from tests.support.control_plane import ASSETS, ControlPlane

from bayplan.api.kinds import CONFIG_MAP, NODE, POD, PRIORITY_CLASS, SECRET
from bayplan.cli import main
from bayplan.client import ApiError, HttpClient, load_kubeconfig
from bayplan.insight import Snapshot
from bayplan.insight.sources.rights import cluster_role

# A cancelled request over TLS closes its connection later, possibly after the test's event loop has ended.
pytestmark = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

NOT_READY = "node.kubernetes.io/not-ready"


def node(name, cpu):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return document("Node", name, namespace="", status={"allocatable": room, "capacity": room})


def pod(name, cpu, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return document("Pod", name, spec={"containers": [container], "automountServiceAccountToken": False, **spec})


async def fill(client):
    """Create two nodes, a bound pod and a pending one."""
    await client.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100})
    for made in (node("small", "1"), node("large", "4")):
        created = await client.create(NODE, made)
        created.spec.taints = [taint for taint in created.spec.taints or () if taint.key != NOT_READY]
        await client.update(NODE, created)
    for made in (pod("old", "3", nodeName="large"), pod("new", "2", priorityClassName="high")):
        await client.create(POD, made, namespace="default")
    await client.create(SECRET, {"metadata": {"name": "password"}}, namespace="default")


@asynccontextmanager
async def cluster():
    async with ControlPlane() as plane:
        async with HttpClient(load_kubeconfig(plane.admin)) as client:
            await fill(client)
        reader = await plane.service_account("reader", cluster_roles=(), rules=cluster_role()["rules"])
        unprivileged = await plane.service_account("unprivileged", cluster_roles=())
        yield reader, unprivileged


@pytest.fixture(scope="module")
def kubeconfigs():
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    with asyncio.Runner() as runner:
        context = cluster()
        try:
            yield runner.run(context.__aenter__())
        finally:
            runner.run(context.__aexit__(None, None, None))


def asked(kubeconfig, *arguments, status=0):
    result = CliRunner().invoke(main, [*map(str, arguments), "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == status, result.output
    return result


def answer(kubeconfig, *arguments, status=0):
    result = asked(kubeconfig, *arguments, "-o", "json", status=status)
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_pending_pod_is_explained(kubeconfigs):
    found = answer(kubeconfigs[0], "explain", "new")

    assert (found["outcome"], found["node"], found["victims"]) == ("preempts", "large", ["default/old"])
    assert found["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_blockers_of_a_node_are_named(kubeconfigs):
    found = answer(kubeconfigs[0], "why-not", "new", "small")

    texts = [each["text"] for each in found["blockers"]]
    assert texts == ["Insufficient cpu: the pod requests 2, the whole node has 1"]


@pytest.mark.parametrize(("cpu", "status", "node_name"), [("1", 0, "large"), ("9", 1, None)])
def test_manifest_is_fitted(kubeconfigs, tmp_path, cpu, status, node_name):
    (tmp_path / "pod.json").write_text(json.dumps(pod("more", cpu)))
    found = answer(kubeconfigs[0], "fit", "-f", tmp_path / "pod.json", status=status)

    assert [each["node"] for each in found["pods"]] == [node_name]


def test_snapshot_has_neither_secrets_nor_gaps(kubeconfigs, tmp_path):
    asked(kubeconfigs[0], "snapshot", tmp_path / "saved")
    saved = Snapshot.load(tmp_path / "saved")

    assert set(saved.of_kind(NODE)) == {"small", "large"}
    assert set(saved.of_kind(POD)) == {"default/old", "default/new"}
    assert not saved.of_kind(SECRET)
    assert not saved.of_kind(CONFIG_MAP)
    assert not saved.gaps


async def test_role_allows_nothing_else(kubeconfigs):
    async with HttpClient(load_kubeconfig(kubeconfigs[0])) as client:
        for attempt in (client.list(SECRET), client.delete(POD, "old", namespace="default")):
            with pytest.raises(ApiError) as error:
                await attempt
            assert error.value.status == 403


def test_missing_right_is_one_message(kubeconfigs):
    result = asked(kubeconfigs[1], "explain", "new", status=2)

    (line,) = result.stderr.splitlines()
    assert "no right to list nodes; `bayplan manifests --insight` prints the ClusterRole" in line
