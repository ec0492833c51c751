"""Recorded exchanges of kube-scheduler and an extender: this client sends and concludes the same."""

import json
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from tests.extender.stub_extender import StubExtender

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config.types import Extender
from bayplan.core.executor.handlers import SentNode
from bayplan.core.framework.extenders import ExtenderFilter, ExtenderPreempt, ExtenderScore
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.status import Status
from bayplan.running.extender.client import HttpExtenders

pytestmark = pytest.mark.feature("HTTP extenders: recorded of kube-scheduler")

RECORDED = Path(__file__).parents[1] / "data/kube-scheduler/extender.jsonl"
NUMBER = count()
EXCHANGES = [
    pytest.param(exchange, id=f"{exchange['mode']}-{exchange['verb']}-{next(NUMBER)}")
    for exchange in map(json.loads, RECORDED.read_text().replace("<time>", "2026-01-01T00:00:00Z").splitlines())
]


def from_server(kind, sent):
    """The JSON that kube-scheduler's request was made from."""
    metadata = {**sent["metadata"], "managedFields": [{"manager": "kubectl"}]}
    return json.dumps({"kind": kind, "apiVersion": "v1", **sent, "metadata": metadata}).encode()


def state_of(request):
    """A cluster with the nodes and pods of the exchange."""
    state = ClusterState()
    names = request.get("NodeNames") or request.get("NodeNameToMetaVictims") or request.get("NodeNameToVictims") or ()
    sent = request["Nodes"]["items"] if request.get("Nodes") else [{"metadata": {"name": name}} for name in names]
    for each in sent:
        node = SentNode.keep(from_server("Node", each))
        state.set_node(node.object, node.raw)
    for name, victims in (request.get("NodeNameToVictims") or {}).items():
        for pod in victims["Pods"]:
            state.set_pod(PodInfo.from_raw(from_server("Pod", {**pod, "spec": {**pod["spec"], "nodeName": name}})))
    for name, victims in (request.get("NodeNameToMetaVictims") or {}).items():
        for pod in victims["Pods"]:
            document = {"metadata": {"name": "v", "uid": pod["UID"]}, "spec": {"containers": [], "nodeName": name}}
            state.set_pod(PodInfo.from_raw(json.dumps(document).encode()))
    return state


def question_of(exchange, state):
    pod = PodInfo.from_raw(from_server("Pod", exchange["request"]["Pod"]))
    if exchange["verb"] == "preempt":
        nodes = state.nodes
        candidates = [Candidate(nodes.name(at), tuple(nodes.pods(at)), 0) for at in np.flatnonzero(nodes.live).tolist()]
        return ExtenderPreempt(pod, tuple(candidates), nodes)
    kind = ExtenderFilter if exchange["verb"] == "filter" else ExtenderScore
    return kind(pod, state.nodes.at(np.flatnonzero(state.nodes.live)))


def concluded(verb, answer):
    if verb == "filter":
        return list(answer.feasible), answer.rejected
    if verb == "prioritize":
        return answer
    return {each.node_name: [victim.uid for victim in each.victims] for each in answer}


def expected(verb, response):
    if verb == "filter":
        left = response.get("NodeNames") or [node["metadata"]["name"] for node in response["Nodes"]["items"]]
        return left, {name: Status.unschedulable(why) for name, why in response["FailedNodes"].items()}
    if verb == "prioritize":
        return {each["Host"]: each["Score"] * 10 * 2 for each in response}
    victims = response["NodeNameToMetaVictims"]
    return {name: [pod["UID"] for pod in each["Pods"]] for name, each in victims.items()}


@pytest.mark.parametrize("exchange", EXCHANGES)
async def test_recorded_exchange(exchange):
    verb, request = exchange["verb"], exchange["request"]
    state = state_of(request)
    async with StubExtender(**{verb: exchange["response"]}) as stub:
        extender = Extender(
            urlPrefix=stub.url, weight=2, nodeCacheCapable=exchange["mode"] == "cache", **{f"{verb}Verb": verb}
        )
        async with HttpExtenders([extender]) as client:
            answer = await client.answer(question_of(exchange, state))
    assert stub.asked == [(verb, request)]
    (sent,) = stub.requests
    assert (sent.method, sent.headers["Content-Type"]) == (exchange["method"], exchange["contentType"])
    assert concluded(verb, answer) == expected(verb, exchange["response"])
