"""Plan: the result of one attempt, as a value. Nothing is changed before the executor carries it out.

A plan has a place for every pod of its unit: placed, refused, or left over. Victims are in `preemptions`. Only
`bayplan.core.executor.executor` gives a plan effect; conformance and questions just read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.gangs import Gang, GangOutcome
from bayplan.core.framework.pod_run import Alike
from bayplan.core.scheduling.decision import Decision, Outcome
from bayplan.core.scheduling.fit import Shortfall
from bayplan.core.scheduling.unit import Unit


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods to evict from `node` to make room for `pod`, chosen by `plugin`.

    `pod_group_uid`: the PodGroup, or the CompositePodGroup, that preempts; "" where the pod preempts for itself.
    `pod_groups`: the keys of the PodGroups whose pods preempt together.
    """

    pod: PodInfo
    node: str
    victims: tuple[PodInfo, ...]
    plugin: str
    pod_group_uid: str = ""
    pod_groups: frozenset[str] = frozenset()


class GangReport(NamedTuple):
    """What an attempt of a gang of gangs comes to for one of them. `message`: "" if it is placed."""

    gang: Gang
    outcome: GangOutcome
    message: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that stays pending, and why.

    `plugins`, `pending`: the plugins that rejected the pod, and those among them that expect an event soon. Events that
    they registered for requeue it. `error`: the attempt failed; the pod is retried after a backoff. `undone`: the pod
    was placed, and rejected on its node. `nominated_node`: None keeps the pod's nomination, "" clears it.
    `alike`: that of the decision.
    """

    pod: PodInfo
    message: str
    plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nominated_node: str | None = None
    error: bool = False
    undone: bool = False
    alike: Alike | None = None

    @classmethod
    def of(cls, decision: Decision) -> Refusal:
        """The refusal of a pod that was not placed."""
        if decision.outcome is Outcome.ERROR:
            return cls.failed(decision.pod, decision.message)
        diagnosis = decision.diagnosis
        return cls(
            decision.pod,
            decision.message,
            diagnosis.unschedulable_plugins,
            diagnosis.pending_plugins,
            decision.nominated_node,
            alike=decision.alike,
        )

    @classmethod
    def failed(cls, pod: PodInfo, message: str) -> Refusal:
        """The refusal of a pod whose attempt failed."""
        return cls(pod, message, nominated_node="", error=True)


@dataclass(slots=True)
class Plan:
    """The result of an attempt of a unit.

    `decisions`: every pod that was tried, in order. `placed`: the pods to assume on their nodes; with `all_or_none`,
    none of them may be bound without the others. `preemptions`: to start before their pods are requeued. `refused`:
    pods to requeue. `leftover`: members of a placed gang that it does not need; they are attempted individually, or
    together with later members. `outcome`, `message`: the report to the plugin that named the gang, if there is one.
    `of_groups`: the same about the gangs that it consists of, at all levels. `shortfall`: why the gang does not fit, if
    it does not.
    """

    unit: Unit
    decisions: list[Decision] = field(default_factory=list)
    placed: list[Decision] = field(default_factory=list)
    all_or_none: bool = False
    preemptions: list[Preemption] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    leftover: list[PodInfo] = field(default_factory=list)
    outcome: GangOutcome | None = None
    message: str = ""
    of_groups: tuple[GangReport, ...] = ()
    shortfall: Shortfall | None = None

    @classmethod
    def of(cls, unit: Unit, decision: Decision) -> Plan:
        """The plan for a single pod."""
        if decision.outcome is Outcome.SCHEDULED:
            return cls(unit, [decision], placed=[decision])
        plan = cls(unit, [decision])
        if decision.victims:
            node = decision.nominated_node or ""
            plan.preemptions.append(Preemption(decision.pod, node, decision.victims, decision.preempted_by))
        plan.refused.append(Refusal.of(decision))
        return plan

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes that the plan uses."""
        return {each.node for each in self.placed if each.node is not None} | {each.node for each in self.preemptions}
