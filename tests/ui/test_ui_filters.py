"""The plan and the queue of a namespace, and the plan by any label."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_page import node, pod, served_objects

from bayplan.core.api.well_known_labels import ZONE
from bayplan.faces.ui import grouping as grouping_module
from bayplan.faces.ui.bay_plan import natural
from bayplan.faces.ui.filters import near_names
from bayplan.faces.ui.grouping import grouping, varying_keys
from bayplan.insight import QuestionError

POOL = "karpenter.sh/nodepool"


def in_namespace(name, namespace, **options):
    found = pod(name, **options)
    found["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{name}"}
    return found


def cluster():
    for number in range(4):
        labels = {POOL: "general" if number < 3 else "gpu", "rack": f"r{number}", "arch": "x"}
        yield node(f"n{number}", labels={**labels, **({"disk": "ssd"} if number == 0 else {})})
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-empty"}}
    yield in_namespace("web-0", "team-a", cpu="1", node="n0")
    yield in_namespace("etl-0", "team-b", cpu="2", node="n0")
    yield in_namespace("big-0", "team-a", cpu="64")
    yield in_namespace("big-1", "team-b", cpu="64")


async def test_plan_of_a_namespace_counts_only_its_pods():
    async with served_objects(*cluster()) as visitor:
        everything = await visitor.page("/")
        page = await visitor.page("/?namespace=team-a&by=rack")
        by_pods = await visitor.page("/?namespace=team-b&resource=pods")
        empty = await visitor.page("/?namespace=team-empty")
    assert "19% · 3 of 16 cpu · 4 nodes · 2 pods · 2 pending" in everything.text
    assert "Bay plan of namespace team-a" in page.text
    assert "6% · 1 of 16 cpu · 4 nodes · 1 pod · 1 pending" in page.text
    assert page.links["/nodes/n0"] == "n0, cpu 25%, 1 pod"
    assert "/pods/team-a/web-0" in page.links
    assert "/pods/team-b/etl-0" not in page.links
    assert "/pods/team-b/big-1" not in page.links
    assert by_pods.links["/nodes/n0"] == "n0, pods 1%, 1 pod"
    assert "0 pods · 0 pending" in empty.text


async def test_namespace_stays_in_links():
    async with served_objects(*cluster()) as visitor:
        plan = await visitor.page("/?namespace=team-a&by=rack")
        queue = await visitor.page("/queue?namespace=team-a")
        workloads = await visitor.page("/workloads?namespace=team-a")
    navigation = {"/?namespace=team-a", "/queue?namespace=team-a", "/workloads?namespace=team-a", "/what-if"}
    for page in (plan, queue, workloads):
        assert navigation <= page.links.keys()
    assert "/?resource=memory&by=rack&namespace=team-a" in plan.links


async def test_queue_of_a_namespace():
    async with served_objects(*cluster()) as visitor:
        page = await visitor.page("/queue?namespace=team-a")
        empty = await visitor.page("/queue?namespace=team-empty")
    assert "Queue of namespace team-a" in page.text
    assert "1 pod pending" in page.text
    assert "/pods/team-b/big-1" not in page.links
    assert "Every pod of namespace team-empty has a node." in empty.text


@pytest.mark.parametrize("path", ["/", "/queue", "/workloads"])
async def test_unknown_namespace_offers_near_names(path):
    async with served_objects(*cluster()) as visitor:
        page = await visitor.page(f"{path}?namespace=team-c&by=rack", status=404)
        far = await visitor.page(f"{path}?namespace=%3Cb%3E", status=404)
    assert "There is no namespace team-c; did you mean team-" in page.text
    assert f"{path}?namespace=team-a&by=rack" in page.links
    assert "There is no namespace <b>." in far.text


async def test_plan_is_grouped_by_a_label():
    async with served_objects(*cluster()) as visitor:
        by_pool = await visitor.page(f"/?by={POOL}")
        by_disk = await visitor.page("/?by=disk")
        unknown = await visitor.page("/?by=dsik", status=404)
        text = await visitor.get("/")
    assert "general 3 nodes · 25% cpu · 2 pods" in by_pool.text
    assert "gpu 1 node · 0% cpu · 0 pods" in by_pool.text
    assert "ssd 1 node · 75% cpu · 2 pods" in by_disk.text
    assert "without disk 3 nodes · 0% cpu · 0 pods" in by_disk.text
    assert "There is no node with the label dsik; did you mean disk?" in unknown.text
    assert "/?by=disk" in unknown.links
    assert f"<option>{POOL}</option><option>disk</option></datalist>" in text


def test_keys_that_vary_are_offered_pools_first():
    nodes = [
        {ZONE: f"z{n % 3}", "pool": f"p{n % 2}", "a": "same", "host": f"h{n}", "b": "x", **({"c": ""} if n else {})}
        for n in range(9)
    ]
    assert varying_keys(nodes) == ["pool", ZONE, "c"]
    assert varying_keys([]) == []


def test_most_groups_are_limited(monkeypatch):
    monkeypatch.setattr(grouping_module, "MOST_GROUPS", 2)
    nodes = [{"k": value} for value in "aaabbcd"] + [{}]
    groups = grouping(nodes, "k")
    assert [groups.of(each) for each in nodes] == [*"aaabb", *["3 other values of k"] * 3]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"])), max_size=8))
def test_nodes_share_a_group_if_and_only_if_they_share_the_value(nodes):
    for key in "abc":
        if not any(key in each for each in nodes):
            with pytest.raises(QuestionError, match=f"there is no node with the label {key}"):
                grouping(nodes, key)
            continue
        groups = grouping(nodes, key)
        for one in nodes:
            for other in nodes:
                assert (groups.of(one) == groups.of(other)) == (one.get(key) == other.get(key))


def test_numbers_in_names_are_in_their_order():
    names = ["n10", "n2", "n1", "n", "m3", "1", "n2-b", ""]
    assert sorted(names, key=natural) == ["", "1", "m3", "n", "n1", "n2", "n2-b", "n10"]


def test_near_names():
    known = ["payments", "payments-production", "team-a", "kube-system"]
    assert near_names("paymets", known) == ["payments"]
    assert near_names("production", known) == ["payments-production"]
    assert near_names("zzz", known) == []
