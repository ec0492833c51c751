"""shrink: which nodes can go with every pod placed elsewhere, and what holds each of the others.

Nodes are drained one after the other, the least used first, and one that can't be drained stays (`moving.py`). The
answer is a set that was found to work, not the largest one there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer, Progress, Stopped, listed, plural, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.nodes import node_at, node_of, pods_on
from bayplan.answers.insight.pools import pool_of, zone_of
from bayplan.answers.insight.questions.drain import cordon, uncordon
from bayplan.answers.insight.questions.drain_rules import DrainRules, SortedPods
from bayplan.answers.insight.questions.moving import Moving
from bayplan.answers.insight.questions.node_groups import CONTROL_PLANE
from bayplan.answers.insight.tables import grouped, table
from bayplan.answers.simulation.evictions import evict
from bayplan.answers.simulation.results import Result
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE
from bayplan.core.api.requests import CPU, MEMORY
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.verdicts import fit_error
from bayplan.core.scheduling.cycle import NO_NODES
from bayplan.foundations.collector import collector_paused

KEEP_POD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""Annotations with which autoscalers keep the node of a pod."""
KEEP_NODE = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true", "karpenter.sh/do-not-disrupt": "true"}
"""Annotations with which autoscalers keep a node."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A node that can go, and where its pods go then: the node of each pod."""

    node: str
    zone: str
    pool: str
    pods: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """A node that must stay.

    `rule`: what holds it, such as `budget` or `no place`. `pod`: the pod that does; "" if it is the node itself.
    `message`: why, as in the event of the pod, or of kubectl or the API server.
    """

    node: str
    rule: str
    pod: str
    message: str


