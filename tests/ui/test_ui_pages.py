"""The pages, as a browser gets them."""

import json

import pytest
from served_page import node, page_of, pod, served, served_objects, small_cluster, stateful_set
from tests.support.tables import cases

from bayplan.faces.asking import sources
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.ui import pages
from bayplan.insight import Snapshot

PAGES = {
    "plan": "/",
    "plan of memory": "/?resource=memory",
    "queue": "/queue",
    "pending pod": "/pods/default/big-0",
    "placed pod": "/pods/default/web-0?node=node-b1",
    "node": "/nodes/node-a1",
    "plan of a namespace by a label": "/?namespace=default&by=kubernetes.io/hostname",
    "queue of a namespace": "/queue?namespace=default",
    "workloads": "/workloads",
    "workload": "/workloads/default/statefulset/db",
    "object": "/objects/nodes/node-a1",
    "search": "/search?q=web",
    "basket": "/what-if?add_nodes=2xlike:node-b1&cordon=node-a1",
    "empty basket": "/what-if",
    "placed anew": "/what-if?replace_all=yes",
    "what would place most": "/queue/freeing",
    "questions": "/questions",
    "form of a question": "/questions/drain",
    "answer of a question": "/questions/usage",
}


@cases("path", PAGES)
async def test_page_is_accessible_and_loads_nothing_from_elsewhere(path):
    async with served_objects(*small_cluster(), *stateful_set("db", 3, 0)) as visitor:
        text = await visitor.get(path)
        page = await visitor.page(path)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert page.counts["h1"] == page.counts["main"] == 1
    assert page.unlabelled == []
    assert {"main", "live", "search", "hits"} <= set(page.ids)
    assert all(
        (address.startswith("/") and not address.startswith("//")) or address[0] == "#" for address in page.addresses
    )


async def test_plan_shows_nodes_by_zone_with_what_is_taken():
    async with served_objects(*small_cluster()) as visitor:
        page = await visitor.page("/")
        by_pods = await visitor.page("/?resource=pods")
        fallback = await visitor.page("/?resource=bananas")
    assert page.links["/nodes/node-a1"] == "node-a1, cpu 75%, 1 pod"
    assert page.links["/nodes/node-a2"] == "node-a2, cpu 0%, 0 pods, cordoned"
    assert page.links["/nodes/node-b1"] == "node-b1, cpu 6%, 1 pod, gpu=yes:NoSchedule"
    assert page.links["/nodes/node-b2"] == "node-b2, cpu 0%, 0 pods, not ready"
    assert {"/pods/default/web-0", "/pods/default/big-0", "/pods/default/pinned-0"} <= page.links.keys()
    assert "zone-a 2 nodes · 38% cpu" in page.text
    assert "19% · 3.5 of 18 cpu · 4 nodes · 2 pods · 2 pending" in page.text
    assert "cordoned (1)" in page.text
    assert by_pods.links["/nodes/node-a1"] == "node-a1, pods 1%, 1 pod"
    assert fallback.links == page.links


async def test_plan_of_5000_nodes_is_small():
    objects = [node(f"node-{number:04}", zone=f"zone-{number % 3}") for number in range(5000)]
    async with served_objects(*objects, *(pod(f"web-{n}", "1", node=f"node-{n:04}") for n in range(5000))) as visitor:
        text = await visitor.get("/")
        page = await visitor.page("/")
        by_name = await visitor.get("/?by=kubernetes.io/hostname&namespace=default")
    assert len(text) < 2_000_000
    assert len(by_name) < 2_000_000
    assert "4,900 other values of kubernetes.io/hostname" in by_name
    assert sum(link.startswith("/nodes/") for link in page.links) == 5000


async def test_plan_of_an_empty_cluster():
    async with served_objects() as visitor:
        assert "The cluster has no nodes." in (await visitor.page("/")).text
        assert "Every pod has a node." in (await visitor.page("/queue")).text


async def test_queue_shows_causes():
    page = await page_of("/queue", *small_cluster(), pod("big-1", "6"))
    assert "3 pods pending" in page.text
    assert "2 0/4 nodes are available" in page.text
    assert "NodeResourcesFit" in page.text
    assert "label node-a1 with disk=nvme -> node-a1" in page.text


async def test_queue_begins_with_the_changes_that_place_most():
    page = await page_of("/queue", *small_cluster(), pod("big-1", "6"), pod("big-2", "4"))
    assert "What would place most each was tried on its own" in page.text
    assert "of 4 pods: remove the taint gpu=yes:NoSchedule from node-b1" in page.text


