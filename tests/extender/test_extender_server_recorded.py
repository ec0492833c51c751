"""Recorded requests of the stock scheduler, byte for byte except times, on the same cluster."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from asking import TIME, serving
from tests.support.tables import cases

from bayplan import Plugin, Rejections, Status, filter_plugin
from bayplan.running.extender import wire
from bayplan.testing.in_memory import make_client

pytestmark = pytest.mark.feature("Serving as an extender: recordings of kube-scheduler")

RECORDED = Path(__file__).parents[1] / "data" / "kube-scheduler" / "extender.jsonl"
EXCHANGES = [json.loads(line.replace("<time>", TIME)) for line in RECORDED.read_text().splitlines()]
IDS = [f"{each['mode']} {each['verb']} {number}" for number, each in enumerate(EXCHANGES)]
CALLS = list(zip(IDS, EXCHANGES, strict=True))

RESULTS = {
    "filter": wire.ExtenderFilterResult,
    "prioritize": list[wire.HostPriority],
    "preempt": wire.ExtenderPreemptionResult,
}


class OnlyTwo(Plugin):
    """Behaves like the recorded extender: rejects the third node, scores by position, and accepts all victims."""

    name = "OnlyTwo"

    def filter_nodes(self, cycle, pod, nodes):
        if pod.name == "vip":
            return None
        return Rejections.where(np.arange(len(nodes)) > 1, Status.unschedulable("turned down by the extender"))

    def score_nodes(self, cycle, pod, nodes):
        return np.arange(len(nodes)) * 10


def documents():
    """The cluster of the recordings: its nodes, and the pods that were victims."""
    found = {}
    for each in EXCHANGES:
        for node in (each["request"].get("Nodes") or {}).get("items") or ():
            found["Node", node["metadata"]["name"]] = node
        for node, victims in (each["request"].get("NodeNameToVictims") or {}).items():
            for pod in victims["Pods"]:
                found["Pod", node] = pod
    for (kind, _), document in found.items():
        yield {**document, "apiVersion": "v1", "kind": kind}


def as_go_reads(verb, answer):
    """A response as a Go program decodes it: empty and missing fields are equal."""
    return msgspec.to_builtins(wire.read(RESULTS[verb], json.dumps(answer).encode()))


def essence(verb, answer):
    """A response as the stock scheduler interprets it."""
    if verb != "filter":
        return as_go_reads(verb, answer)
    nodes = answer.get("NodeNames")
    if answer.get("Nodes") is not None:
        nodes = [node["metadata"]["name"] for node in answer["Nodes"]["items"]]
    failed = answer.get("FailedNodes") or {}
    return nodes, failed, answer.get("FailedAndUnresolvableNodes") or {}, answer.get("Error", "")


@cases(
    "mode, connected",
    {
        "whole nodes": ("objects", False),
        "whole nodes, connected": ("objects", True),
        "names, connected": ("cache", True),
    },
)
async def test_responses_equal_those_of_the_recorded_extender(mode, connected):
    async with serving(OnlyTwo, client=make_client(*documents()) if connected else None) as extender:
        for each in EXCHANGES:
            if each["mode"] == mode:
                answer = await extender.ask(each["verb"], **each["request"])
                assert essence(each["verb"], answer) == essence(each["verb"], each["response"])


@pytest.mark.parametrize("exchange", [pytest.param(each, id=name) for name, each in CALLS if each["verb"] == "filter"])
async def test_whole_nodes_are_returned_unchanged(exchange):
    sent = exchange["request"]["Nodes"]
    async with serving(OnlyTwo, client=make_client(*documents())) as extender:
        answer = await extender.ask("filter", **exchange["request"])
    if sent is None:
        assert answer["Nodes"] is None
    else:
        assert all(node in sent["items"] for node in answer["Nodes"]["items"])
        assert answer["NodeNames"] is None


def test_all_verbs_are_recorded_in_both_modes():
    verbs = ("filter", "prioritize", "preempt")
    assert {(each["mode"], each["verb"]) for each in EXCHANGES} == {(m, v) for m in ("objects", "cache") for v in verbs}


async def test_unresolvable_nodes_have_their_own_map():
    never = filter_plugin(name="never")(lambda _pod, _node: Status.unresolvable("never"))
    async with serving(never) as extender:
        answer = await extender.ask("filter", **EXCHANGES[0]["request"])
    assert set(answer["FailedAndUnresolvableNodes"].values()) == {"never"}
    assert answer["FailedNodes"] == {}
