"""The verb preempt: it removes candidates that plugins reject even without the victims."""

import pytest
from asking import cluster, no_c, node, pod, serving
from tests.support.tables import cases

from bayplan import NodeNames, Plugin, Status, filter_plugin

pytestmark = pytest.mark.feature("Serving as an extender: preempt")


@filter_plugin
def alone(_pod, node):
    """Accepts only nodes without pods."""
    return "occupied" if node.pods else None


class Counts(Plugin):
    """Counts pods in PreFilter, and updates the count in its extensions."""

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


FORMS = {"uids": ("NodeNameToMetaVictims", meta), "whole pods": ("NodeNameToVictims", whole)}


@cases("field, form", FORMS)
@cases(
    "plugin, victims, kept",
    {
        "all pods must be victims": (alone, {"a": ["a1"], "b": ["b1"]}, {"a": ["a1"]}),
        "several victims": (alone, {"b": ["b1", "b2"]}, {"b": ["b1", "b2"]}),
        "PreFilter extensions": (Counts, {"a": ["a1"], "b": ["b1"]}, {"a": ["a1"]}),
        "rejected without the victims": (no_c, {"b": ["b1"], "c": ["c1"]}, {"b": ["b1"]}),
        "PreFilter rejects as unresolvable": (NeverAnywhere, {"a": ["a1"]}, {}),
        "PreFilter rejects": (NotNow, {"a": ["a1"]}, {"a": ["a1"]}),
        "PreFilter returns nodes": (OnlyA, {"a": ["a1"], "b": ["b1"]}, {"a": ["a1"]}),
        "no candidates": (no_c, {}, {}),
    },
)
async def test_candidates(plugin, victims, kept, field, form):
    async with serving(plugin, client=cluster("a", "b", "c", pods=tuple(PODS.values()))) as extender:
        answer = await extender.ask("preempt", Pod=pod("vip", priority=1000), **{field: form(**victims)})
    assert answer == {"NodeNameToMetaVictims": meta(**kept)}


async def test_violations_of_disruption_budgets_are_kept():
    candidates = meta(a=["a1"])
    candidates["a"]["NumPDBViolations"] = 3
    async with serving(no_c, client=cluster("a")) as extender:
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToMetaVictims=candidates)
    assert answer["NodeNameToMetaVictims"] == candidates


async def test_unknown_nodes_are_not_candidates():
    async with serving(no_c, client=cluster("a")) as extender:
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToMetaVictims=meta(a=["a1"], new=["c1"]))
    assert answer["NodeNameToMetaVictims"] == meta(a=["a1"])


async def test_deleted_victims_are_ignored():
    async with serving(alone, client=cluster("a", "b", pods=(PODS["b1"],))) as extender:
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToMetaVictims=meta(a=["gone"], b=["gone"]))
    assert answer["NodeNameToMetaVictims"] == meta(a=["gone"])


async def test_without_a_connection_the_last_sent_nodes_are_used():
    async with serving(no_c) as extender:
        await extender.filter_whole(node("a"), node("c"))
        answer = await extender.ask("preempt", Pod=pod(), NodeNameToVictims=whole(a=["a1"], b=["b1"], c=["c1"]))
    assert answer["NodeNameToMetaVictims"] == meta(a=["a1"])


@cases(
    "args, answer",
    {
        "no victims": ({}, (400, "the request has neither NodeNameToVictims nor NodeNameToMetaVictims\n")),
        "no pod": (
            {"NodeNameToVictims": {"a": {"Pods": [{}]}}},
            (400, "NodeNameToVictims['a'] has an item that is not a pod with a uid\n"),
        ),
        "not a list": (
            {"NodeNameToMetaVictims": {"a": {"Pods": 3}}},
            (400, "NodeNameToMetaVictims['a'].Pods: Expected `array`, got `int`\n"),
        ),
        "a plugin that fails": (
            {"NodeNameToMetaVictims": meta(a=[])},
            (500, 'running "breaks" filter plugin: RuntimeError: a\n'),
        ),
    },
)
async def test_errors_are_http_statuses(args, answer):
    async with serving(breaks, client=cluster("a")) as extender:
        assert await extender.fail("preempt", Pod=pod(), **args) == answer
