"""Changes that help, on the pages of pods and the queue: each is a button that puts it into the basket of What if."""

import re
from html import unescape

from served_page import GPU, node, page_of, pod, served_objects
from tests.support.tables import cases

from bayplan.faces.ui import packing

SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "new"}},
    }
]
BUTTON = re.compile(r'name="apply" value="([^"]+)"')

HELPS = {
    "taint": ([node("a", taints=[GPU]), pod("new")], "remove the taint gpu=yes:NoSchedule from a"),
    "toleration": ([node("a", taints=[GPU]), pod("new")], "add a toleration of gpu=yes:NoSchedule to the pod"),
    "label": ([node("a"), pod("new", nodeSelector={"disk": "ssd"})], "label a with disk=ssd"),
    "selector": ([node("a"), pod("new", nodeSelector={"disk": "ssd"})], "remove disk=ssd from the pod's nodeSelector"),
    "requests": ([node("a", "2"), pod("new", "3")], "let the pod request only 2 cpu"),
    "deletion": ([node("a", "2"), pod("old", "2", node="a"), pod("new", "2")], "delete pod default/old on a"),
    "new node": ([node("a", "2"), pod("old", "2", node="a"), pod("new", "2")], "add a node like a"),
    "gate": (
        [node("a"), node("b", taints=[GPU]), pod("new", schedulingGates=[{"name": "x/y"}])],
        "remove the scheduling gate x/y",
    ),
    "cordon": ([node("a", unschedulable=True), pod("new")], "uncordon a"),
    "spread": (
        [
            node("a"),
            node("b", "1", zone="b"),
            pod("new-0", node="a"),
            pod("new", "2", topologySpreadConstraints=SPREAD),
        ],
        "set maxSkew to 2 in the pod's spread over topology.kubernetes.io/zone",
    ),
    "markup": (
        [node("a"), pod("new", nodeSelector={"disk": "<b>\"&'"})],
        "remove disk=<b>\"&' from the pod's nodeSelector",
    ),
}


def buttons(text):
    """The packed changes of a page, by what they do."""
    return {packing.unpack(unescape(entry)).text: unescape(entry) for entry in BUTTON.findall(text)}


@cases("objects, change", HELPS)
async def test_help_of_a_pod_is_put_into_the_basket(objects, change):
    async with served_objects(*objects) as visitor:
        text = await visitor.get("/pods/default/new")
        page = await visitor.post("/what-if", apply=buttons(text)[change])
        assert f"{change} ×" in page.text
        assert f"If you {change}: " in page.text
        assert "1 pod from pending to placed" in page.text
        assert (await visitor.page("/what-if")).text == page.text
        assert await visitor.get("/pods/default/new") == text


async def test_helps_of_why_not_and_of_the_queue_are_put_into_the_basket():
    nodes = [node(f"n{number}", taints=[GPU]) for number in range(60)]
    async with served_objects(*nodes, *(pod(f"web-{number}") for number in range(70))) as visitor:
        of_queue = buttons(await visitor.get("/queue"))
        of_freeing = buttons(await visitor.get("/queue/freeing"))
        of_node = buttons(await visitor.get("/pods/default/web-0?node=n7"))
        all_nodes = await visitor.post("/what-if", apply=of_queue["remove the taint gpu=yes:NoSchedule from 60 nodes"])
        one_node = await visitor.post(
            "/what-if", basket="cordon=n1", apply=of_node["remove the taint gpu=yes:NoSchedule from n7"]
        )
    assert of_freeing.items() <= of_queue.items()
    assert "70 pods from pending to placed" in all_nodes.text
    assert "cordon n1 × remove the taint gpu=yes:NoSchedule from n7 ×" in one_node.text
    assert "4 pods from pending to placed" in one_node.text


async def test_large_cluster_finds_what_frees_most_only_when_it_is_asked(monkeypatch):
    monkeypatch.setattr("bayplan.faces.ui.queue_page.FEW_NODES", 0)
    async with served_objects(node("a", taints=[GPU]), pod("new")) as visitor:
        queue = await visitor.page("/queue")
        asked = await visitor.page("/queue/freeing")
    assert "/queue/freeing" in queue.links
    assert "What would place most" not in queue.text
    assert "1 of 1 pod: remove the taint gpu=yes:NoSchedule from a Try in What if" in asked.text


async def test_change_that_is_too_large_for_an_address_has_no_button(monkeypatch):
    monkeypatch.setattr(packing, "LONGEST_ENTRY", 10)
    page = await page_of("/pods/default/new", node("a", taints=[GPU]), pod("new"))
    assert "remove the taint gpu=yes:NoSchedule from a" in page.text
    assert "Try in What if" not in page.text


async def test_help_of_a_pod_that_is_gone_is_one_message():
    async with served_objects(node("a", taints=[GPU]), pod("new")) as visitor:
        entry = buttons(await visitor.get("/pods/default/new"))["add a toleration of gpu=yes:NoSchedule to the pod"]
    async with served_objects(node("a", taints=[GPU])) as visitor:
        page = await visitor.post("/what-if", apply=entry)
    assert "there is no pod default/new to change; the change is of an earlier cluster" in page.text
