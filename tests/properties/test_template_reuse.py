"""Reusing what earlier pods left must change no decision: streams of pods and changes, decided with and without it."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from lightkube.models.core_v1 import Node, Pod

from bayplan.api.objects import convert
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.config import default_profile
from bayplan.scheduling import Decision, Templates, decide

SHAPES: list[dict[str, Any]] = [
    {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
    {"containers": [{"name": "c", "image": "batch"}]},
    {
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "2", "example.com/gpu": "1"}}}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    },
    {
        "containers": [{"name": "c", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}],
        "nodeSelector": {"zone": "a"},
    },
    {
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "100m"}}}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
                    }
                ]
            }
        },
    },
]

node = st.fixed_dictionaries(
    {
        "name": st.sampled_from([f"node-{number}" for number in range(12)]),
        "cpu": st.sampled_from(["2", "4", "8"]),
        "gpu": st.sampled_from(["0", "2"]),
        "zone": st.sampled_from(["a", "b", None]),
        "taint": st.sampled_from([None, "NoSchedule", "PreferNoSchedule"]),
        "cordoned": st.booleans(),
        "image": st.sampled_from([None, "web:latest", "batch:latest"]),
    }
)
change = st.one_of(
    st.tuples(st.just("pod"), st.integers(0, len(SHAPES) - 1)),
    st.tuples(st.just("pod"), st.just(0)),
    st.tuples(st.just("pod"), st.just(0)),
    st.tuples(st.just("set node"), node),
    st.tuples(st.just("remove node"), st.sampled_from([f"node-{number}" for number in range(12)])),
    st.tuples(st.just("remove pod"), st.integers(0, 1000)),
    st.tuples(st.just("nominate"), st.integers(0, 11)),
    st.tuples(st.just("clear nominations"), st.none()),
)


class World:
    """One scheduler's view, with or without templates."""

    def __init__(self, *, reuse: bool) -> None:
        self.state = ClusterState()
        self.profile = default_profile("test", _Handle(self.state))
        self.templates = Templates(self.profile) if reuse else None
        self.rng = random.Random(0)
        self.placed: list[str] = []
        self.decisions: list[tuple[Any, ...]] = []

    def apply(self, number: int, kind: str, what: Any) -> None:
        if kind == "pod":
            self._decide(number, SHAPES[what])
        elif kind == "set node":
            self.state.set_node(_node(what))
        elif kind == "remove node":
            self.state.remove_node(what)
        elif kind == "remove pod" and self.placed:
            self.state.remove_pod(self.placed.pop(what % len(self.placed)))
        elif kind == "nominate":
            self.state.nominations.add(_pod(f"nominee-{number}", SHAPES[0]), f"node-{what}")
        elif kind == "clear nominations":
            for pods in list(self.state.nominations.nodes.values()):
                for uid in list(pods):
                    self.state.nominations.remove(uid)

    def _decide(self, number: int, shape: dict[str, Any]) -> None:
        pod = _pod(f"pod-{number}", shape)
        decision = decide(self.profile, self.state, pod, self.rng, templates=self.templates)
        self.decisions.append(_said(decision, self.state))
        if decision.node:
            self.state.assume(pod, decision.node)
            self.placed.append(pod.uid)


class _Handle:
    binder = None

    def __init__(self, state: ClusterState) -> None:
        self.state = state

    @property
    def nodes(self):
        return self.state.nodes

    @property
    def nominations(self):
        return self.state.nominations

    def objects(self, kind):
        return self.state.objects[kind]


def _said(decision: Decision, state: ClusterState) -> tuple[Any, ...]:
    names = state.table.names
    totals = {} if decision.scores is None else dict(
        zip((names[row] for row in decision.scores.rows), decision.scores.total.tolist(), strict=True)
    )  # fmt: skip
    return (
        decision.outcome,
        decision.node,
        decision.message,
        sorted(names[row] for row in decision.feasible),
        totals,
        decision.diagnosis.unschedulable_plugins if not decision.node else None,
    )


def _node(of: dict[str, Any]) -> Node:
    return convert(
        Node,
        {
            "metadata": {"name": of["name"], "labels": {"zone": of["zone"]} if of["zone"] else {}},
            "spec": {
                "unschedulable": of["cordoned"],
                "taints": [{"key": "dedicated", "effect": of["taint"]}] if of["taint"] else [],
            },
            "status": {
                "allocatable": {"cpu": of["cpu"], "memory": "16Gi", "pods": "6", "example.com/gpu": of["gpu"]},
                "images": [{"names": [of["image"]], "sizeBytes": 2000 * 2**20}] if of["image"] else [],
            },
        },
    )


def _pod(name: str, spec: dict[str, Any]) -> PodInfo:
    return PodInfo(convert(Pod, {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}))


@settings(max_examples=150, deadline=None)
@given(
    first=st.lists(node, min_size=8, max_size=12, unique_by=lambda each: each["name"]),
    changes=st.lists(change, max_size=60),
)
def test_decisions_are_the_same_with_and_without_reuse(first, changes) -> None:
    with_reuse, without = World(reuse=True), World(reuse=False)
    for world in (with_reuse, without):
        for each in first:
            world.apply(0, "set node", each)
        for number, (kind, what) in enumerate(changes):
            world.apply(number, kind, what)
    assert with_reuse.decisions == without.decisions


def test_most_decisions_of_a_stream_rest_on_a_template() -> None:
    world = World(reuse=True)
    rng = random.Random(1)
    for number in range(12):
        world.apply(0, "set node", _random_node(rng, f"node-{number}"))
    for number in range(300):
        world.apply(number, "pod", 0 if rng.random() < 0.8 else rng.randrange(len(SHAPES)))
        if rng.random() < 0.3:
            world.apply(number, "set node", _random_node(rng, f"node-{rng.randrange(12)}"))
        if rng.random() < 0.8:
            world.apply(number, "remove pod", rng.randrange(1000))
    assert world.templates is not None
    assert world.templates.used > len(world.decisions) / 2


def _random_node(rng: random.Random, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "cpu": rng.choice(["2", "4", "8"]),
        "gpu": rng.choice(["0", "2"]),
        "zone": rng.choice(["a", "b", None]),
        "taint": rng.choice([None, None, "NoSchedule", "PreferNoSchedule"]),
        "cordoned": rng.random() < 0.1,
        "image": rng.choice([None, "web:latest", "batch:latest"]),
    }
