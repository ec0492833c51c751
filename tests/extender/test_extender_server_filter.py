"""The verb filter: the feasible nodes, their form, and the reasons for the others."""

import json

import pytest
from asking import cluster, no_c, node, pod, serving
from tests.support.tables import cases

from bayplan import NodeNames, Plugin, Rejections, Status, filter_plugin
from bayplan.core.cluster.state import ClusterState
from bayplan.running.extender import wire
from bayplan.running.extender.sent_nodes import SentNodes

pytestmark = pytest.mark.feature("Serving as an extender: filter")

NODES = ("a", "b", "c")


@filter_plugin
def unresolvable_c(_pod, node):
    return Status.unresolvable("c never") if node.name == "c" else None


@filter_plugin
def wordless(_pod, node):
    return Status.unschedulable() if node.name == "c" else None


@filter_plugin
def breaks_on_b(_pod, node):
    if node.name == "b":
        raise KeyError("zone")


@filter_plugin
def crowded(_pod, node):
    return f"{node.pod_count} pods" if node.pod_count else None


@filter_plugin
def sees_labels(_pod, node):
    return node.labels.get("verdict")


class Table(Plugin):
    name = "Table"

    def filter_nodes(self, cycle, pod, nodes):
        return Rejections.where(nodes.label_in("kubernetes.io/hostname", ["c"]), Status.unschedulable("c is out"))


class Refuses(Plugin):
    name = "Refuses"

    def pre_filter(self, cycle, pod, nodes):
        return "not today"


class RefusesForGood(Plugin):
    name = "RefusesForGood"

    def pre_filter(self, cycle, pod, nodes):
        return Status.unresolvable("never")


class OnlyB(Plugin):
    name = "OnlyB"

    def pre_filter(self, cycle, pod, nodes):
        return NodeNames(frozenset({"b", "elsewhere"}))


class Remembers(Plugin):
    name = "Remembers"

    def pre_filter(self, cycle, pod, nodes):
        cycle.data[self.name] = len(nodes)

    def filter(self, cycle, pod, node):
        return f"{cycle.data[self.name]} nodes" if node.name == "c" else None


CASES = [
    pytest.param(no_c, "ab", {"c": "c is out"}, {}, id="a reason"),
    pytest.param(Table, "ab", {"c": "c is out"}, {}, id="whole table"),
    pytest.param(unresolvable_c, "ab", {}, {"c": "c never"}, id="unresolvable"),
    pytest.param(wordless, "ab", {"c": "rejected by plugin wordless"}, {}, id="no reason"),
    pytest.param(Refuses, "", dict.fromkeys(NODES, "not today"), {}, id="PreFilter rejects the pod"),
    pytest.param(RefusesForGood, "", {}, dict.fromkeys(NODES, "never"), id="PreFilter rejects the pod as unresolvable"),
    pytest.param(
        OnlyB, "b", {}, dict.fromkeys("ac", "node(s) didn't satisfy plugin(s) [OnlyB]"), id="PreFilter returns nodes"
    ),
    pytest.param(Remembers, "ab", {"c": "3 nodes"}, {}, id="PreFilter writes cycle state"),
]


@pytest.mark.parametrize(("plugin", "left", "failed", "unresolvable"), CASES)
async def test_the_response_to_names_has_names(plugin, left, failed, unresolvable):
    async with serving(plugin, client=cluster(*NODES)) as extender:
        answer = await extender.filter(*NODES)
    assert answer == {
        "Nodes": None,
        "NodeNames": list(left),
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }


@pytest.mark.parametrize(("plugin", "left", "failed", "unresolvable"), CASES)
async def test_the_response_to_whole_nodes_has_the_same_nodes(plugin, left, failed, unresolvable):
    nodes = {name: node(name, spec={"notYetInvented": [1, None]}) for name in NODES}
    async with serving(plugin) as extender:
        answer = await extender.filter_whole(*nodes.values())
    assert answer == {
        "Nodes": {"metadata": {}, "items": [nodes[name] for name in left]},
        "NodeNames": None,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }


async def test_the_order_of_the_request_is_kept():
    async with serving(no_c, client=cluster(*NODES)) as extender:
        assert (await extender.filter("b", "c", "a"))["NodeNames"] == ["b", "a"]


async def test_no_feasible_nodes():
    async with serving(no_c) as extender:
        assert (await extender.filter_whole())["Nodes"]["items"] == []


@cases(
    "plugin, error",
    {
        "an exception": (breaks_on_b, "running \"breaks_on_b\" filter plugin: KeyError: 'zone'"),
        "an invalid result": (
            filter_plugin(name="three")(lambda _pod, _node: 3),
            'running "three" filter plugin: returned 3; expected None, a reason (str) or a Status',
        ),
        "an error status": (
            filter_plugin(name="broken")(lambda _pod, _node: Status.error("no licence")),
            'running "broken" filter plugin: no licence',
        ),
    },
)
async def test_the_error_names_a_plugin_that_fails(plugin, error):
    async with serving(plugin, client=cluster(*NODES)) as extender:
        answer = await extender.filter(*NODES)
    assert answer["Error"] == error
    assert answer["NodeNames"] is None