async def test_plan_and_queue_count_the_same_pods():
    foreign = pod("foreign-0", schedulerName="someone-else")
    async with served_objects(*small_cluster(), foreign, pod("gated-0", schedulingGates=[{"name": "g/g"}])) as visitor:
        plan = await visitor.page("/")
        queue = await visitor.page("/queue")
    assert "4 pending" in plan.text
    assert "/pods/default/foreign-0" in plan.links
    assert "4 pods pending" in queue.text


async def test_pending_pod_is_explained():
    page = await page_of("/pods/default/big-0", *small_cluster())
    assert "pod default/big-0 Pending. 0/4 nodes are available" in page.text
    assert "What would help each was tried" in page.text
    assert "gpu=yes:NoSchedule" in page.text
    assert "Requests cpu 6" in page.text


async def test_placed_pod_is_explained_with_why_not():
    async with served_objects(*small_cluster()) as visitor:
        page = await visitor.page("/pods/default/web-0?node=node-b1")
        wrong = await visitor.page("/pods/default/web-0?node=%3Cscript%3E")
    assert "On node-a1 ." in page.text
    assert (
        "node-b1 rejects the pod: TaintToleration : node(s) had untolerated taint(s): gpu=yes:NoSchedule" in page.text
    )
    assert "there is no node <script>" in wrong.text
    assert wrong.counts["script"] == page.counts["script"]


async def test_node_shows_its_pods_and_what_it_rejects():
    page = await page_of("/nodes/node-a1", *small_cluster())
    assert "cpu 3 4 75%" in page.text
    assert "/pods/default/web-0" in page.links
    assert "default/big-0 NodeResourcesFit : Insufficient cpu: the pod requests 6, the whole node has 4" in page.text
    assert "default/pinned-0 NodeAffinity : node(s) didn't match Pod's node affinity/selector: disk=nvme" in page.text


async def test_search_lists_names_and_opens_the_only_one():
    async with served_objects(*small_cluster()) as visitor:
        several = await visitor.page("/search?q=WEB")
        part = await visitor.get("/search?q=web-0", part="hits")
        nothing = await visitor.page("/search?q=zzz")
        only = await visitor.page("/search?q=pinned")
    assert [each for each in several.links if "/web-" in each] == ["/pods/default/web-0", "/pods/default/web-1"]
    assert "<header>" not in part
    assert 'href="/pods/default/web-0"' in part
    assert "No node or pod has zzz in its name." in nothing.text
    assert "pod default/pinned-0" in only.text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/pods/default/none", "There is no pod default/none in file cluster.yaml."),
        ("/pods/other/web-0", "There is no pod other/web-0 in file cluster.yaml; there is default/web-0."),
        ("/nodes/node-a", "There is no node node-a; there is node-a1, node-a2."),
        ("/nowhere", "There is no page /nowhere."),
        ("/static/nothing.js", "There is no page /static/nothing.js."),
        ("/pods/%3Cb%3E/x", "There is no pod <b>/x in file cluster.yaml."),
    ],
)
async def test_what_does_not_exist_is_a_404_page(path, message):
    page = await page_of(path, *small_cluster(), status=404)
    assert message in page.text
    assert "/" in page.links


async def test_failure_is_a_500_page_and_a_log_line(monkeypatch, caplog):
    def broken(insight, name, progress):
        raise RuntimeError("broken")

    monkeypatch.setattr(pages, "node_report", broken)
    async with served_objects(*small_cluster()) as visitor:
        page = await visitor.page("/nodes/node-a1", status=500)
        await visitor.page("/")
    assert "The question failed; the log says why." in page.text
    assert "/nodes/node-a1 failed" in caplog.text


async def test_htmx_gets_only_what_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "FILE_PAUSE", 0.01)
    file = tmp_path / "cluster.json"

    def write(*objects):
        file.with_suffix(".new").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        file.with_suffix(".new").replace(file)

    write(node("a"))
    source = FileSource(Snapshot.open(file), file)
    async with served(source) as visitor:
        first = await visitor.page("/")
        again = next(address for address in first.addresses if address.startswith("/?seen="))
        assert await visitor.get(again, status=204, part="live") == ""
        write(node("a"), node("b"))
        while source.version == 1:
            await visitor.get("/queue")
        part = await visitor.get(again, part="live")
        assert part.startswith('<div id="live"')
        assert "/nodes/b" in part
        assert "<header>" not in part
        file.write_text("{")
        version = source.version
        while source.version == version:
            await visitor.get("/queue")
        page = await visitor.page("/")
        assert "the last change could not be read" in page.text
        assert "/nodes/b" in page.links
