"""A plugin leaves what it is given as it is: pods, nodes, other objects, what other plugins remember, and arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from bayplan.api.kinds import POD, Kind
from bayplan.api.objects import encode
from bayplan.cluster.node_table import NodeTable
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import interface
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point, implements
from bayplan.framework.runner import (
    raw_scores,
    run_filter,
    run_pre_filter,
    run_pre_score,
)
from bayplan.testing.contract.examples import Example, World
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.subject import Subject, alone

_OTHERS = "another plugin"
_FIELDS = [slot for slot in PodInfo.__slots__ if slot not in {"_object", "_raw", "_tolerations", "cache"}]


def check_inputs(subject: Subject, example: Example) -> Finding | None:
    """After every point everything is as it was before."""
    world = example.build()
    plugin = subject.build(world.handle)
    profile, cycle, nodes = alone(plugin), CycleState(), world.state.nodes
    cycle.data[_OTHERS] = {"remembers": ["this"]}
    kinds = {kind for kind, _ in example.objects} - {POD}
    before = _snapshot(world, kinds, cycle)

    def changed(point: str) -> Finding | None:
        for what, value in _snapshot(world, kinds, cycle).items():
            if value != before[what]:
                return Finding(f"{point} changed {what}", f"let {point} work on a copy; keep notes in cycle.data")
        return None

    if implements(plugin, interface.PreEnqueue):
        plugin.pre_enqueue(world.pod)
        if finding := changed("PreEnqueue"):
            return finding
    refused = run_pre_filter(profile, cycle, world.pod, nodes).refusal
    if (finding := changed("PreFilter")) or refused is not None:
        return finding
    feasible = run_filter(profile, cycle, world.pod, nodes).feasible()
    if (finding := changed("Filter")) or not len(feasible):
        return finding
    chosen = nodes.at(feasible)
    run_pre_score(profile, cycle, world.pod, chosen)
    if finding := changed("PreScore"):
        return finding
    if plugin.name not in cycle.skip_score and profile.at(Point.SCORE):
        raw = raw_scores(plugin, cycle, world.pod, chosen)
        if finding := changed("Score"):
            return finding
        if implements(plugin, interface.NormalizeScores):
            given = raw.copy()
            plugin.normalize_scores(cycle, world.pod, given, chosen)
            if not np.array_equal(raw, given):
                return Finding(
                    f"normalize_scores changed the array that it was given from {raw.tolist()} to {given.tolist()}",
                    "return a new array: the raw scores are used again for other pods",
                )
            return changed("NormalizeScore")
    return None


def _snapshot(world: World, kinds: Collection[Kind], cycle: CycleState) -> dict[str, Any]:
    """Everything that is to stay, by what it is. `kinds`: those of the other objects."""
    state, pod = world.state, world.pod
    table = state.table
    return {
        f"the pod ({pod.key})": _pod(pod),
        **{f"node {node.metadata.name}": encode(node) for node in table.nodes if node is not None and node.metadata},
        **{f"pod {other.key} on node {other.node_name}": _pod(other) for pods in table.pods for other in pods.values()},
        **{f"the column of nodes {name}": column for name, column in _columns(table).items()},
        **{f"{kind.kind} {key}": encode(obj) for kind in kinds for key, obj in state.objects[kind].items()},
        "what other plugins remember in cycle.data": repr(cycle.data.get(_OTHERS)),
    }


def _pod(pod: PodInfo) -> tuple[bytes, str]:
    return encode(pod.object), repr([getattr(pod, field) for field in _FIELDS])


def _columns(table: NodeTable) -> Mapping[str, bytes]:
    arrays = {name: value for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    arrays["taints"] = table.taints.codes
    return {name: array.tobytes() for name, array in arrays.items()}
