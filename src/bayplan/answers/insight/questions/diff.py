"""diff: what changes between two snapshots, or between two schedulers on one: nodes, pods, and why they are pending.

Pending pods have had their turn on both sides. Objects with equal bytes are not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.nodes import node_at
from bayplan.answers.insight.questions.comparing import changes_table, summary
from bayplan.answers.insight.questions.object_changes import ObjectChange, object_changes
from bayplan.answers.insight.questions.outcomes import (
    OutcomeComparison,
    after_scheduling,
    by_workload,
    compare,
    pending_in,
)
from bayplan.answers.insight.questions.utilization import before_and_after, quantity_text
from bayplan.answers.insight.tables import table
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import NODE
from bayplan.core.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from bayplan.core.api.tolerations import taint_text
from bayplan.core.cluster.nodes import NodeInfo


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that is `added`, `removed` or `changed`, and what is different as far as scheduling depends on it."""

    node: str
    change: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(OutcomeComparison):
    """How cluster `b` differs from `a`.

    `nodes`: those that are added, removed or changed. `objects`: workloads that scale or change, budgets and quotas.
    """

    a: str
    b: str
    nodes: tuple[NodeChange, ...]
    objects: tuple[ObjectChange, ...]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the changed nodes, other objects and pods, and the utilization."""
        parts: list[RenderableType] = [Text(f"from {self.a} to {self.b}: {self._headline()}", style="bold")]
        limit = 0 if wide else self.shown
        nodes = [(change.node, change.change, "; ".join(change.details)) for change in self.nodes]
        objects = [(change.object, change.change, "; ".join(change.details)) for change in self.objects]
        for title, rows in (("NODE", nodes), ("OBJECT", objects)):
            if rows:
                parts += [Text(), table((title, "CHANGE", "DETAILS"), rows, lambda row: row, limit)]
        parts += changes_table(self.pods, self.workloads, self.shown, wide=wide)
        return Lines(*parts, Text(), before_and_after(self.before, self.after, ("A", "B")))

    def _headline(self) -> str:
        nodes = f"{plural(len(self.nodes), 'node')} added, removed or changed; " if self.nodes else ""
        kinds = Counter(change.object.partition(" ")[0] for change in self.objects)
        objects = ", ".join(plural(number, _NOUNS.get(kind, kind)) for kind, number in kinds.items())
        objects = f"{objects} added, removed or changed; " if objects else ""
        return f"{nodes}{objects}{summary(self.pods, self.pending)}"


_NOUNS = {"poddisruptionbudget": "budget", "resourcequota": "quota"}


def diff(
    world: World, other: World, snapshots: tuple[Snapshot, Snapshot], names: tuple[str, str], shown: int = 20
) -> Difference:
    """Compare two worlds, which end as they began, and the snapshots that they hold. `names`: what they are called."""
    nodes = tuple(_node_changes(world, other))
    (before, usage_before), (after, usage_after) = after_scheduling(world), after_scheduling(other)
    pods = compare(before, after)
    return Difference(
        a=names[0],
        b=names[1],
        nodes=nodes,
        objects=tuple(object_changes(*snapshots)),
        pods=pods,
        workloads=by_workload(pods, before, after),
        pending=pending_in(after),
        before=usage_before,
        after=usage_after,
        shown=shown,
    )


def _node_changes(world: World, other: World) -> Iterator[NodeChange]:
    olds, news = world.state.objects[NODE], other.state.objects[NODE]
    for name in sorted({*olds, *news}):
        if name not in news:
            yield NodeChange(name, "removed")
        elif name not in olds:
            yield NodeChange(name, "added", (_size(node_at(other, name)),))
        else:
            details = tuple(_details(node_at(world, name), node_at(other, name)))
            if details:
                yield NodeChange(name, "changed", details)


def _size(node: NodeInfo) -> str:
    amounts = {CPU: node.allocatable_of(CPU), MEMORY: node.allocatable_of(MEMORY)}
    amounts |= {name: amount for name, amount in node.allocatable.items() if amount and name != EPHEMERAL_STORAGE}
    return ", ".join(f"{quantity_text(name, amount)} {name}" for name, amount in amounts.items())


def _details(old: NodeInfo, new: NodeInfo) -> Iterator[str]:
    """What is different, as far as scheduling depends on it."""
    if bool(old.spec.unschedulable) != bool(new.spec.unschedulable):
        yield "cordoned" if new.spec.unschedulable else "uncordoned"
    befores, afters = ({**node.allocatable, PODS: node.allowed_pods} for node in (old, new))
    for name in dict.fromkeys((*befores, *afters)):
        before, after = befores.get(name, 0), afters.get(name, 0)
        if before != after:
            yield f"{name} {quantity_text(name, before)} -> {quantity_text(name, after)}"
    yield from _entries("taint", _taints(old), _taints(new))
    yield from _entries("label", _labels(old), _labels(new))


def _taints(node: NodeInfo) -> dict[str, str]:
    taints = [(taint.key, taint.value or "", taint.effect) for taint in node.spec.taints or ()]
    return {f"{key}:{effect}": taint_text((key, value, effect)) for key, value, effect in taints}


def _labels(node: NodeInfo) -> dict[str, str]:
    return {key: f"{key}={value}" for key, value in node.labels.items()}


def _entries(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before is None:
            yield f"{what} {after} added"
        elif after is None:
            yield f"{what} {before} removed"
        elif before != after:
            yield f"{what} {before} -> {after}"