@dataclass(frozen=True, slots=True)
class Shrink(Answer):
    """The nodes that can go, in the order in which they can be drained, and what holds the others.

    `untried`: nodes that were not tried before the question was interrupted.
    """

    gone: tuple[Gone, ...]
    held: tuple[Held, ...]
    untried: tuple[str, ...] = ()
    shown: int = 20

    @property
    def interrupted(self) -> bool:
        """Whether nodes were not tried."""
        return bool(self.untried)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {
            "removable": [each.node for each in self.gone],
            "interrupted": self.interrupted,
            "nodes": self.rows(),
            "moves": [
                {"pod": pod, "from": each.node, "node": node} for each in self.gone for pod, node in each.pods.items()
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per node."""
        nothing = {"rule": "", "pod": "", "message": ""}
        removable = [{"node": each.node, "outcome": "removable", **nothing} for each in self.gone]
        held = [{"node": each.node, "outcome": "held", **fields_of(each, "node")} for each in self.held]
        return [*removable, *held, *({"node": node, "outcome": "untried", **nothing} for node in self.untried)]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, the nodes that can go, and the others by what holds them."""
        count = len(self.gone) + len(self.held) + len(self.untried)
        headline = f"{len(self.gone):,} of {plural(count, 'node')} can go, and every pod still has a node"
        if self.untried:
            headline += f"; interrupted: {plural(len(self.untried), 'node')} not tried"
        parts: list[RenderableType] = [Text(headline, style="bold")]
        if self.gone:
            parts += [Text(), self._gone_table(wide=wide)]
        if self.held:
            parts += [Text(), *self._held(wide=wide)]
        return Lines(*parts)

    def _gone_table(self, *, wide: bool) -> Table:
        def row(each: Gone) -> Sequence[str]:
            targets = list(dict.fromkeys(each.pods.values()))
            to = listed(targets, len(targets) if wide else 5)
            return each.node, each.zone or "-", each.pool or "-", f"{len(each.pods):,}", to or "-"

        return table(("CAN GO", "ZONE", "POOL", "PODS", "TO"), self.gone, row, 0 if wide else self.shown)

    def _held(self, *, wide: bool) -> Iterable[RenderableType]:
        rules = grouped((each.rule, each) for each in self.held)
        yield Text("must stay", style="bold")
        for rule, found in sorted(rules.items(), key=lambda item: -len(item[1])):
            names = [each.node for each in found]
            yield Text(f"{rule}: {plural(len(found), 'node')}: {listed(names, len(names) if wide else 5)}")
            shown = found[: None if wide else self.shown or None]
            for message, pods in grouped((each.message, each.pod or each.node) for each in shown).items():
                yield Text(f"  {listed(pods, 3)}: {message}")


def shrink(
    world: World,
    rules: DrainRules,
    *,
    matches: Callable[[Mapping[str, str]], bool] = lambda _: True,
    shown: int = 20,
    progress: Progress = silent,
) -> Shrink:
    """Remove nodes one after the other, as long as every pod of theirs gets another node without preemption.

    The least used nodes are tried first. As many as may go at best are cordoned before, so that no pod moves twice; one
    that must stay takes pods again. `matches`: which nodes may go, by their labels.
    """
    with world.what_if(), collector_paused():
        moving = Moving(world, preempt=False, all_or_none=True)
        moving.schedule_pending()
        order = _least_used_first(world, matches)
        gone, held = list[Gone](), list[Held]()
        try:
            free = []
            for name in order:
                progress(f"{plural(len(order), 'node')}, {len(held):,} held by a rule")
                kept = _held_by_rules(world, name, rules.sort(pods_on(world, name)))
                if kept is None:
                    free.append(name)
                else:
                    held.append(kept)
            cordons = _Cordons(world)
            for name in free[: _most(world, free)]:
                cordons.add(name)
            for number, name in enumerate(free):
                progress(f"{number:,} of {plural(len(free), 'node')} tried, {len(gone):,} can go")
                found = _remove(world, name, rules, moving, cordons)
                if isinstance(found, Gone):
                    gone.append(found)
                else:
                    held.append(found)
                    cordons.lift(name)
        except Stopped:
            pass
        tried = {each.node for each in gone} | {each.node for each in held}
        untried = tuple(name for name in order if name not in tried)
        return Shrink(tuple(gone), tuple(held), untried, shown)


class _Cordons:
    """The cordons of this question: what they keep from a pod is no reason for a user, who has not set them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._set: set[str] = set()

    def add(self, name: str) -> None:
        """Cordon a node that may go."""
        if cordon(self._world, name):
            self._set.add(name)

    def lift(self, name: str) -> None:
        """Uncordon a node that must stay, unless it was cordoned before."""
        if name in self._set:
            uncordon(self._world, name)
            self._set.discard(name)

    def message_without(self, node: str, result: Result) -> str:
        """Return why a pod is pending, as if `node` and those with these cordons were not there.

        Mirrors Diagnosis.explain.
        """
        world, pod = self._world, result.pod
        decisions = world.attempt(world.unit_of(pod), preempt=False).decisions if pod.key in world.pending else []
        diagnosis = next((decision.diagnosis for decision in decisions if decision.pod.uid == pod.uid), None)
        if diagnosis is None or (diagnosis.verdicts is None and diagnosis.absent is None):
            return result.message
        own = np.zeros(len(world.state.nodes), dtype=np.bool_)
        own[[row for name in (*self._set, node) if (row := world.state.table.row_of.get(name)) is not None]] = True
        total = diagnosis.total - int(own.sum())
        if not total:
            return NO_NODES
        if diagnosis.pre_filter_message:
            return replace(diagnosis, total=total).explain()
        reasons, rejected, verdicts = Counter[str](), 0, diagnosis.verdicts
        if verdicts is not None:
            counts = np.bincount(verdicts.codes[~own[verdicts.nodes.rows]], minlength=len(verdicts.table))
            for status, number in zip(verdicts.table[1:], counts[1:].tolist(), strict=True):
                rejected += number
                reasons.update(dict.fromkeys(status.reasons, number))
        if diagnosis.absent is not None:
            reasons.update(dict.fromkeys(diagnosis.absent.reasons, total - rejected))
        return fit_error(total, +reasons)


def _remove(world: World, name: str, rules: DrainRules, moving: Moving, cordons: _Cordons) -> Gone | Held:
    """Drain a node and remove it. If that isn't possible, nothing changes."""
    mark = world.mark()
    cordon(world, name)
    moving.moves.clear()
    left = rules.sort(pods_on(world, name)).evicted
    batch = _without_room(world, left) or left
    while left:
        blocked = []
        for pod in batch:
            message = moving.objection_to(pod)
            if message:
                blocked.append((pod, message))
            else:
                moving.evict(pod)
        moving.schedule()
        pending = next((move for move in moving.moves.values() if move.result is not None and not move.placed), None)
        if pending is not None and pending.result is not None:
            message = cordons.message_without(name, pending.result)
            moving.undo_to(mark)
            return Held(name, "no place", moving.original(pending.pod.key), message)
        if len(blocked) == len(left):
            moving.undo_to(mark)
            return Held(name, "budget", moving.original(blocked[0][0].key), blocked[0][1])
        batch = left = [pod for pod in left if pod.key not in moving.moves]
    labels = world.state.objects[NODE][name].metadata.labels or {}
    for pod in pods_on(world, name):  # of DaemonSets, and static ones
        evict(world, pod)
    world.change(NODE, name, None)
    targets = {
        moving.original(key): move.result.node or "" for key, move in moving.moves.items() if move.result is not None
    }
    return Gone(name, zone_of(labels), pool_of(labels), targets)


def _without_room(world: World, pods: Iterable[PodInfo]) -> list[PodInfo]:
    """The first pod whose requests exceed what is free on every schedulable node; empty if there is none.

    It shows soonest that the node must stay.
    """
    nodes = world.state.nodes
    usable = np.flatnonzero(nodes.live & ~nodes.unschedulable & (nodes.pod_count < nodes.allowed_pods))
    nodes, left = nodes.at(usable), dict[str, NDArray[np.int64]]()
    for pod in pods:
        enough = np.ones(len(nodes), dtype=np.bool_)
        for resource, amount in pod.requested.items():
            if resource not in left:
                left[resource] = nodes.allocatable(resource) - nodes.requested(resource)
            enough &= (left[resource] >= amount) | (amount == 0)
        if not enough.any():
            return [pod]
    return []


def _held_by_rules(world: World, name: str, pods: SortedPods) -> Held | None:
    """What holds a node whatever room there is elsewhere."""
    metadata = world.state.objects[NODE][name].metadata
    if any(label in (metadata.labels or {}) for label in CONTROL_PLANE):
        return Held(name, "control plane", "", "the node is part of the control plane")
    annotation = _annotation(metadata.annotations or {}, KEEP_NODE)
    if annotation:
        return Held(name, "annotation", "", f"the node has the annotation {annotation}")
    for message, refused in pods.refused.items():
        rule = _RULES.get(message.partition(" (")[0], "kubectl drain")
        return Held(name, rule, refused[0].key, f"cannot delete {message}")
    for pod in pods.evicted:
        annotation = _annotation(pod.annotations, KEEP_POD)
        if annotation:
            return Held(name, "annotation", pod.key, f"the pod has the annotation {annotation}")
    return None


_RULES = {"Pods with local storage": "local storage", "cannot delete Pods that declare no controller": "bare pod"}


def _annotation(annotations: Mapping[str, str], known: Mapping[str, str]) -> str:
    return next((f"{key}={value}" for key, value in known.items() if annotations.get(key) == value), "")


def _most(world: World, names: Sequence[str]) -> int:
    """How many of the first of these nodes can go at best: the others must have room for all requests."""
    nodes = world.state.nodes
    resources = (CPU, MEMORY)
    used = [int(nodes.requested(resource)[nodes.live].sum()) for resource in resources]
    left = [int(nodes.allocatable(resource)[nodes.live].sum()) for resource in resources]
    for number, name in enumerate(names):
        info = node_at(world, name)
        left = [room - info.allocatable_of(resource) for room, resource in zip(left, resources, strict=True)]
        if any(room < amount for room, amount in zip(left, used, strict=True)):
            return number
    return len(names)


def _least_used_first(world: World, matches: Callable[[Mapping[str, str]], bool]) -> Sequence[str]:
    """The nodes that may go: empty ones first, then by the larger of the used shares of cpu and memory."""
    usage = {}
    for name, node in world.state.objects[NODE].items():
        info = node_of(world, name)
        if info is None or not matches(node.metadata.labels or {}):
            continue
        shares = [
            info.requested_of(resource) / info.allocatable_of(resource)
            for resource in (CPU, MEMORY)
            if info.allocatable_of(resource)
        ]
        usage[name] = (bool(info.pod_count), max(shares, default=0.0), name)
    return sorted(usage, key=usage.__getitem__)
