"""The page of a real kube-apiserver, followed by watches with the rights of the insight ClusterRole only."""

import asyncio
import os

import pytest
from served_page import node, pod, served
from tests.support.control_plane import ASSETS, ControlPlane
from tests.support.waiting import until

from bayplan.answers.snapshots.rights import cluster_role
from bayplan.client import HttpClient, connect, load_kubeconfig
from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.asking.sources import ClusterSource

# A cancelled request over TLS closes its connection later, possibly after the test's event loop has ended.
pytestmark = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(scope="module")
def plane():
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    with asyncio.Runner() as runner:
        plane = ControlPlane()
        runner.run(plane.__aenter__())
        try:
            yield plane
        finally:
            runner.run(plane.__aexit__(None, None, None))


async def shown(visitor, path, text):
    """Wait until a page has a text. Returns it."""

    async def found():
        page = await visitor.page(path)
        return page if text in page.text else None

    return await until(found, within=20)


async def test_page_follows_a_real_cluster(plane):
    reader = await plane.service_account("page", cluster_roles=(), rules=cluster_role()["rules"])
    async with (
        HttpClient(load_kubeconfig(plane.admin)) as admin,
        connect(reader) as client,
        served(ClusterSource(client)) as visitor,
    ):
        created = await admin.create(NODE, node("a"))
        created.spec.taints = None
        await admin.update(NODE, created)
        await admin.create(POD, pod("web-0", automountServiceAccountToken=False), namespace="default")

        page = await shown(visitor, "/", "default/web-0")
        assert "/pods/default/web-0" in page.links
        assert "problem" not in await visitor.get("/")
        await shown(visitor, "/pods/default/web-0", "It would be placed on a now.")

        await admin.patch(NODE, "a", {"spec": {"unschedulable": True}})
        await shown(visitor, "/", "cordoned (1)")
        page = await shown(visitor, "/pods/default/web-0", "1 node(s) were unschedulable")
        assert "Pending." in page.text

        await admin.bind("default", "web-0", "a")
        await shown(visitor, "/nodes/a", "1 pod")
        await shown(visitor, "/queue", "Every pod has a node.")

        await admin.delete(POD, "web-0", namespace="default", grace_period_seconds=0)
        await shown(visitor, "/nodes/a", "No pods.")
        gone = await visitor.page("/pods/default/web-0", 404)
        assert "There is no pod default/web-0" in gone.text
