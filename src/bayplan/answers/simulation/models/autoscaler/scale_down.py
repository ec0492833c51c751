"""Scale-down: which nodes can go, and how they are emptied.

A node goes if it is empty, or if its pods fit elsewhere. It is cordoned first, then its pods are evicted as their
budgets allow; if that takes too long, the node is kept. Annotations of both autoscalers are respected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.models.autoscaler.fleet import Fleet
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.autoscaler.rules import Rules
from bayplan.answers.simulation.models.autoscaler.trials import Trials, cordoned
from bayplan.answers.simulation.models.budgets import BudgetController
from bayplan.answers.simulation.owners import belongs_to, owner_kind
from bayplan.answers.simulation.timeline import Timeline
from bayplan.core.api.kinds import NODE
from bayplan.core.api.requests import CPU, MEMORY
from bayplan.core.cluster.pod_info import PodInfo

_STAY = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), ("karpenter.sh/do-not-disrupt", "true")
"""Annotations of pods that keep their node."""
_MAY_GO = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")
_NODE_STAYS = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_LOCAL = ("emptyDir", "hostPath")


@dataclass(slots=True)
class _Drain:
    """A node that is emptied. `waits_for`: the nodes that replace it, which have to be ready first."""

    until: float
    waits_for: tuple[str, ...] = ()


class ScaleDown:
    """Removes nodes that are empty, little used, or whose pods fit elsewhere, as its rules say."""

    def __init__(self, timeline: Timeline, fleet: Fleet, rules: Rules, budgets: BudgetController) -> None:
        self._timeline = timeline
        self._fleet = fleet
        self._rules = rules
        self._budgets = budgets
        self._unneeded_since: dict[str, float] = {}
        self._stays: dict[str, tuple[float, int]] = {}
        """By node that could not go: when it is tried again, and the version of the world, in which it can not go."""
        self._drains: dict[str, _Drain] = {}
        self._idle: tuple[tuple[object, ...], float] | None = None
        """What the last scan depended on if it changed nothing, and when the same cluster needs another."""

    def scan(self) -> None:
        """Go on with the nodes that are emptied, and look for others."""
        for name in list(self._drains):
            self._drain(name)
        now, rules, before = self._timeline.now, self._rules, self._unneeded_since
        candidates = list(self._candidates())
        self._unneeded_since = {name: before.get(name, now) for name in candidates}
        self._idle = None
        rest = self._fleet.added_at + rules.after_scale_up
        ends = {name: since + rules.idle for name, since in self._unneeded_since.items()}
        unneeded = [name for name in candidates if now >= ends[name]]
        if now < rest or self._fleet.coming:
            unneeded = []
        empty = [name for name in unneeded if not self._movable(name)]
        if empty:
            self._remove_empty(empty)
        elif unneeded and not self._drains:
            self._try(unneeded)
        elif before == self._unneeded_since:
            later = [when for when in (rest, *ends.values()) if when > now]
            self._idle = self._state(), min([self._recheck(), *later])

    def idle_until(self) -> float:
        """When a scan may do something: always, unless the last one changed nothing and the cluster is the same."""
        if self._drains or self._idle is None or self._idle[0] != self._state():
            return -math.inf
        return self._idle[1]

    def _state(self) -> tuple[object, ...]:
        return self._timeline.world.version, self._fleet.added_at, len(self._fleet.coming)

    def _recheck(self) -> float:
        """When a node may be tried again that could not go, although the cluster is the same."""
        now, version = self._timeline.now, self._timeline.world.version
        return min(
            (until for until, tried in self._stays.values() if until > now and tried != version), default=math.inf
        )

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        for known in (self._unneeded_since, self._stays, self._drains):
            known.pop(name, None)

    def _candidates(self) -> Iterator[str]:
        """Yield the nodes that may go if their pods fit elsewhere, the least used first."""
        nodes = self._timeline.world.state.nodes
        used = np.zeros(len(nodes))
        for resource in (CPU, MEMORY):
            allocatable = nodes.allocatable(resource)
            used = np.maximum(used, nodes.requested(resource) / np.maximum(allocatable, 1))
        low = np.flatnonzero(
            nodes.live & ~nodes.unschedulable & (self._rules.consolidate | (used < self._rules.threshold))
        )
        for position in low[np.argsort(used[low], kind="stable")].tolist():
            name = nodes.name(position)
            group = self._fleet.group_of.get(name)
            if group is None or self._fleet.size(group) <= group.minimum or name in self._drains:
                continue
            until, version = self._stays.get(name, (-1.0, -1))
            if until > self._timeline.now or version == self._timeline.world.version:
                continue
            annotations = nodes.info(position).annotations
            if not any(annotations.get(key) == "true" for key in _NODE_STAYS):
                yield name

    def _pods(self, name: str) -> list[PodInfo]:
        position = self._timeline.world.state.nodes.position(name)
        return [] if position is None else self._timeline.world.state.nodes.pods(position)

    def _movable(self, name: str) -> list[PodInfo]:
        """The pods that have to move before a node can go: all but those of DaemonSets, and mirror pods."""
        return [pod for pod in self._pods(name) if belongs_to(pod) is not None]

    def _remove_empty(self, names: list[str]) -> None:
        rules, fleet = self._rules, self._fleet
        most = rules.most_empty if rules.most_empty >= 1 else max(1, int(rules.most_empty * len(fleet.group_of)))
        for name in names[: int(most)]:
            group = fleet.group_of[name]
            if fleet.size(group) > group.minimum:
                fleet.remove(name)

    def _try(self, names: list[str]) -> None:
        """Begin to empty the first of some nodes whose pods fit elsewhere."""
        world, now = self._timeline.world, self._timeline.now
        for name in names[: self._rules.tries]:
            pods = self._movable(name)
            if not any(self._must_stay(pod) for pod in pods) and all(map(self._budgets.allow, pods)):
                trials, cheaper = Trials(world), self._cheaper(name) if self._rules.replace else []
                instead: ScaledGroup | None = None
                with world.unfollowed():
                    left = trials.move(name, pods, until_one_is_left=not cheaper)
                    if left:
                        whole = (group for group in cheaper if len(trials.growth(group, left, 1)[1]) == len(left))
                        instead = next(whole, None)
                if not left or instead is not None:
                    waits_for = () if instead is None else tuple(self._fleet.add(instead))
                    self._begin(name, waits_for)
                    return
            self._stays[name] = now + self._rules.recheck, world.version

    def _cheaper(self, name: str) -> list[ScaledGroup]:
        """The groups whose nodes cost less than a node and that may grow, the cheapest first."""
        own = self._fleet.group_of[name].price
        if own is None:
            return []
        cheaper = [
            group
            for group in self._fleet.groups
            if group.price is not None and group.price < own and self._fleet.size(group) < group.maximum
        ]
        return sorted(cheaper, key=lambda group: (group.price or 0.0, group.name))

    def _must_stay(self, pod: PodInfo) -> bool:
        """Whether a pod keeps its node."""
        annotations = pod.annotations
        if any(annotations.get(key) == value for key, value in _STAY):
            return True
        if not self._rules.careful or annotations.get(_MAY_GO[0]) == _MAY_GO[1]:
            return False
        if not owner_kind(pod):
            return True
        if pod.namespace == "kube-system" and not self._budgets.cover(pod):
            return True
        return any(getattr(volume, field) is not None for volume in pod.spec.volumes or () for field in _LOCAL)

    # Emptying

    def _begin(self, name: str, waits_for: tuple[str, ...]) -> None:
        self._drains[name] = _Drain(self._timeline.now + self._rules.patience, waits_for)
        node = self._timeline.world.state.objects[NODE][name]
        if not waits_for:
            self._timeline.put(NODE, name, cordoned(node))
            self._drain(name)

    def _drain(self, name: str) -> None:
        """Evict what the budgets allow; remove the node once it is empty, or keep it if that takes too long."""
        timeline, drain = self._timeline, self._drains[name]
        if any(each in self._fleet.coming for each in drain.waits_for):
            return
        node = timeline.world.state.objects[NODE].get(name)
        if node is None:
            del self._drains[name]
            return
        if node.spec is None or not node.spec.unschedulable:
            timeline.put(NODE, name, cordoned(node))
        pods = self._movable(name)
        if not pods:
            self._fleet.remove(name)
        elif timeline.now > drain.until:
            del self._drains[name]
            self._stays[name] = timeline.now + self._rules.recheck, -1
            timeline.put(NODE, name, cordoned(node, unschedulable=False))
        else:
            for pod in pods:
                if not pod.terminating and self._budgets.allow(pod):
                    timeline.evict(pod, DepartureReason.DRAINED)
