"""The what-if basket: addresses, the cookie, and the comparison with today."""

from __future__ import annotations

import pytest
from served_page import node, pod, served_objects, small_cluster

from bayplan.insight import Insight, QuestionError, Snapshot
from bayplan.ui.basket import LARGEST, Basket, compare_sides

FULL = Basket(
    (
        ("add_nodes", "3xlike:node-a"),
        ("cordon", "pool=a&b, c"),
        ("labels", "node-a disk=ssd"),
        ("taints", "node-a gpu=yes:NoSchedule"),
        ("scale", "deployment/web=40"),
        ("delete_pods", "web-0"),
        ("remove_nodes", "ä/ö"),
        ("uncordon", "node-c"),
    ),
    "team",
)


def test_query_is_read_again():
    assert Basket.read(FULL.query()) == FULL
    assert Basket.read(Basket().query()) == Basket()


def test_changes_have_all_entries():
    changes = FULL.changes()
    assert changes.add_nodes == ("3xlike:node-a",)
    assert changes.labels == (("node-a", "disk=ssd"),)
    assert changes.taints == (("node-a", "gpu=yes:NoSchedule"),)
    assert changes.scale == ("deployment/web=40",)
    assert changes.namespace == "team"


def test_change_is_taken_out_by_its_number():
    basket = Basket((("cordon", "a"), ("cordon", "b")), "team")
    assert basket.without("0") == Basket((("cordon", "b"),), "team")
    assert basket.without("2") == basket.without("x") == basket


def test_unknown_empty_and_repeated_parameters_are_ignored():
    items = [("cordon", " a "), ("cordon", "a"), ("cordon", ""), ("objects", "x"), ("seen", "5"), ("namespace", "")]
    assert Basket.of(items) == Basket((("cordon", "a"),))


def test_form_adds_one_change():
    assert Basket.of([("cordon", "a"), ("change", "scale"), ("text", "deployment/web=4")]).entries == (
        ("cordon", "a"),
        ("scale", "deployment/web=4"),
    )
    assert Basket.of([("change", "objects"), ("text", "x")]) == Basket()


def test_basket_is_bounded():
    assert len(Basket.of([("cordon", f"node-{number}") for number in range(500)]).entries) == LARGEST


@pytest.mark.parametrize("field", ["labels", "taints"])
def test_label_without_a_node_is_an_error(field):
    with pytest.raises(QuestionError, match="expected a node and a text"):
        Basket(((field, "disk=ssd"),)).changes()


def test_sides_are_today_and_the_changed_cluster():
    insight = Insight(Snapshot.of(small_cluster()))
    sides = compare_sides(insight, Basket((("add_nodes", "2xlike:node-b1"), ("labels", "node-a1 disk=nvme"))), "cpu")
    assert sides.new == {"node-b1-new-1", "node-b1-new-2"}
    assert (sides.before.nodes, sides.after.nodes) == (4, 6)
    assert (sides.before.pods, sides.after.pods) == (2, 3)
    assert [(change.pod, change.after.node) for change in sides.answer.pods if change.after.node] == [
        ("default/pinned-0", "node-a1")
    ]
    flags = {slot.name: slot.flags for bay in sides.after.bays for slot in bay.slots}
    assert flags["node-b1-new-1"] == "nt"
    assert compare_sides(insight, Basket(), "cpu").after == sides.before


async def test_page_shows_both_sides():
    async with served_objects(*small_cluster()) as visitor:
        page = await visitor.page("/what-if?labels=node-a1+disk%3Dnvme&add_nodes=like:node-a1&remove_nodes=node-b1")
    assert "Today 4 nodes · 2 pods" in page.text
    assert "What if 4 nodes · 2 pods" in page.text
    assert "default/pinned-0 pending node-a1" in page.text
    assert "default/web-1 node-b1 –" in page.text
    assert "/nodes/node-a1-new-1" not in page.links


async def test_basket_is_kept_in_a_cookie_until_it_is_emptied():
    async with served_objects(*small_cluster()) as visitor:
        await visitor.post("/what-if", cordon="node-a1")
        both = await visitor.post("/what-if", remove_nodes="node-b2")
        again = await visitor.page("/what-if")
        fewer = await visitor.post("/what-if", take_out="1")
        other = await visitor.post("/what-if", basket="cordon=node-b1", change="taints", text="node-a1 x:NoSchedule")
        empty = await visitor.post("/what-if", empty="1")
    assert "cordon node-a1 × remove node node-b2 ×" in both.text
    assert "cordon node-a1 × remove node node-b2 ×" in again.text
    assert "remove node node-b2 ×" not in fewer.text
    assert "cordon node-b1 × taint node-a1 x:NoSchedule ×" in other.text
    assert "Choose changes of the cluster." in empty.text


async def test_address_of_a_basket_is_shown_and_changes_nothing():
    async with served_objects(*small_cluster()) as visitor:
        await visitor.post("/what-if", cordon="node-a1")
        for query in ("remove_nodes=node-b2", "add=cordon&cordon=node-b2", "change=cordon&text=node-b2"):
            shown = await visitor.page(f"/what-if?{query}")
            assert "node-b2 ×" in shown.text
            assert "not those of your basket. Keep them in the basket" in shown.text
        await visitor.get("/what-if?empty=1")
        kept = await visitor.page("/what-if")
        assert "cordon node-a1 × Empty the basket Change" in kept.text
        taken = await visitor.post("/what-if", basket="remove_nodes=node-b2")
        assert "remove node node-b2 × Empty the basket Change" in taken.text


async def test_form_of_another_site_changes_nothing():
    async with served_objects(*small_cluster()) as visitor:
        await visitor.get("/what-if")
        for headers in ({}, {"Origin": "http://attacker.example"}, {"Sec-Fetch-Site": "cross-site"}):
            async with visitor.session.post(
                f"{visitor.base}/what-if", data={"cordon": "node-a1"}, headers=headers
            ) as response:
                assert response.status == 403
        assert "Choose changes of the cluster." in (await visitor.page("/what-if")).text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("cordon=nope", "there is no node nope"),
        ("add_nodes=many", "expected the number of new nodes"),
        ("scale=deployment/none=3", "there is no deployment default/none"),
        ("delete_pods=none", "there is no pod default/none to delete"),
        ("labels=x", "expected a node and a text"),
        ("remove_nodes=%3Cscript%3E", "there is no node <script>"),
        (
            "add_nodes=1000000xlike:node-a1",
            "1000000xlike:node-a1: 1,000,000 new nodes in one question; the limit of nodes is 5,000",
        ),
        (f"add_nodes={'9' * 5000}xlike:node-a1", "expected the number of new nodes"),
        (f"scale=deployment/web={'9' * 5000}", "expected TYPE/NAME=NUMBER"),
        ("add_nodes=3000xlike:node-a1&add_nodes=3000xlike:node-b1", "the limit of nodes is 5,000"),
    ],
)
async def test_impossible_change_is_one_message(query, message):
    async with served_objects(*small_cluster()) as visitor:
        page = await visitor.page(f"/what-if?{query}")
    assert message in page.text


async def test_what_if_leaves_today_as_it_was():
    async with served_objects(node("a", "2"), node("b", "2"), pod("web", "2", node="a")) as visitor:
        before = await visitor.get("/")
        await visitor.get("/what-if?remove_nodes=a&add_nodes=5xlike:b")
        assert await visitor.get("/") == before
