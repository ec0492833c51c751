"""The states of all pods after the pending ones have been attempted, and how two such outcomes differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.api.kinds import POD
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight.answers import Answer, Progress, listed, plural, silent
from bayplan.insight.questions.documents import pending_copy
from bayplan.insight.questions.utilization import Usage, utilization
from bayplan.scheduling import Preemption
from bayplan.simulation.carry_out import Fate, Result, Simulation
from bayplan.simulation.world import World

PLACED = "placed"
PENDING = "pending"
ABSENT = "absent"
"""The states of a pod: it has a node, it has none, or it doesn't exist."""


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a pod, with its node, and the reason if it is pending."""

    state: str
    node: str | None = None
    message: str = ""


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

    def to_dict(self) -> dict[str, Any]:
        """Return the change as in docs/insight.md."""
        return {
            "pod": self.pod,
            "before": self.before.state,
            "after": self.after.state,
            "nodeBefore": self.before.node,
            "node": self.after.node,
            "messageBefore": self.before.message,
            "message": self.after.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Answer):
    """An answer that compares two clusters, both after their pending pods have been attempted.

    `pods`: those with another state, node or message. `pending`: how many are pending in the second cluster. `before`
    and `after`: the utilization by resource. `shown`: rows of each sort in tables; 0 for all.
    """

    pods: tuple[PodChange, ...]
    pending: int
    before: tuple[Usage, ...]
    after: tuple[Usage, ...]
    shown: int = 20

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {
            "pods": self.rows(),
            "pending": self.pending,
            "utilization": {
                "before": [usage.to_dict() for usage in self.before],
                "after": [usage.to_dict() for usage in self.after],
            },
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per changed pod."""
        return [change.to_dict() for change in self.pods]


def settled(
    world: World, observe: Callable[[World], object] = lambda _: None, progress: Progress = silent
) -> tuple[dict[str, PodState], tuple[Usage, ...]]:
    """Return the states of all pods after the pending ones have been attempted, and the utilization then.

    `observe` is called with the world at that point. The world ends as it began, also if `progress` raises Stopped.
    """
    with world.what_if():
        states = settle(world, progress)
        observe(world)
        return states, utilization(world)


def settle(world: World, progress: Progress = silent) -> dict[str, PodState]:
    """Schedule the pending pods of a world in the order of the queue. Returns the states of all pods by key.

    Controllers create preempted pods again; those without a controller are gone. The changes stay in the world: call
    this in a `what_if`.
    """
    results: dict[str, Result] = {}
    recreated: list[PodInfo] = []

    def evicted(victim: PodInfo, _: Preemption) -> None:
        results.pop(victim.key, None)
        if any(owner.controller for owner in victim.metadata.ownerReferences or ()):
            recreated.append(pending_copy(victim))

    waiting = list(world.pending.values())
    while waiting:
        results |= Simulation(world, evicted, together=True).schedule(
            world.in_queue_order(waiting), lambda done: progress(f"{done:,} pods")
        )
        waiting = list(recreated)
        recreated.clear()
        for pod in waiting:
            world.change(POD, pod.key, pod)
    states = {key: _state(world, pod, results.get(key)) for key, pod in world.state.objects[POD].items()}
    for key, result in results.items():
        if result.fate is not Fate.PENDING and key in states:
            states[key] = PodState(PLACED, result.node)
    return states


def _state(world: World, pod: PodInfo, result: Result | None) -> PodState:
    if pod.node_name:
        return PodState(PLACED, pod.node_name)
    if result is not None:
        return PodState(PENDING, message=result.message)
    if pod.scheduler_name not in world.profiles:
        return PodState(PENDING, message=f"no scheduler here has the name {pod.scheduler_name!r}")
    return PodState(PENDING)


_NOWHERE = PodState(ABSENT)


def compare(before: Mapping[str, PodState], after: Mapping[str, PodState]) -> tuple[PodChange, ...]:
    """Return the pods that have another state, another node or another message, ordered by name."""
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return tuple(PodChange(key, before.get(key, _NOWHERE), after.get(key, _NOWHERE)) for key in sorted(keys))


# For people

_SUMMARIES = {
    (PENDING, PLACED): "from pending to placed",
    (PLACED, PENDING): "from placed to pending",
    (PLACED, PLACED): "on another node",
    (PENDING, PENDING): "pending for another reason",
    (ABSENT, PLACED): "new and placed",
    (ABSENT, PENDING): "new and pending",
    (PLACED, ABSENT): "gone",
    (PENDING, ABSENT): "no longer pending",
}
"""The texts for changes, by the states before and after, in the order of the answers."""


def pending_in(states: Mapping[str, PodState]) -> int:
    """Return the number of pending pods."""
    return sum(each.state == PENDING for each in states.values())


def summary(pods: Sequence[PodChange], pending: int) -> str:
    """Return one sentence about changes. `pending`: the number of pods that are pending afterwards."""
    counts = Counter(change.states for change in pods)
    parts = [
        f"{plural(counts[states], 'pod') if number == 0 else f'{counts[states]:,}'} {text}"
        for number, (states, text) in enumerate(each for each in _SUMMARIES.items() if counts[each[0]])
    ]
    text = ", ".join(parts) if parts else "no pod changes"
    return f"{text}; {plural(pending, 'pod')} pending afterwards" if pending else text


def changes_table(pods: Sequence[PodChange], limit: int, *, wide: bool) -> list[RenderableType]:
    """Return the table of changed pods, up to `limit` of each sort, and why pods are pending afterwards."""
    if not pods:
        return []
    table = Table("POD", "BEFORE", "AFTER", box=None, pad_edge=False, header_style="bold")
    left = 0
    for states in _SUMMARIES:
        found = [change for change in pods if change.states == states]
        shown = found if wide or not limit else found[:limit]
        left += len(found) - len(shown)
        for change in shown:
            table.add_row(change.pod, _where(change.before), _where(change.after))
    parts: list[RenderableType] = [Text(), table]
    if left:
        parts.append(Text(f"... and {plural(left, 'more pod')}"))
    causes: dict[tuple[str, str], list[str]] = {}
    for change in pods:
        if change.after.state == PENDING:
            before = change.before.message if change.before.state == PENDING else ""
            causes.setdefault((before, change.after.message), []).append(change.pod)
    for number, ((before, after), names) in enumerate(causes.items()):
        parts += [Text()] if number == 0 else []
        parts.append(Text(f"{listed(names, len(names) if wide else 5)}: {after}"))
        if before:
            parts.append(Text(f"  before: {before}"))
    return parts


def _where(state: PodState) -> str:
    return {PLACED: state.node or PLACED, ABSENT: "-"}.get(state.state, state.state)
