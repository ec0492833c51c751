"""A gang's attempt: its members are decided one after the other, each with the earlier ones counted on their nodes.

Reserve runs under a what-if and is undone with it, by `release` where `unreserve` would have other effects. What
plugins keep for all members is in `Gang.data`. Where plugins name placements, the gang is tried in each, and the best
by score is chosen (`bayplan.core.framework.placements`). A plugin that makes room for a gang as a whole
(`gang_post_filter`) is a generator that asks whether the gang fits without certain pods. The plan places enough members
or none, and its `shortfall` says which member does not fit; the plugin that named the gang is told (`gang_decided`).
Members are placed greedily, in their order: a gang that fits only if an earlier member takes another node is rejected.
See docs/gangs.md. Mirrors podGroupCycle in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.calling import call
from bayplan.core.framework.extenders import Question
from bayplan.core.framework.gangs import (
    Gang,
    GangGiveBack,
    GangOutcome,
    GangPostFilter,
    GangTrial,
    GangVictims,
    Placement,
    PreemptionRules,
    several_schedulers,
)
from bayplan.core.framework.placements import best_placement, generate_placements
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.scheduling.cycle import Options, SchedulingCycle
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.scheduling.fit import GangFit
from bayplan.core.scheduling.plan import Plan, Preemption, Refusal
from bayplan.core.scheduling.reservations import place
from bayplan.core.scheduling.unit import Unit

CONSTRAINED = "not eligible due to placement-based pod group scheduling limitation"
AS_A_WHOLE = "not eligible due to workload aware preemption enabled"
ONGOING = "ongoing preemption on nominated nodes"
FOUND = "found a placement for podgroup, preempting {} victims"

PAUSE = None
"""Yielded where other work may run."""


@dataclass(frozen=True, slots=True)
class TakeMembers:
    """Requests the members that can be attempted now. The reply maps uids to the latest versions.

    The driver takes them out of the queue; the plan contains every one of them.
    """

    members: tuple[PodInfo, ...]


Request = Question | TakeMembers | None

_OUTCOMES = {
    Outcome.SCHEDULED: GangOutcome.PLACED,
    Outcome.UNSCHEDULABLE: GangOutcome.REFUSED,
    Outcome.ERROR: GangOutcome.ERROR,
}


@dataclass(slots=True)
class GangAttempt:
    """The attempt of a unit with a gang; `run` it once."""

    unit: Unit
    profile: Profile
    state: ClusterState
    rng: random.Random
    options: Options
    _gang: Gang = field(init=False)
    """The gang with the members to try: those of this profile that are pending."""
    _taken: dict[str, PodInfo] = field(init=False, default_factory=dict)
    """The members that can be attempted now, by uid."""

    def run(self) -> Generator[Request, Any, Plan]:
        """Return a plan that places the gang, or preempts for it, or requeues it."""
        unit, named = self.unit, self.unit.gang
        assert named is not None
        if problem := self._problem(named):
            self._taken = yield TakeMembers(tuple(unit.pending))
            return self._failed(problem)
        try:
            placements = generate_placements(self.profile, named, self.state.nodes)
            trial, plugin = self._trial(named, constrained=placements is not None)
        except PluginError as error:
            self.options.record(error, unit.pod)
            return self._refused(Refusal.failed(unit.pod, str(error)), GangOutcome.ERROR)
        if placements is not None:
            named = replace(named, no_preemption=CONSTRAINED)
        elif trial is not None:
            named = replace(named, no_preemption=AS_A_WHOLE)
        if not named.needed and not named.no_preemption and not named.whole:
            plan = yield from self._alone()
            plan.outcome = _OUTCOMES[plan.decisions[0].outcome]
            plan.message = plan.decisions[0].message
            return plan
        ours = tuple(pod for pod in unit.pending if pod.scheduler_name == self.profile.scheduler_name)
        if len(ours) < named.needed <= len(unit.pending):
            # Each profile has its own waiting pods in Permit: the members would wait for each other forever.
            names = ", ".join(sorted({pod.scheduler_name for pod in unit.pending}))
            message = f"gang {named.name}: {named.needed} members are needed, and their scheduler names differ: {names}"
            return self._refused(Refusal(unit.pod, message, self._blames), GangOutcome.REFUSED)
        if len(ours) < named.needed and not named.together:
            return (yield from self._alone())
        self._gang = replace(named, members=ours, needed=max(named.needed, 1), data={})
        self._taken = yield TakeMembers(ours)
        try:
            fit = yield from self._search(placements)
            room_is_made = self._room_is_made()
            if room_is_made and trial is not None and rules_of(plugin).reports:
                fit.preemption = f"{rules_of(plugin).name}: {ONGOING}"
            if not fit.fits and not fit.failed and not room_is_made and self._give_back(fit):
                fit = yield from self._make_room(fit, placements, trial, plugin)
        except PluginError as error:
            self.options.record(error, unit.pod)
            return self._failed(str(error))
        if fit.fits and not fit.preempt:
            return self._place(fit)
        return self._refuse(fit, complete=not named.needed, keep_nominations=room_is_made)

    @property
    def _blames(self) -> frozenset[str]:
        """The plugin whose events always requeue members."""
        return frozenset({self.unit.gang_plugin})

    def _trial(self, gang: Gang, *, constrained: bool) -> tuple[GangTrial | None, Any]:
        """The trial of the first plugin that preempts for the gang as a whole. Raises PluginError.

        `constrained`: whether the gang is tried in placements.
        """
        for each in self.profile.every():
            if implements(each, GangPostFilter) and (rules_of(each).constrained or not constrained):
                trial = call(each, "GangPostFilter", each.gang_post_filter, gang, self.state.nodes)
                if trial is not None:
                    return trial, each
        return None, None

    def _problem(self, gang: Gang) -> str:
        """What is wrong with the gang; "" if nothing is."""
        pending = self.unit.pending
        others = (pod for pod in pending if pod.scheduler_name != pending[0].scheduler_name)
        other = next(others, None) if gang.whole else None
        return gang.problem if other is None else several_schedulers(other, pending[0])

    # Fitting

    def _alone(self) -> Generator[Request, Any, Plan]:
        """Decide the pod whose turn it is by itself."""
        cycle = SchedulingCycle(self.profile, self.state, self.unit.pod, self.rng, self.options)
        return Plan.of(self.unit, (yield from cycle.run()))

    def _search(self, placements: Sequence[Placement] | Status | None) -> Generator[Request, Any, GangFit]:
        """Fit the gang into each placement, and choose the best one that it fits in."""
        if isinstance(placements, Status):
            return GangFit(self._gang, refusal=placements)
        if placements is None:
            return (yield from self._fit())
        fits: list[GangFit] = []
        for placement in placements:
            fits.append((yield from self._fit(placement=placement)))
            if fits[-1].failed:
                return fits[-1]
        fitting = [fit for fit in fits if fit.fits]
        if not fitting:
            best = max(fits, key=lambda fit: len(fit.placed))
            others = [(fit.placement.name, fit) for fit in fits if fit is not best and fit.placement is not None]
            best.elsewhere = tuple((name, self._gang.placed + len(fit.placed)) for name, fit in others)
            best.blamed_elsewhere = frozenset().union(*(fit.blamed for fit in fits))
            return best
        if len(fitting) == 1:
            return fitting[0]
        found = [(each.placement, [one.pod for one in each.placed]) for each in fitting if each.placement is not None]
        return fitting[best_placement(self.profile, self._gang, found, self.rng)]

    def _fit(self, *, preempt: bool = False, placement: Placement | None = None) -> Generator[Request, Any, GangFit]:
        """Decide the members one after the other, with the earlier ones counted on their nodes, and what they reserve
        there taken.
        """
        fit = GangFit(self._gang, preempt, placement)
        left = len(self._gang.members)
        with self.state.what_if() as what_if:
            for member in self._gang.members:
                if not fit.worth_continuing(left):
                    break
                left -= 1
                pod = self._taken.get(member.uid)
                if pod is None:
                    fit.held_back.append(member.name)
                    continue
                cycle = SchedulingCycle(self.profile, self.state, pod, self.rng, self.options, self._gang, placement)
                decision = yield from cycle.run()
                node = fit.node_for(decision)
                fits = bool(node) and place(decision, node, what_if, self.profile, self.options)
                (fit.placed if fits else fit.refused).append(decision)
                yield PAUSE
        return fit

    # Making room

    def _room_is_made(self) -> bool:
        """Whether victims of the gang still exist; before they are deleted, it must not evict more pods."""
        nodes, nominations = self.state.nodes, self.state.nominations
        for member in self._gang.members:
            if self.state.preemptions.in_progress(member.uid):
                return True
            position = nodes.position(nominations.node_of(member.uid) or "")
            if position is not None and any(
                other.terminating and (other.priority < member.priority or self._gang.no_preemption)
                for other in nodes.pods(position)
            ):
                return True
        return False

    def _give_back(self, fit: GangFit) -> bool:
        """Let plugins give back what a whole gang holds that does not fit. Returns whether room may be made for it."""
        if not self._gang.whole:
            return True
        rejected = [(one.cycle, one.pod) for one in fit.refused]
        for plugin in self.profile.at(Point.POST_FILTER):
            if implements(plugin, GangGiveBack):
                status = call(plugin, "GangGiveBack", plugin.gang_give_back, self._gang, rejected)
                if status is not None and status.code is Code.ERROR:
                    raise PluginError(plugin.name, "GangGiveBack", status.message)
                if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    fit.preemption = status.message
                    return False
        return True

    def _make_room(
        self, fit: GangFit, placements: Sequence[Placement] | Status | None, trial: GangTrial | None, plugin: Any
    ) -> Generator[Request, Any, GangFit]:
        """For a gang that does not fit: find victims, for each member or for the gang as a whole."""
        if trial is not None:
            return (yield from self._try_victims(fit, placements, trial, plugin))
        if not any(decision.nominated_node for decision in fit.refused):
            return fit
        preempting = yield from self._fit(preempt=True)
        if preempting.fits and not self._gang.evicts:
            preempting.before = fit
        return preempting if preempting.fits else fit

    def _try_victims(
        self, fit: GangFit, placements: Sequence[Placement] | Status | None, trial: GangTrial, plugin: Any
    ) -> Generator[Request, Any, GangFit]:
        """Answer a plugin's trial until it has chosen the victims, and fit the gang then. Raises PluginError."""
        name, rules, first = plugin.name, rules_of(plugin), None
        with self.state.what_if() as what_if:
            answer = _next(trial, None, name)
            while not isinstance(answer, GangVictims | Status):
                what_if.remove_only(answer)
                found = yield from self._search_again(first if rules.keeps_nodes else None, placements)
                first = first or found
                enough = len(first.placed) if rules.places_most or rules.keeps_nodes else 0
                answer = _next(trial, found.fits and len(found.placed) >= enough, name)
            if isinstance(answer, Status):
                fit.preemption = f"{rules.name}: {answer.message}"
                return fit
            what_if.remove_only(answer.victims)
            found = yield from self._search_again(first if rules.keeps_nodes else None, placements)
        if not found.fits:
            raise PluginError(
                name, "GangPostFilter", f"gang {self._gang.name} does not fit without the victims that were chosen"
            )
        if answer.victims:
            if rules.reports:
                fit.preemption = f"{rules.name}: {FOUND.format(len(answer.victims))}"
            if rules.reports or not self._gang.evicts:
                found.before = fit
            found.make_room(answer, name, fit.blamed)
        return found

    def _search_again(
        self, before: GangFit | None, placements: Sequence[Placement] | Status | None
    ) -> Generator[Request, Any, GangFit]:
        """Fit the gang into its placements; or the members that have nodes, each on the same node as before."""
        if before is None:
            return (yield from self._search(placements))
        nodes, fit = self.state.nodes, GangFit(self._gang, placement=before.placement)
        with self.state.what_if() as what_if:
            for one in before.placed:
                rows = np.array([nodes.position(one.node or "")])
                only = Placement(one.node or "", nodes.at(rows))
                cycle = SchedulingCycle(self.profile, self.state, one.pod, self.rng, self.options, self._gang, only)
                decision = yield from cycle.run()
                node = fit.node_for(decision)
                if not node or not place(decision, node, what_if, self.profile, self.options):
                    fit.refused.append(decision)
                    break
                fit.placed.append(decision)
                yield PAUSE
        return fit

    # Plans

    def _place(self, fit: GangFit) -> Plan:
        """Place the members that fit. The gang does not need the others: unless no member may preempt by itself, they
        are attempted on their own.
        """
        plan = Plan(
            self.unit, [*fit.placed, *fit.refused], placed=fit.placed, all_or_none=True, outcome=GangOutcome.PLACED
        )
        if self._gang.no_preemption or self._gang.whole:
            plan.refused = self._refuse_each(fit)
        used = {decision.pod.uid for decision in fit.placed} | {refusal.pod.uid for refusal in plan.refused}
        everyone = {self.unit.pod.uid: self.unit.pod, **{pod.uid: pod for pod in self._gang.members}}
        plan.leftover = [pod for uid, pod in everyone.items() if uid not in used]
        return plan

    def _refuse(self, fit: GangFit, *, complete: bool, keep_nominations: bool) -> Plan:
        """Place no member: each waits for an event that may help any of them, or for the victims to go.

        `complete`: the gang needs no more members, so that each one has its own reasons.
        """
        message = fit.explain()
        if fit.fits and not self._gang.evicts and fit.before is not None:
            message, fit = f"{message} {fit.victims_named()}", fit.before
        plan = Plan(self.unit, [*fit.placed, *fit.refused], shortfall=None if fit.fits else fit.shortfall())
        if complete and fit.refused and not fit.fits:
            message = fit.refused[0].message
            if self._gang.whole and fit.preemption:
                message = f"{message} {fit.preemption}"
            plan.refused = self._refuse_each(fit)
        else:
            failed = [decision for decision in fit.refused if decision.outcome is Outcome.ERROR]
            plan.refused = [Refusal.of(decision) for decision in failed]
        if fit.fits:
            for decision in fit.placed:
                # Members that need no victims are nominated too, so that no other pod takes their room.
                node = decision.node or decision.nominated_node or ""
                if decision.victims:
                    plan.preemptions.append(
                        Preemption(decision.pod, node, decision.victims, decision.preempted_by, fit.preempted_for)
                    )
                plugins = decision.diagnosis.unschedulable_plugins | self._blames | fit.blamed_elsewhere
                plan.refused.append(Refusal(decision.pod, message, plugins, nominated_node=node))
        plugins = fit.blamed | self._blames if fit.explained else frozenset()
        nominated = None if keep_nominations else ""
        alike = ("gang", self._gang.name) if self._gang.asked_as_one else None
        plan.refused += [
            Refusal(pod, message, plugins, nominated_node=nominated, alike=alike) for pod in self._others(plan)
        ]
        plan.outcome, plan.message = GangOutcome.ERROR if fit.failed else GangOutcome.REFUSED, message
        return plan

    def _refuse_each(self, fit: GangFit) -> list[Refusal]:
        """Refuse the rejected members, each for its own reasons."""
        return [
            Refusal.of(decision)
            if decision.outcome is Outcome.ERROR
            else Refusal(
                decision.pod,
                decision.message,
                decision.diagnosis.unschedulable_plugins | self._blames,
                nominated_node="",
            )
            for decision in fit.refused
        ]

    def _others(self, plan: Plan) -> list[PodInfo]:
        """The members that were taken and are not in the plan."""
        refused = {refusal.pod.uid for refusal in plan.refused}
        return [pod for uid, pod in {self.unit.pod.uid: self.unit.pod, **self._taken}.items() if uid not in refused]

    def _refused(self, refusal: Refusal, outcome: GangOutcome) -> Plan:
        """The plan where no member but the pod whose turn it is was taken."""
        return Plan(self.unit, refused=[refusal], outcome=outcome, message=refusal.message)

    def _failed(self, message: str) -> Plan:
        """The plan after an error of a plugin."""
        plan = Plan(self.unit, outcome=GangOutcome.ERROR, message=message)
        plan.refused = [Refusal.failed(pod, message) for pod in self._others(plan)]
        return plan


def rules_of(plugin: Any) -> PreemptionRules:
    """The rules of a plugin that preempts for gangs."""
    rules = getattr(plugin, "rules", None)
    return rules if isinstance(rules, PreemptionRules) else PreemptionRules()


def _next(trial: GangTrial, fits: bool | None, plugin: str) -> Any:
    """Resume a trial with the answer to its last question, or start it with None. Raises PluginError."""
    try:
        return trial.send(fits)  # type: ignore[arg-type]  # a generator is started with None
    except StopIteration as end:
        return end.value
    except BaseException as error:
        raise PluginError.of(plugin, "GangPostFilter", error) from error
