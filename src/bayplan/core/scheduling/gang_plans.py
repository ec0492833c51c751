"""What a gang's attempt comes to, as plans: all members that fit are placed, or none of them, and each learns why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.gangs import Gang, GangOutcome
from bayplan.core.framework.pod_run import Alike
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.scheduling.fit import GangFit
from bayplan.core.scheduling.plan import GangReport, Plan, Preemption, Refusal
from bayplan.core.scheduling.unit import Unit


@dataclass(frozen=True, slots=True)
class GangPlans:
    """Makes the plan of a gang's attempt. `taken`: the members that can be attempted now, by uid."""

    unit: Unit
    gang: Gang
    taken: Mapping[str, PodInfo]

    def place(self, fit: GangFit) -> Plan:
        """Place the members that fit. The gang does not need the others: unless no member may preempt by itself, they
        are attempted on their own.
        """
        plan = Plan(self.unit, fit.decisions, placed=fit.placed, all_or_none=True, outcome=GangOutcome.PLACED)
        if self.gang.no_preemption or self.gang.whole:
            plan.refused = list(self._refuse_unneeded(fit))
        plan.of_groups = tuple(_reports(fit, ""))
        used = {decision.pod.uid for decision in fit.placed} | {refusal.pod.uid for refusal in plan.refused}
        everyone = {self.unit.pod.uid: self.unit.pod, **{pod.uid: pod for pod in self.gang.members}}
        plan.leftover = [pod for uid, pod in everyone.items() if uid not in used]
        return plan

    def refuse(self, fit: GangFit, *, complete: bool, keep_nominations: bool) -> Plan:
        """Place no member: each waits for an event that may help any of them, or for the victims to go.

        `complete`: the gang needs no more members, so that each one has its own reasons.
        """
        message = fit.explain()
        if fit.fits and not self.gang.evicts and fit.before is not None:
            message, fit = f"{message} {fit.victims_named()}", fit.before
        plan = Plan(self.unit, fit.decisions, shortfall=None if fit.fits else fit.shortfall())
        if complete and fit.refused and not fit.fits:
            message = fit.refused[0].message
            if self.gang.whole and fit.preemption:
                message = f"{message} {fit.preemption}"
            plan.refused = self._refuse_each(fit)
        else:
            failed = [decision for decision in fit.refused if decision.outcome is Outcome.ERROR]
            plan.refused = [Refusal.of(decision) for decision in failed]
        if fit.fits:
            self._preempt(fit, plan, message)
        plugins = fit.blamed | self._blames if fit.explained else frozenset()
        nominated = None if keep_nominations else ""
        alike = Alike(("gang", self.gang.name)) if self.gang.asked_as_one else None
        plan.refused += [
            Refusal(pod, message, plugins, nominated_node=nominated, alike=alike) for pod in self._others(plan)
        ]
        plan.outcome, plan.message = GangOutcome.ERROR if fit.failed else GangOutcome.REFUSED, message
        plan.of_groups = tuple(_reports(fit.before or fit, message, failed=fit.failed))
        return plan

    def refused(self, refusal: Refusal, outcome: GangOutcome) -> Plan:
        """The plan where no member but the pod whose turn it is was taken."""
        return Plan(self.unit, refused=[refusal], outcome=outcome, message=refusal.message)

    def failed(self, message: str) -> Plan:
        """The plan after an error of a plugin."""
        plan = Plan(self.unit, outcome=GangOutcome.ERROR, message=message)
        plan.refused = [Refusal.failed(pod, message) for pod in self._others(plan)]
        return plan

    @property
    def _blames(self) -> frozenset[str]:
        """The plugin whose events always requeue members."""
        return frozenset({self.unit.gang_plugin})

    def _preempt(self, fit: GangFit, plan: Plan, message: str) -> None:
        """Nominate the members that would fit, and evict the victims."""
        for decision in fit.placed:
            # Members that need no victims are nominated too, so that no other pod takes their room.
            node = decision.node or decision.nominated_node or ""
            if decision.victims:
                preemption = Preemption(decision.pod, node, decision.victims, decision.preempted_by, fit.preempted_for)
                if fit.preempted_for:
                    preemption = replace(preemption, pod_groups=self.gang.pod_groups)
                plan.preemptions.append(preemption)
            plugins = decision.diagnosis.unschedulable_plugins | self._blames | fit.blamed_elsewhere
            plan.refused.append(Refusal(decision.pod, message, plugins, nominated_node=node))

    def _refuse_unneeded(self, fit: GangFit) -> Iterator[Refusal]:
        """Refuse the members that a gang does not need that fits: each for its own reasons, or those of its group."""
        if not fit.parts:
            yield from self._refuse_each(fit)
        for part in fit.parts:
            if part.fits:
                yield from self._refuse_unneeded(part)
                continue
            plugins = part.blamed | self._blames if part.explained else frozenset()
            taken = (self.taken[pod.uid] for pod in part.gang.members if pod.uid in self.taken)
            yield from (Refusal(pod, part.explain(), plugins, nominated_node="") for pod in taken)

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
        return [pod for uid, pod in {self.unit.pod.uid: self.unit.pod, **self.taken}.items() if uid not in refused]


def _reports(fit: GangFit, above: str, *, failed: bool = False) -> Iterator[GangReport]:
    """Yield what comes of the groups of a gang. `above`: why a gang above isn't placed; "" if all of them are.

    A group that fits in one that doesn't isn't placed, for the reason of that one. Mirrors
    completeCompositePodGroupAlgorithmResultMap in pkg/scheduler/schedule_one_podgroup.go.
    """
    refused = GangOutcome.ERROR if failed else GangOutcome.REFUSED
    for position, group in enumerate(fit.gang.groups):
        part = fit.parts[position] if position < len(fit.parts) else GangFit(group)
        tried = position < len(fit.parts)
        message = part.explain() if tried and not part.fits and not failed else above
        yield GangReport(group, refused if message else GangOutcome.PLACED, message)
        yield from _reports(part, message, failed=failed)
