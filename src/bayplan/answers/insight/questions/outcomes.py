"""The states of all pods after the pending ones have been attempted, and how two such outcomes differ.

what-if, diff and upgrade-preview compare outcomes. The world ends as it began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.insight.answers import Answer, Progress, silent
from bayplan.answers.insight.json_values import as_json, fields_of
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.utilization import Usage, utilization
from bayplan.answers.simulation.owners import is_replaced, workload_of
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import Preemption

PLACED = "placed"
PENDING = "pending"
ABSENT = "absent"
"""The states of a pod: it has a node, it has none, or it doesn't exist."""


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a pod, with its node, and the reason if it is pending or was evicted without being created again.

    `workload`: see `owners.workload_of`.
    """

    state: str
    node: str | None = None
    message: str = ""
    workload: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod whose state or node changes. Its states are `placed`, `pending` and `absent`."""

    pod: str
    before: PodState
    after: PodState

    @property
    def states(self) -> tuple[str, str]:
        """The states before and after."""
        return self.before.state, self.after.state

    @property
    def workload(self) -> str:
        """The workload that the pod belongs to; "" if there is none."""
        return self.after.workload or self.before.workload

    def to_dict(self) -> dict[str, Any]:
        """Return the change as in docs/insight.md."""
        return {
            "pod": self.pod,
            "workload": self.workload,
            "before": self.before.state,
            "after": self.after.state,
            "nodeBefore": self.before.node,
            "node": self.after.node,
            "messageBefore": self.before.message,
            "message": self.after.message,
        }


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """A workload with pods that change. `before` and `after`: the number of all its pods by state."""

    workload: str
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeComparison(Answer):
    """An answer that compares two clusters, both after their pending pods have been attempted.

    `pods`: those with another state, node or message. `workloads`: those of these pods, summed up. `pending`: how many
    are pending in the second cluster. `before` and `after`: the utilization by resource. `shown`: rows in tables; 0 for
    all.
    """

    pods: tuple[PodChange, ...]
    workloads: tuple[WorkloadChange, ...]
    pending: int
    before: tuple[Usage, ...]
    after: tuple[Usage, ...]
    shown: int = 20

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {
            **fields_of(self, "before", "after"),
            "utilization": as_json({"before": self.before, "after": self.after}),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per changed pod."""
        return [change.to_dict() for change in self.pods]


Order = Callable[[Iterable[PodInfo]], Sequence[PodInfo]]


def after_scheduling(
    world: World,
    observe: Callable[[World], object] = lambda _: None,
    progress: Progress = silent,
    order: Order | None = None,
) -> tuple[dict[str, PodState], tuple[Usage, ...]]:
    """Return the states of all pods after the pending ones have been attempted, and the utilization then.

    `observe` is called with the world at that point. `order`: that of the queue by default. The world ends as it began,
    also if `progress` raises Stopped.
    """
    with world.what_if():
        states = schedule_pending(world, order or world.in_queue_order, progress)
        observe(world)
        return states, utilization(world)


def schedule_pending(world: World, order: Order, progress: Progress = silent) -> dict[str, PodState]:
    """Schedule the pending pods of a world in an order. Returns the states of all pods by key.

    Controllers create preempted pods again; those without a controller are gone. The changes stay in the world: call
    this in a `what_if`.
    """
    results: dict[str, Result] = {}
    recreated: list[PodInfo] = []
    gone: dict[str, PodState] = {}

    def evicted(victim: PodInfo, preemption: Preemption) -> None:
        results.pop(victim.key, None)
        if is_replaced(victim):
            recreated.append(pending_copy(victim))
        else:
            why = f"preempted by pod {preemption.pod.key}"
            gone[victim.key] = PodState(ABSENT, message=why, workload=workload_of(victim))

    waiting = list(world.pending.values())
    while waiting:
        results |= Simulation(world, evicted, together=True).schedule(
            order(waiting), lambda done: progress(f"{done:,} pods")
        )
        waiting = list(recreated)
        recreated.clear()
        for pod in waiting:
            world.change(POD, pod.key, pod)
    return gone | {key: _state(world, pod, results.get(key)) for key, pod in world.state.objects[POD].items()}


def _state(world: World, pod: PodInfo, result: Result | None) -> PodState:
    workload = workload_of(pod)
    if result is not None and result.fate is not Fate.PENDING:
        return PodState(PLACED, result.node, workload=workload)
    if pod.node_name:
        return PodState(PLACED, pod.node_name, workload=workload)
    if result is not None:
        return PodState(PENDING, message=result.message, workload=workload)
    if pod.scheduler_name not in world.profiles:
        return PodState(PENDING, None, f"no scheduler here has the name {pod.scheduler_name!r}", workload)
    return PodState(PENDING, workload=workload)


_NOWHERE = PodState(ABSENT)


def compare(before: Mapping[str, PodState], after: Mapping[str, PodState]) -> tuple[PodChange, ...]:
    """Return the pods that have another state, another node or another message, ordered by name."""
    both = ((key, before.get(key, _NOWHERE), after.get(key, _NOWHERE)) for key in sorted(before.keys() | after.keys()))
    return tuple(PodChange(*each) for each in both if each[1] != each[2] and {ABSENT} != {each[1].state, each[2].state})


def by_workload(
    pods: Iterable[PodChange], before: Mapping[str, PodState], after: Mapping[str, PodState]
) -> tuple[WorkloadChange, ...]:
    """Return the workloads of changed pods, ordered by name, with the numbers of all their pods before and after."""
    names = {change.workload for change in pods} - {""}
    counts = [Counter((each.workload, each.state) for each in states.values()) for states in (before, after)]
    return tuple(
        WorkloadChange(name, *({state: count[name, state] for state in (PLACED, PENDING)} for count in counts))
        for name in sorted(names)
    )


def pending_in(states: Mapping[str, PodState]) -> int:
    """Return the number of pending pods."""
    return sum(state.state == PENDING for state in states.values())
