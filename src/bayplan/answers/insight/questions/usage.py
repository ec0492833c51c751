"""usage: who uses the cluster, by namespace, workload and priority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer, QuestionError
from bayplan.answers.insight.json_values import as_json, fields_of
from bayplan.answers.insight.questions.utilization import Usage, quantity_text, utilization
from bayplan.answers.insight.tables import table
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.world import World
from bayplan.core.api.requests import PODS
from bayplan.core.cluster.pod_info import PodInfo

NAMESPACE, WORKLOAD, PRIORITY = "namespace", "workload", "priority"
GROUPINGS = (NAMESPACE, WORKLOAD, PRIORITY)


@dataclass(frozen=True, slots=True)
class GroupOfPods:
    """The pods of a namespace, a workload or a priority.

    `placed` and `pending`: how many have a node, and how many have none. `requests` and `waiting`: what these request,
    by resource, in millicores of cpu or base units.
    """

    name: str
    placed: int
    pending: int
    requests: Mapping[str, int]
    waiting: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the group as in docs/insight.md."""
        return {**fields_of(self, "waiting"), "pendingRequests": dict(self.waiting)}


@dataclass(frozen=True, slots=True)
class Requests(Answer):
    """What the pods of a cluster request. `groups`: by grouping, those that request the most first.

    `cluster`: the utilization of all nodes. `shown`: rows of each table; 0 for all.
    """

    cluster: tuple[Usage, ...]
    groups: Mapping[str, tuple[GroupOfPods, ...]]
    shown: int = 20

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {"cluster": as_json(self.cluster), "by": as_json(self.groups)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per group, with its requests by resource."""
        return [
            {"by": by, "name": group.name, "placed": group.placed, "pending": group.pending, **group.requests}
            for by, found in self.groups.items()
            for group in found
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a table by grouping: the requests, each with its share of what is allocatable in the cluster."""
        parts: list[RenderableType] = []
        for by, found in self.groups.items():
            parts += [Text()] if parts else []
            if len(found) > 1 or by != PRIORITY:
                parts.append(self._table(by, found, wide=wide))
            else:
                parts.append(Text(f"all pods have the priority {found[0].name}" if found else "there are no pods"))
        return Lines(*parts)

    def _table(self, by: str, found: Sequence[GroupOfPods], *, wide: bool) -> Table:
        totals = {usage.resource: usage.allocatable for usage in self.cluster if usage.resource != PODS}
        asked = {name for group in found for requests in (group.requests, group.waiting) for name in requests}
        resources = [name for name in totals if name in asked] + sorted(asked - totals.keys())

        def row(group: GroupOfPods) -> Sequence[str]:
            texts = (_amount(name, group.requests.get(name, 0), totals.get(name, 0)) for name in resources)
            return group.name, f"{group.placed:,}", f"{group.pending:,}", *texts

        return table((by.upper(), "PODS", "PENDING", *resources), found, row, 0 if wide else self.shown)


def _amount(resource: str, amount: int, total: int) -> str:
    if not amount:
        return "-"
    return quantity_text(resource, amount) + (f" ({amount / total:.0%})" if total else "")


def groupings_of(by: Sequence[str]) -> Sequence[str]:
    """Return the groupings that are asked for, each once; by default, all. Raises QuestionError for an unknown one."""
    for grouping in by:
        if grouping not in GROUPINGS:
            raise QuestionError(f"by {grouping}: expected one of {', '.join(GROUPINGS)}")
    return tuple(dict.fromkeys(by)) or GROUPINGS


def usage(world: World, pods: Iterable[PodInfo], by: Sequence[str] = GROUPINGS, shown: int = 20) -> Requests:
    """Sum up what pods request, by each of some groupings. Pods of a workload that isn't known count by their name."""
    names: dict[str, Callable[[PodInfo], str]] = {
        NAMESPACE: lambda pod: pod.namespace,
        WORKLOAD: lambda pod: workload_of(pod) or f"pod {pod.key}",
        PRIORITY: lambda pod: priorities.get(pod.priority) or named(pod),
    }
    priorities: dict[int, str] = {}

    def named(pod: PodInfo) -> str:
        """The priority with the name of its class, as the first of its pods has it."""
        name = pod.spec.priorityClassName
        return priorities.setdefault(pod.priority, f"{pod.priority} ({name})" if name else str(pod.priority))

    sums: dict[str, dict[str, _Sum]] = {grouping: {} for grouping in by}
    for pod in pods:
        for grouping in by:
            sums[grouping].setdefault(names[grouping](pod), _Sum(pod.priority)).add(pod)
    cluster = utilization(world)
    totals = {usage.resource: usage.allocatable for usage in cluster}
    groups = {grouping: tuple(_in_order(found, totals, grouping)) for grouping, found in sums.items()}
    return Requests(cluster, groups, shown)


@dataclass(slots=True)
class _Sum:
    priority: int
    placed: int = 0
    pending: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)

    def add(self, pod: PodInfo) -> None:
        if pod.node_name:
            self.placed += 1
            sums = self.requests
        else:
            self.pending += 1
            sums = self.waiting
        for name, amount in pod.requested.items():
            if amount:
                sums[name] += amount


def _in_order(found: Mapping[str, _Sum], totals: Mapping[str, int], grouping: str) -> Iterable[GroupOfPods]:
    """The groups by the largest share of a resource; priorities by their value."""

    def rank(name: str) -> tuple[float, str]:
        each = found[name]
        if grouping == PRIORITY:
            return -each.priority, name
        shares = [amount / totals[resource] for resource, amount in each.requests.items() if totals.get(resource)]
        return -max(shares, default=0.0), name

    for name in sorted(found, key=rank):
        each = found[name]
        yield GroupOfPods(name, each.placed, each.pending, each.requests, each.waiting)
