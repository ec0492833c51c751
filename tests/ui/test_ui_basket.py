"""The what-if basket: addresses, the cookie, and the comparison with today."""

import pytest
from served_page import node, page_of, pod, served_objects, small_cluster
from tests.support.tables import cases

from bayplan.answers.insight.questions.portable import Patch, PortableChange
from bayplan.faces.ui.basket import LARGEST, LONGEST_COOKIE, Basket, compare_sides
from bayplan.faces.ui.packing import pack
from bayplan.insight import Insight, QuestionError, Snapshot

FULL = Basket(
    (
        ("add_nodes", "3xlike:node-a"),
        ("cordon", "pool=a&b, c"),
        ("labels", "node-a disk=ssd"),
        ("taints", "node-a gpu=yes:NoSchedule"),
        ("scale", "deployment/web=40"),
        ("scale_requests", "deployment/web=0.7"),
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
    assert changes.scale_requests == ("deployment/web=0.7",)
    assert changes.namespace == "team"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("node-a disk=ssd", ("node-a", "disk=ssd")),
        ("pool in (a, b) disk=ssd", ("pool in (a, b)", "disk=ssd")),
        ("pool=a, zone notin (x, y)  disk-", ("pool=a, zone notin (x, y)", "disk-")),
    ],
)
def test_label_follows_the_last_space(entry, expected):
    assert Basket((("labels", entry),)).changes().labels == (expected,)


def test_basket_holds_any_change_of_objects():
    change = PortableChange(
        "remove a taint and delete x",
        (Patch("Node", ("a", "b"), {"spec": {"taints": None}}),),
        ({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "ä & b"}},),
        "a",
        {"metadata": {"labels": {"disk": "ssd"}}},
        ("default/x",),
    )
    basket = Basket((("apply", pack(change)), ("replace_all", "yes")))
    assert Basket.read(basket.query()) == basket
    assert basket.titles() == ["remove a taint and delete x", "place all pods anew"]
    assert basket.changes().portable == (change,)
    assert basket.changes().replace_all


BOMB = pack(PortableChange("x" * 10_000_000))
UNREADABLE = {
    "no base64": "ä",
    "no compression": "aGVsbG8",
    "no change": pack({"text": 5}),
    "other field": pack({"text": "x", "command": "y"}),
    "cut": pack(PortableChange("x"))[:-4],
    "bomb": BOMB,
}


@cases("text", UNREADABLE)
def test_entry_that_cannot_be_read_is_one_error(text):
    basket = Basket((("apply", text),))
    assert basket.titles()[0].startswith("the change of the address ")
    with pytest.raises(QuestionError, match="the change of the address "):
        basket.changes()


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


def test_small_baskets_fit_a_cookie():
    assert Basket((("cordon", "node-a"),)).fits_cookie
    assert not Basket((("apply", "x" * LONGEST_COOKIE),)).fits_cookie


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
    page = await page_of(
        "/what-if?labels=node-a1+disk%3Dnvme&add_nodes=like:node-a1&remove_nodes=node-b1", *small_cluster()
    )
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


async def test_basket_that_is_too_large_for_a_cookie_is_in_its_address_only():
    names = tuple(f"node-{number * 7919 % 10007}" for number in range(1100))
    large = pack(PortableChange("label many", (Patch("Node", names, {"metadata": {"labels": {"a": "b"}}}),)))
    assert LONGEST_COOKIE < len(large) < 5_000
    async with served_objects(*(node(name) for name in names), pod("x", nodeSelector={"a": "b"})) as visitor:
        await visitor.post("/what-if", cordon=names[0])
        page = await visitor.post("/what-if", apply=large)
        assert "label many ×" in page.text
        assert "These changes are too large for your basket. Their address has them." in page.text
        assert "1 pod from pending to placed" in page.text
        assert "label many" not in (await visitor.page("/what-if")).text
        headers = {"Origin": visitor.base}
        async with visitor.session.post(
            f"{visitor.base}/what-if", data={"apply": large * 2}, headers=headers
        ) as response:
            assert response.status == 400
            assert "The basket is full" in await response.text()


async def test_everything_is_placed_anew():
    owner = {"kind": "ReplicaSet", "name": "web-1", "controller": True, "apiVersion": "apps/v1", "uid": "o"}
    nodes = [node("a", "4"), node("b", "4")]
    pods = [pod("web-0", "1", node="a"), pod("web-1", "1", node="b"), pod("big-0", "4")]
    for each in pods[:2]:
        each["metadata"]["ownerReferences"] = [owner]
    pods[2]["spec"] |= {"priority": 9, "preemptionPolicy": "Never"}
    async with served_objects(*nodes, *pods) as visitor:
        before = await visitor.get("/")
        page = await visitor.post("/what-if", replace_all="yes")
        assert "place all pods anew ×" in page.text
        assert "If you place all pods anew: 1 pod from pending to placed, 1 on another node." in page.text
        assert "Place everything anew" not in page.text
        assert await visitor.get("/") == before


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
    page = await page_of(f"/what-if?{query}", *small_cluster())
    assert message in page.text


async def test_what_if_leaves_today_as_it_was():
    async with served_objects(node("a", "2"), node("b", "2"), pod("web", "2", node="a")) as visitor:
        before = await visitor.get("/")
        await visitor.get("/what-if?remove_nodes=a&add_nodes=5xlike:b")
        assert await visitor.get("/") == before
