"""A gang's attempt: nodes are searched for its members (`gang_search.py`), and room is made if there are too few.

A plugin that makes room for a gang as a whole (`gang_post_filter`) is a generator that asks whether the gang fits
without certain pods. The plan (`gang_plans.py`) places enough members or none, and its `shortfall` says which member
does not fit; the plugin that named the gang is told (`gang_decided`). See docs/gangs.md. Mirrors podGroupCycle in
pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

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
    PodsGone,
    PreemptionRules,
    several_schedulers,
)
from bayplan.core.framework.placements import generate_placements
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.scheduling.cycle import Options, SchedulingCycle
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.scheduling.fit import GangFit
from bayplan.core.scheduling.gang_plans import GangPlans
from bayplan.core.scheduling.gang_search import GangSearch, Placements, Search
from bayplan.core.scheduling.kept_nodes import KeptNodes
from bayplan.core.scheduling.plan import Plan, Refusal
from bayplan.core.scheduling.unit import Unit

CONSTRAINED = "not eligible due to placement-based pod group scheduling limitation"
AS_A_WHOLE = "not eligible due to workload aware preemption enabled"
ONGOING = "ongoing preemption on nominated nodes"
FOUND = "found a placement for podgroup, preempting {} victims"


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
    _search: GangSearch = field(init=False)

    def run(self) -> Generator[Request, Any, Plan]:
        """Return a plan that places the gang, or preempts for it, or requeues it."""
        unit, named = self.unit, self.unit.gang
        assert named is not None
        if problem := self._problem(named):
            self._taken = yield TakeMembers(tuple(unit.pending))
            return self._plans(named).failed(problem)
        try:
            placements = generate_placements(self.profile, named, self.state.nodes)
            trial, plugin = self._trial(named, constrained=placements is not None)
        except PluginError as error:
            self.options.record(error, unit.pod)
            return self._plans(named).refused(Refusal.failed(unit.pod, str(error)), GangOutcome.ERROR)
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
            refusal = Refusal(unit.pod, message, frozenset({unit.gang_plugin}))
            return self._plans(named).refused(refusal, GangOutcome.REFUSED)
        if len(ours) < named.needed and not named.together:
            return (yield from self._alone())
        self._gang = replace(named, members=ours, needed=max(named.needed, 1), data={})
        self._taken = yield TakeMembers(ours)
        self._search = GangSearch(self._gang, self.profile, self.state, self.rng, self.options, self._taken)
        plans = self._plans(self._gang)
        try:
            fit = yield from self._search.best(placements)
            room_is_made = self._room_is_made()
            if room_is_made and trial is not None and rules_of(plugin).reports:
                fit.preemption = f"{rules_of(plugin).name}: {ONGOING}"
            if not fit.fits and not fit.failed and not room_is_made and self._give_back(fit):
                fit = yield from self._make_room(fit, placements, trial, plugin)
        except PluginError as error:
            self.options.record(error, unit.pod)
            return plans.failed(str(error))
        if fit.fits and not fit.preempt:
            return plans.place(fit)
        return plans.refuse(fit, complete=not named.needed, keep_nominations=room_is_made)

    def _plans(self, gang: Gang) -> GangPlans:
        return GangPlans(self.unit, gang, self._taken)

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

    def _alone(self) -> Generator[Request, Any, Plan]:
        """Decide the pod whose turn it is by itself."""
        cycle = SchedulingCycle(self.profile, self.state, self.unit.pod, self.rng, self.options)
        return Plan.of(self.unit, (yield from cycle.run()))

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
        self, fit: GangFit, placements: Placements, trial: GangTrial | None, plugin: Any
    ) -> Generator[Request, Any, GangFit]:
        """For a gang that does not fit: find victims, for each member or for the gang as a whole."""
        if trial is not None:
            return (yield from self._try_victims(fit, placements, trial, plugin))
        if not any(decision.nominated_node for decision in fit.refused):
            return fit
        preempting = yield from self._search.with_victims()
        if preempting.fits and not self._gang.evicts:
            preempting.before = fit
        return preempting if preempting.fits else fit

    def _try_victims(
        self, fit: GangFit, placements: Placements, trial: GangTrial, plugin: Any
    ) -> Generator[Request, Any, GangFit]:
        """Answer a plugin's trial until it has chosen the victims, and fit the gang then. Raises PluginError."""
        name, rules, first = plugin.name, rules_of(plugin), None
        answer = _next(trial, None, name)
        kept: KeptNodes | None = None
        if rules.keeps_nodes and isinstance(answer, PodsGone) and self._search.apart:
            first = yield from self._search.with_pods_gone(answer, constrained=placements is not None)
            kept = KeptNodes(self._search, first)
            answer.nodes = kept.names
            answer = _next(trial, first.fits, name)
        with self.state.what_if() as what_if:
            while not isinstance(answer, GangVictims | Status):
                what_if.remove_only(answer)
                if kept is not None:
                    answer = _next(trial, (yield from kept.fit(answer)), name)
                    continue
                found = yield from self._again(first if rules.keeps_nodes else None, placements)
                first = first or found
                enough = len(first.placed) if rules.places_most or rules.keeps_nodes else 0
                answer = _next(trial, found.fits and len(found.placed) >= enough, name)
            if isinstance(answer, Status):
                fit.preemption = f"{rules.name}: {answer.message}"
                return fit
            what_if.remove_only(answer.victims)
            found = yield from self._again(first if rules.keeps_nodes else None, placements)
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

    def _again(self, before: GangFit | None, placements: Placements) -> Search:
        """Fit the gang into its placements; or the members that have nodes, each on the same node as before."""
        return (yield from self._search.best(placements) if before is None else self._search.again(before))


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
