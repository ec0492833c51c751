"""The page's sources: a cluster that is watched, and files."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
from served_page import node, served
from tests.support.waiting import until

from bayplan.answers.snapshots.rights import EFFECTS, FOLLOWED, ROLE, cluster_role
from bayplan.client import connect
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_SLICE
from bayplan.core.versions import gates_of
from bayplan.faces.asking import asking, sources
from bayplan.faces.asking.sources import ClusterSource, FileSource
from bayplan.faces.ui.server import serving
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load, make_client
from bayplan_devcluster.apiserver import Address, ApiServer, Fault
from bayplan_devcluster.in_memory import InMemoryClient


@asynccontextmanager
async def followed(client):
    source = ClusterSource(client, "the test's cluster")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(source.run())
        await asyncio.wait_for(source.ready(), 10)
        yield source
        running.cancel()


async def test_cluster_is_followed():
    client = make_client(make_node("a"), make_pod("web"), make_pod("gone"))
    async with followed(client) as source:
        first = source.snapshot()
        assert list(first.of_kind(NODE)) == ["a"]
        assert source.snapshot() is first

        load(client.server, make_node("b"))
        await client.bind("default", "web", "a")
        await until(lambda: len(source.snapshot().of_kind(NODE)) == 2)
        await until(lambda: source.snapshot().document(POD, "default/web")["spec"].get("nodeName") == "a")
        await client.delete(POD, "gone", namespace="default")
        await until(lambda: list(source.snapshot().of_kind(POD)) == ["default/web"])
        assert source.version > 3
        assert list(first.of_kind(NODE)) == ["a"]
        assert sorted(first.of_kind(POD)) == ["default/gone", "default/web"]


async def test_questions_are_answered_as_the_version_of_the_cluster_decides(monkeypatch):
    """Also after an upgrade of the cluster, and unless a version was given."""
    monkeypatch.setattr(sources, "VERSION_PAUSE", 0.01)
    said = "v1.36.2"

    async def version(_client):
        return said

    monkeypatch.setattr(sources, "server_version", version)
    usual, given = Insight(Snapshot()), Insight(Snapshot(), gates=gates_of("1.36"))
    async with followed(make_client(make_node("a"), make_pod("web"))) as source:
        for insight in (usual, given):
            insight.move(source.snapshot())
        assert (usual.gates.version, given.gates.version) == ("1.36", "1.36")
        said = "v1.37.0-gke.1"
        await until(lambda: source.snapshot().version == said)
        for insight in (usual, given):
            insight.move(source.snapshot())
        assert (usual.gates.version, given.gates.version) == ("1.37", "1.36")
        assert usual.explain("default/web").outcome == given.explain("default/web").outcome
        assert (usual.renewed().gates.version, given.renewed().gates.version) == ("1.36", "1.36")
        renewed = usual.renewed()
        renewed.move(source.snapshot())
        assert renewed.gates.version == "1.37"


async def test_kinds_without_changes_are_shared_by_snapshots():
    client = make_client(make_node("a"), make_pod("web"))
    async with followed(client) as source:
        first = source.snapshot()
        load(client.server, make_node("b"))
        await until(lambda: source.snapshot() is not first)
        assert source.snapshot().of_kind(POD) is first.of_kind(POD)


async def test_heartbeat_of_a_node_is_no_change():
    client = make_client(make_node("a"))
    async with followed(client) as source:

        async def ready(status, changed, heartbeat):
            condition = {
                "type": "Ready",
                "status": status,
                "lastTransitionTime": changed,
                "lastHeartbeatTime": heartbeat,
            }
            await client.patch(NODE, "a", {"status": {"conditions": [condition]}}, subresource="status")

        early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"
        await ready("True", early, early)
        await until(lambda: source.snapshot().document(NODE, "a")["status"].get("conditions"))
        version, first = source.version, source.snapshot()
        await ready("True", early, late)
        load(client.server, make_pod("web"))
        await until(lambda: source.snapshot().of_kind(POD))
        assert source.version == version + 1
        assert source.snapshot().of_kind(NODE) is first.of_kind(NODE)
        await ready("False", late, late)
        await until(lambda: source.snapshot().document(NODE, "a")["status"]["conditions"][0]["status"] == "False")


async def test_only_reads_are_sent_and_never_for_secrets_or_config_maps():
    client = make_client(make_node("a"), make_pod("web"))
    async with served(ClusterSource(client)) as visitor:
        for path in (
            "/",
            "/queue",
            "/pods/default/web",
            "/nodes/a",
            "/objects/nodes/a",
            "/workloads",
            "/what-if?cordon=a&delete_pods=web",
        ):
            await visitor.get(path)
    sent = [request.info for request in client.transport.requests if request.info.path != "/version"]
    assert {info.verb for info in sent} == {"list", "watch"}
    assert {info.resource for info in sent} == {kind.plural for kind in FOLLOWED}


async def test_page_of_a_live_cluster_changes():
    client = make_client(make_node("a"))
    async with served(ClusterSource(client)) as visitor:
        assert "/nodes/a" in (await visitor.page("/")).links
        load(client.server, make_node("b"))
        async with asyncio.timeout(10):
            while "/nodes/b" not in (await visitor.page("/")).links:
                pass


async def test_role_of_the_manifests_is_sufficient_for_following():
    server = ApiServer(address=None, alpha=True, rbac=True, tokens={"token": "reader"})
    load(server, make_node("a"))
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    header = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}}
    ref = {"kind": "ClusterRole", "name": ROLE, "apiGroup": "rbac.authorization.k8s.io"}
    server.load([cluster_role(), header | {"subjects": [subject], "roleRef": ref}])
    async with followed(InMemoryClient(server, token="token")) as source:
        load(server, make_node("b"))
        await until(lambda: len(source.snapshot().of_kind(NODE)) == 2)
        assert source.problems == []
        assert source.snapshot().gaps == ()


async def test_kind_that_may_not_be_read_is_a_gap_and_shown():
    client = make_client(make_node("a"))
    client.transport.faults.add(
        Fault(verb="list", resource="persistentvolumeclaims", answer=403, message="no right to list claims")
    )
    async with served(ClusterSource(client)) as visitor:
        page = await visitor.page("/")
    assert "/nodes/a" in page.links
    assert f"no right to list claims: {EFFECTS[PERSISTENT_VOLUME_CLAIM]}" in page.text


async def test_page_says_why_the_cluster_is_not_read(monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE", 0.2)
    client = make_client(make_node("a"))
    client.transport.faults.add(Fault(verb="list", resource="pods", answer=403, message="no right to list pods"))
    async with serving(ClusterSource(client), Insight(Snapshot())) as url, aiohttp.ClientSession() as session:
        cookies = {f"bayplan-{url.split(':')[2].partition('/')[0]}": url.rpartition("=")[2]}
        async with session.get(url.partition("?")[0], cookies=cookies) as response:
            text = await response.text()
    assert response.status == 503
    assert "The cluster has not been read yet:" in text
    assert "no right to list pods" in text
    assert '<meta http-equiv="refresh" content="3">' in text


async def test_one_line_says_that_the_api_server_is_gone(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    async with ApiServer() as server:
        load(server, make_node("a"))
        kubeconfig.write_text(server.kubeconfig())
        port = int(server.url.rpartition(":")[2])
        connecting = connect(kubeconfig)
        source = ClusterSource(await connecting.__aenter__())
        serving_page = served(source)
        visitor = await serving_page.__aenter__()
        first = await visitor.page("/")
    try:
        assert "live, read-only" in first.text
        await until(lambda: source.lost)
        lost = await visitor.page("/")
        assert lost.text.count("The cluster can't be read since ") == lost.text.count("connection refused") == 1
        assert "not live , read-only" in lost.text
        again = next(address for address in first.addresses if address.startswith("/?seen="))
        part = await visitor.get(again, part="live")
        assert "/nodes/a" in part
        assert 'hx-swap-oob="true"><b>not live</b>' in part
        async with ApiServer(address=Address(port=port)) as server:
            load(server, make_node("a"), make_node("b"))
            await until(lambda: not source.lost and len(source.snapshot().of_kind(NODE)) == 2, within=30)
            assert "live, read-only" in (await visitor.page("/")).text
    finally:
        await serving_page.__aexit__(None, None, None)
        await connecting.__aexit__(None, None, None)


async def test_object_that_cannot_be_read_is_named():
    broken = node("b")
    broken["status"]["allocatable"]["cpu"] = "many"
    async with served(FileSource(Snapshot.of([node("a"), broken]))) as visitor:
        page = await visitor.page("/")
    assert "/nodes/a" in page.links
    assert "Node b is left out" in page.text


async def test_gap_has_the_effect_of_the_missing_kind():
    client = make_client(make_node("a"))
    client.transport.faults.add(Fault(verb="list", resource="persistentvolumeclaims", answer=403, message="no right"))
    async with followed(client) as source:
        (gap,) = source.snapshot().gaps
    assert gap.kind == PERSISTENT_VOLUME_CLAIM
    assert gap.effect == EFFECTS[PERSISTENT_VOLUME_CLAIM]


async def test_page_waits_until_nodes_can_be_listed():
    client = make_client(make_node("a"))
    fault = Fault(verb="list", resource="nodes", answer=503, message="busy", times=2)
    client.transport.faults.add(fault)
    async with served(ClusterSource(client)) as visitor:
        assert "/nodes/a" in (await visitor.page("/")).links


class OlderServer(InMemoryClient):
    """A server that has resource.k8s.io in v1beta2 only, whose fields are those of v1."""

    def _path(self, path):
        group = "/apis/resource.k8s.io/"
        if not path.startswith(group):
            return path
        version, _, rest = path.removeprefix(group).partition("/")
        return f"{group}v1/{rest}" if version == "v1beta2" else "/apis/none/v1/none"

    async def request(self, method, path, **options):
        return await super().request(method, self._path(path), **options)

    def stream(self, path, **options):
        return super().stream(self._path(path), **options)


async def test_older_versions_of_devices_are_followed():
    client = OlderServer(ApiServer(address=None))
    load(client.server, make_node("a"))
    async with followed(client) as source:
        load(client.server, resource_slice("one"))
        await until(lambda: source.snapshot().document(RESOURCE_SLICE, "one"))
    assert source.problems == []


def resource_slice(name):
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "a", "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


async def test_folder_is_read_again_when_a_file_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "FILE_PAUSE", 0.01)
    (tmp_path / "a.json").write_text(json.dumps(node("a")))
    source = FileSource(Snapshot.open(tmp_path), tmp_path)
    running = asyncio.create_task(source.run())
    try:
        (tmp_path / "b.json").write_text(json.dumps(node("b")))
        await until(lambda: list(source.snapshot().of_kind(NODE)) == ["a", "b"])
        (tmp_path / "a.json").unlink()
        await until(lambda: list(source.snapshot().of_kind(NODE)) == ["b"])
    finally:
        running.cancel()
