"""The search for nodes of a gang: its members are decided one after the other, with the earlier ones on their nodes.

Reserve runs under a what-if and is undone with it, by `release` where `unreserve` would have other effects. What
plugins keep for all members is in `Gang.data`. Where plugins name placements, the gang is tried in each, and the best
by score is chosen (`bayplan.core.framework.placements`).

Of a gang of gangs, the groups are decided one after the other, each with those before it that fit on their nodes, and
only on the nodes of the placement that is tried for the gang above. A group that doesn't fit takes no room. What was
decided isn't decided again: a gang that fits only if an earlier group or member takes another node is rejected. Mirrors
pkg/scheduler/algorithm_podgroup.go.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import AllRemoved
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.extenders import Question
from bayplan.core.framework.gangs import Gang, Placement, PodsGone
from bayplan.core.framework.placements import best_placement, generate_placements, most_promising_first
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import PluginError, Status
from bayplan.core.scheduling.cycle import Options, SchedulingCycle
from bayplan.core.scheduling.decision import Decision
from bayplan.core.scheduling.fit import GangFit
from bayplan.core.scheduling.reservations import place

PAUSE = None
"""Yielded where other work may run."""

Placements = Sequence[Placement] | Status | None
"""The node sets to try; a Status that rejects the gang; None if all nodes may be used."""

Search = Generator[Question | None, Any, GangFit]


@dataclass(slots=True)
class GangSearch:
    """Fits a gang, under what-ifs. `taken`: the members that can be attempted now, by uid. `without`: the pods of each
    row that count as gone; None for the state as it is.
    """

    gang: Gang
    profile: Profile
    state: ClusterState
    rng: random.Random
    options: Options
    taken: Mapping[str, PodInfo]
    without: AllRemoved | None = None

    @property
    def nodes(self) -> Nodes:
        """All nodes."""
        return self.state.nodes if self.without is None else self.state.nodes.changed(self.without)

    def best(self, placements: Placements) -> Search:
        """Fit the gang into each of its placements, and choose the best one that it fits in. Raises PluginError."""
        return (yield from self._best(self.gang, placements, None))

    @property
    def apart(self) -> bool:
        """Whether a node's verdict on each member, and its score, depend on no pods on other nodes."""
        start, call, record = self.options.start, self.options.call, self.options.record
        return not any(
            pod.host_ports
            or self.options.ask_extenders(pod)
            or not start(self.profile, self.state, pod, call, record, self.gang).apart
            for pod in self.taken.values()
        )

    def with_pods_gone(self, pods: PodsGone, *, constrained: bool) -> Search:
        """Fit the gang without some pods, which stay in the state: its members have to be `apart`. Raises PluginError.

        `constrained`: whether plugins name placements.
        """
        plain = replace(self.options, start=PodRun.start)  # what pods share is about the nodes as they are
        search = replace(self, options=plain, without=pods.changes)
        placements = generate_placements(self.profile, self.gang, search.nodes) if constrained else None
        return (yield from search.best(placements))

    def with_victims(self) -> Search:
        """Fit the gang with those pods gone that its members preempt on their own."""
        return (yield from self._fit_members(self.gang, None, preempt=True))

    def again(self, before: GangFit, some: Sequence[Decision] | None = None) -> Search:
        """Fit the members that had nodes before, each on the same node. `some`: only the members of these decisions."""
        nodes = self.state.nodes
        fit = GangFit(self.gang, placement=before.placement, parts=list(before.parts))
        with self.state.what_if() as what_if:
            for one in before.placed if some is None else some:
                rows = np.array([nodes.position(one.node or "")])
                only = Placement(one.node or "", nodes.at(rows))
                cycle = SchedulingCycle(self.profile, self.state, one.pod, self.rng, self.options, self.gang, only)
                decision = yield from cycle.run()
                node = fit.node_for(decision)
                if not node or not place(decision, node, what_if, self.profile, self.options):
                    fit.refused.append(decision)
                    fit.parts.clear()
                    break
                fit.placed.append(decision)
                yield PAUSE
        return fit

    def _best(self, gang: Gang, placements: Placements, within: Placement | None) -> Search:
        """Fit a gang into each placement, and choose the best one. `within`: the placement of the gang above."""
        if isinstance(placements, Status):
            return GangFit(gang, refusal=placements)
        if placements is None:
            return (yield from self._fit(gang, within))
        fits: list[GangFit] = []
        in_order = most_promising_first(self.profile, gang, placements, self.rng) if len(placements) > 1 else None
        for placement in in_order or placements:
            fits.append((yield from self._fit(gang, placement)))
            if fits[-1].failed:
                return fits[-1]
            if in_order and fits[-1].holds_all and sum(fit.fits for fit in fits) == 1:
                break
        fitting = [fit for fit in fits if fit.fits]
        if not fitting:
            best = max(fits, key=lambda fit: (fit.fitting, len(fit.placed)))
            others = [(fit.placement.name, fit) for fit in fits if fit is not best and fit.placement is not None]
            best.elsewhere = tuple((name, fit.fitting) for name, fit in others)
            best.blamed_elsewhere = frozenset().union(*(fit.blamed for fit in fits))
            return best
        if len(fitting) == 1:
            return fitting[0]
        found = [(each.placement, [one.pod for one in each.placed]) for each in fitting if each.placement is not None]
        return fitting[best_placement(self.profile, gang, found, self.rng)]

    def _fit(self, gang: Gang, placement: Placement | None) -> Search:
        if gang.groups_needed:
            return (yield from self._fit_groups(gang, placement))
        return (yield from self._fit_members(gang, placement))

    def _fit_groups(self, gang: Gang, placement: Placement | None) -> Search:
        """Fit the groups of a gang one after the other, with those that fit on their nodes. Raises PluginError."""
        fit = GangFit(gang, placement=placement)
        with self.state.what_if() as what_if:
            for group in fit.worth_trying(gang.groups):
                nodes = self.nodes if placement is None else placement.nodes
                part = yield from self._best(group, generate_placements(self.profile, group, nodes), placement)
                for decision in part.placed if part.fits else ():
                    if not place(decision, decision.node or "", what_if, self.profile, self.options):
                        problem = f"pod {decision.pod.key} was reserved once, and not again: {decision.message}"
                        raise PluginError(decision.failed_plugin, "Reserve", problem)
                fit.add(part)
        return fit

    def _fit_members(self, gang: Gang, placement: Placement | None, *, preempt: bool = False) -> Search:
        """Decide the members one after the other, with the earlier ones counted on their nodes, and what they reserve
        there taken.
        """
        fit = GangFit(gang, preempt, placement)
        with self.state.what_if() as what_if:
            for member in fit.worth_trying(gang.members):
                pod = self.taken.get(member.uid)
                if pod is None:
                    fit.held_back.append(member.name)
                    continue
                tried = Placement("", self.nodes) if placement is None and self.without is not None else placement
                cycle = SchedulingCycle(self.profile, self.state, pod, self.rng, self.options, self.gang, tried)
                decision = yield from cycle.run()
                node = fit.node_for(decision)
                fits = bool(node) and place(decision, node, what_if, self.profile, self.options)
                (fit.placed if fits else fit.refused).append(decision)
                yield PAUSE
        return fit
