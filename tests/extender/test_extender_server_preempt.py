"""What `preempt` answers: candidates that the plugins would still turn down without the victims are out."""

from __future__ import annotations

import pytest
from asking import cluster, no_c, node, pod, serving

from bayplan import NodeNames, Plugin, Status, filter_plugin

pytestmark = pytest.mark.feature("Serving as an extender: preempt")


@filter_plugin
def alone(_pod, node):
    """Only on nodes without pods."""
    return "occupied" if node.pods else None


class Counts(Plugin):
    """Remembers in PreFilter what it saw of pods, and is told of those that go."""

    name = "Counts"

    def __init__(self, handle):
        self._handle = handle

    def pre_filter(self, cycle, pod, nodes):
        names = [nodes.name(position) for position in range(len(nodes))]
        cycle.data[self.name] = _Count({name: int(nodes.pod_count[at]) for at, name in enumerate(names)})

    def filter(self, cycle, pod, node):
        return "occupied" if cycle.data[self.name].pods[node.name] else None

    def add_pod(self, cycle, pod, added, node):
        cycle.data[self.name].pods[node.name] += 1

    def remove_pod(self, cycle, pod, removed, node):
        cycle.data[self.name].pods[node.name] -= 1


class _Count:
    def __init__(self, pods):
        self.pods = pods

    def clone(self):
        return _Count(dict(self.pods))


class NeverAnywhere(Plugin):
    name = "NeverAnywhere"

    def pre_filter(self, cycle, pod, nodes):
        return Status.unresolvable("never")


class NotNow(Plugin):
    name = "NotNow"

    def pre_filter(self, cycle, pod, nodes):
        return "not now"

    def filter(self, cycle, pod, node):
        return None


class OnlyA(Plugin):
    name = "OnlyA"

    def pre_filter(self, cycle, pod, nodes):
        return NodeNames(frozenset({"a"}))


@filter_plugin
def breaks(_pod, node):
    raise RuntimeError(node.name)


PODS = {name: pod(name, on=name[0]) for name in ("a1", "b1", "b2", "c1")}


def meta(**victims):
    return {
        node: {"Pods": [{"UID": f"uid-{each}"} for each in pods], "NumPDBViolations": 0}
        for node, pods in victims.items()
    }


def whole(**victims):
    return {node: {"Pods": [PODS[each] for each in pods], "NumPDBViolations": 0} for node, pods in victims.items()}


FORMS = [
    pytest.param("NodeNameToMetaVictims", meta, id="uids"),
    pytest.param("NodeNameToVictims", whole, id="whole pods"),
]


@pytest.mark.parametrize(("field", "form"), FORMS)
@pytest.mark.parametrize(
    ("plugin", "victims", "kept"),
    [
        pytest.param(alone, {"a": ["a1"], "b": ["b1"]}, {"a": ["a1"]}, id="enough has to go"),
        pytest.param(alone, {"b": ["b1", "b2"]}, {"b": ["b1", "b2"]}, id="all go"),
        pytest.param(Counts, {"a": ["a1"], "b": ["b1"]}, {"a": ["a1"]}, id="PreFilter is told"),
        pytest.param(no_c, {"b": ["b1"], "c": ["c1"]}, {"b": ["b1"]}, id="no victim helps"),
        pytest.param(NeverAnywhere, {"a": ["a1"]}, {}, id="PreFilter refuses for good"),
        pytest.param(NotNow, {"a": ["a1"]}, {"a": ["a1"]}, id="PreFilter refuses for now"),
        pytest.param(OnlyA, {"a": ["a1"], "b": ["b1"]}, {"a": ["a1"]}, id="PreFilter narrows"),
        pytest.param(no_c, {}, {}, id="no candidates"),
    ],
)
async def test_candidates(plugin, victims, kept, field, form):
    async with serving(plugin, client=cluster("a", "b", "c", pods=tuple(PODS.values()))) as extender:
        answer = await extender.ask("preempt", Pod=pod("vip", priority=1000), **{field: form(**victims)})
    assert answer == {"NodeNameToMetaVictims": meta(**kept)}


async def test_disruption_budgets_are_passed_on():
    candidates = meta(a=["a1"])
    candidates["a"]["NumPDBViolations"] = 3
    async with serving(no_c, client=cluster("a")) as extender:
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToMetaVictims=candidates)
    assert answer["NodeNameToMetaVictims"] == candidates


async def test_a_node_that_is_not_known_is_no_candidate():
    async with serving(no_c, client=cluster("a")) as extender:
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToMetaVictims=meta(a=["a1"], new=["c1"]))
    assert answer["NodeNameToMetaVictims"] == meta(a=["a1"])


async def test_a_victim_that_has_gone_changes_nothing():
    async with serving(alone, client=cluster("a", "b", pods=(PODS["b1"],))) as extender:
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToMetaVictims=meta(a=["gone"], b=["gone"]))
    assert answer["NodeNameToMetaVictims"] == meta(a=["gone"])


async def test_without_a_connection_nodes_are_as_they_were_last_sent():
    async with serving(no_c) as extender:
        await extender.filter_whole(node("a"), node("c"))
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToVictims=whole(a=["a1"], b=["b1"], c=["c1"]))
    assert answer["NodeNameToMetaVictims"] == meta(a=["a1"])


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        pytest.param({}, (400, "the request has neither NodeNameToVictims nor NodeNameToMetaVictims\n"), id="nothing"),
        pytest.param(
            {"NodeNameToVictims": {"a": {"Pods": [{}]}}},
            (400, "NodeNameToVictims['a'] has something that is no pod with a uid\n"),
            id="no pod",
        ),
        pytest.param(
            {"NodeNameToMetaVictims": {"a": {"Pods": 3}}},
            (400, "NodeNameToMetaVictims['a'].Pods: Expected `array`, got `int`\n"),
            id="no list",
        ),
        pytest.param(
            {"NodeNameToMetaVictims": meta(a=[])},
            (500, "plugin breaks failed in Filter: RuntimeError: a\n"),
            id="a plugin that fails",
        ),
    ],
)
async def test_a_failure_is_a_status_as_the_protocol_has_no_place_for_it(args, answer):
    async with serving(breaks, client=cluster("a")) as extender:
        assert await extender.fail("preempt", Pod=pod(), **args) == answer
