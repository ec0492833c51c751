"""Two outcomes for people: one sentence, the workloads and pods that change, and why pods are pending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.questions.outcomes import ABSENT, PENDING, PLACED, PodChange, PodState, WorkloadChange
from bayplan.answers.insight.tables import grouped, table

_SIBLINGS = 3
"""More changed pods of a workload than these are summed up."""

_EVICTED = "evicted"
"""The state before of a pod that would be preempted, and not be created again, without the change."""

_SUMMARIES = {
    (PENDING, PLACED): "from pending to placed",
    (PLACED, PENDING): "from placed to pending",
    (PLACED, PLACED): "on another node",
    (PENDING, PENDING): "pending for another reason",
    (ABSENT, PLACED): "new and placed",
    (ABSENT, PENDING): "new and pending",
    (_EVICTED, PLACED): "no longer evicted",
    (_EVICTED, PENDING): "pending, and no longer evicted",
    (PLACED, ABSENT): "gone",
    (PENDING, ABSENT): "no longer pending",
}
"""The texts for changes, by the states before and after, in the order of the answers."""


_RANK: Mapping[tuple[str, str], int] = {states: number for number, states in enumerate(_SUMMARIES)}


def _states(change: PodChange) -> tuple[str, str]:
    before = change.before
    return (_EVICTED if before.state == ABSENT and before.message else before.state), change.after.state


def summary(pods: Sequence[PodChange], pending: int) -> str:
    """Return one sentence about changes. `pending`: the number of pods that are pending afterwards."""
    counts = Counter(map(_states, pods))
    parts = [
        f"{plural(counts[states], 'pod') if number == 0 else f'{counts[states]:,}'} {text}"
        for number, (states, text) in enumerate(item for item in _SUMMARIES.items() if counts[item[0]])
    ]
    text = ", ".join(parts) if parts else "no pod changes"
    return f"{text}; {plural(pending, 'pod')} pending afterwards" if pending else text


def changes_table(
    pods: Sequence[PodChange], workloads: Sequence[WorkloadChange], limit: int, *, wide: bool
) -> Iterator[RenderableType]:
    """Yield the tables of changed workloads and pods, up to `limit` rows each, and why pods are pending afterwards.

    Pods of a workload with few changes, and all pods if `wide`, have a row of their own.
    """
    limit = 0 if wide else limit
    siblings = Counter(change.workload for change in pods)
    summed = {name for name, number in siblings.items() if name and number > _SIBLINGS and not wide}
    if summed:
        yield from _workloads([workload for workload in workloads if workload.workload in summed], pods, limit)
    single = sorted((pod for pod in pods if pod.workload not in summed), key=lambda each: _RANK[_states(each)])
    if single:
        headers = ("POD", "BEFORE", "AFTER")
        yield from (
            Text(),
            table(headers, single, lambda each: (each.pod, _where(each.before), _where(each.after)), limit),
        )
    yield from _causes(pods, summed, wide=wide)


def _workloads(workloads: Sequence[WorkloadChange], pods: Iterable[PodChange], limit: int) -> Iterator[RenderableType]:
    members = grouped((change.workload, change) for change in pods)
    in_order = sorted(
        workloads, key=lambda each: (min(_RANK[_states(pod)] for pod in members[each.workload]), each.workload)
    )

    def row(each: WorkloadChange) -> Sequence[str]:
        numbers = (_from_to(each.before[state], each.after[state]) for state in (PLACED, PENDING))
        return each.workload, *numbers, "; ".join(_sorts(members[each.workload]))

    yield from (Text(), table(("WORKLOAD", "PLACED", "PENDING", "PODS"), in_order, row, limit))


def _sorts(pods: Iterable[PodChange]) -> Iterator[str]:
    """What happens to the pods of a workload, with the nodes that take the most of them."""
    found = grouped((_states(change), change) for change in pods)
    for states, text in _SUMMARIES.items():
        if states in found:
            nodes = Counter(change.after.node for change in found[states] if change.after.node)
            where = f" on {listed([str(node) for node, _ in nodes.most_common()], 3)}" if nodes else ""
            here = text if states != (PLACED, PLACED) else "on another node, now"
            yield f"{len(found[states]):,} {here}{where}"


def _from_to(before: int, after: int) -> str:
    return f"{before:,} -> {after:,}" if before != after else f"{after:,}"


def _causes(pods: Iterable[PodChange], summed: set[str], *, wide: bool) -> Iterator[RenderableType]:
    pending = (change for change in pods if change.after.state == PENDING)
    causes = grouped(
        ((each.before.message if each.before.state == PENDING else "", each.after.message), each) for each in pending
    )
    if causes:
        yield Text()
    for (before, after), members in causes.items():
        counts = Counter(member.workload for member in members if member.workload in summed)
        names = [f"{plural(number, 'pod')} of {name}" for name, number in counts.items()]
        names += [member.pod for member in members if member.workload not in summed]
        yield Text(f"{listed(names, len(names) if wide else 5)}: {after}")
        if before:
            yield Text(f"  before: {before}")


def _where(state: PodState) -> str:
    return {PLACED: state.node or PLACED, ABSENT: _EVICTED if state.message else "-"}.get(state.state, state.state)