# Nodes and pods from the watch


async def test_a_connected_extender_sees_pods():
    async with serving(crowded, client=cluster(*NODES, pods=(pod("old", on="b"),))) as extender:
        assert (await extender.filter(*NODES))["FailedNodes"] == {"b": "1 pods"}
        whole = await extender.filter_whole(*map(node, NODES))
        assert [each["metadata"]["name"] for each in whole["Nodes"]["items"]] == ["a", "c"]


async def test_unknown_nodes_are_rejected():
    async with serving(no_c, client=cluster("a", "c")) as extender:
        answer = await extender.filter("new", "a", "c", "newer")
        assert answer["NodeNames"] == ["a"]
        unknown = "node(s) not known to the extender"
        assert answer["FailedNodes"] == {"new": unknown, "c": "c is out", "newer": unknown}
        whole = await extender.filter_whole(node("new"), node("a"))
        assert [each["metadata"]["name"] for each in whole["Nodes"]["items"]] == ["a"]


async def test_a_deleted_node_with_pods_is_rejected():
    async with serving(no_c, client=cluster("a", pods=(pod("orphan", on="gone"),))) as extender:
        assert (await extender.filter("a", "gone"))["NodeNames"] == ["a"]


async def test_names_require_a_connection():
    async with serving(no_c) as extender:
        answer = await extender.filter(*NODES)
    assert answer["NodeNames"] is None
    assert "start it with --kubeconfig FILE or --watch, or set nodeCacheCapable: false" in answer["Error"]


async def test_requests_fail_before_the_first_sync():
    client = cluster(*NODES)
    client.transport.reachable = False
    async with serving(no_c, client=client, synced=False) as extender:
        assert (await extender.filter(*NODES))["Error"] == "the extender has not synced with the cluster yet"
        for verb, args in (("prioritize", {"NodeNames": []}), ("preempt", {"NodeNameToMetaVictims": {}})):
            assert await extender.fail(verb, Pod=pod(), **args) == (
                503,
                "the extender has not synced with the cluster yet\n",
            )
        assert (await extender.send("GET", "/readyz"))[0] == 503
        assert (await extender.send("GET", "/healthz"))[0] == 200


async def test_only_new_versions_of_nodes_are_decoded():
    first, again = node("a", "1"), node("a", "1", labels={"verdict": "was not looked at"})
    second = node("a", "2", labels={"verdict": "tainted"})
    async with serving(sees_labels) as extender:
        for sent, failed in ((first, {}), (again, {}), (second, {"a": "tainted"}), (first, {})):
            assert (await extender.filter_whole(sent))["FailedNodes"] == failed


async def test_a_node_without_a_version_is_decoded_each_time():
    async with serving(sees_labels) as extender:
        for verdict in ("one", "two"):
            sent = node("a", "", labels={"verdict": verdict})
            assert (await extender.filter_whole(sent))["FailedNodes"] == {"a": verdict}


async def test_only_the_invalid_node_is_rejected():
    broken = node("broken", status={"allocatable": {"cpu": "many"}})
    async with serving(no_c) as extender:
        answer = await extender.filter_whole(node("a"), broken, node("c"))
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["a"]
    assert answer["FailedNodes"]["c"] == "c is out"
    assert answer["FailedNodes"]["broken"].startswith("the node is invalid: ")
    assert "many" in answer["FailedNodes"]["broken"]


@cases(
    "args, error",
    {
        "no pod": ({"Pod": None}, "the request has no Pod"),
        "an incomplete pod": ({"Pod": {"metadata": {"name": "x"}}}, "Pod is invalid: "),
        "not an object": ({"Pod": 3}, "Pod is invalid: "),
        "no nodes": ({"NodeNames": None}, "the request has neither Nodes nor NodeNames"),
        "names that aren't a list": ({"NodeNames": "a"}, "NodeNames: Expected `array`, got `str`"),
        "a name that isn't a string": ({"NodeNames": ["a", 1]}, "NodeNames[1]: Expected `str`, got `int`"),
    },
)
async def test_invalid_requests_are_rejected(args, error):
    async with serving(no_c, client=cluster(*NODES)) as extender:
        assert (await extender.filter(*NODES, **args))["Error"].startswith(error)


async def test_a_node_without_a_name():
    async with serving(no_c) as extender:
        answer = await extender.filter_whole(node("a"), {"metadata": {}})
    assert answer["Error"] == "Nodes.items[1] is not a node with a name"


def test_nodes_that_are_no_longer_sent_are_removed():
    state = ClusterState()
    known = SentNodes(state, kept=2)
    counts = []
    for number in range(6):
        args = wire.read(wire.ExtenderArgs, json.dumps({"Nodes": {"items": [node(f"n{number}")]}}).encode())
        assert known.requested(args).names == [f"n{number}"]
        counts.append(state.table.live_count)
    assert counts == [1, 2, 3, 3, 3, 3]
    assert state.table.row_of.keys() == {"n3", "n4", "n5"}
