"""diff: what changes between two snapshots, or between two schedulers on one: nodes, pods, and why they are pending."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from bayplan.cluster.nodes import NodeInfo
from bayplan.insight.answers import Answer, plural
from bayplan.insight.questions.blockers import taint_text
from bayplan.insight.questions.outcomes import PodChange, changes_table, compare, settled, summary
from bayplan.insight.questions.utilization import Usage, before_and_after, quantity_text
from bayplan.simulation.world import World

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that is `added`, `removed` or `changed`, and what is different as far as scheduling depends on it."""

    node: str
    change: str
    details: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the change as in docs/insight.md."""
        return {"node": self.node, "change": self.change, "details": list(self.details)}


@dataclass(frozen=True, slots=True)
class Difference(Answer):
    """What changes from `a` to `b`. Both sides are taken after their pending pods have had their turn.

    `pods`: those with another state, node or message. `before` and `after`: the utilization by resource.
    """

    a: str
    b: str
    nodes: tuple[NodeChange, ...]
    pods: tuple[PodChange, ...]
    before: tuple[Usage, ...]
    after: tuple[Usage, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {
            "a": self.a,
            "b": self.b,
            "nodes": [change.to_dict() for change in self.nodes],
            "pods": self.rows(),
            "utilization": {
                "before": [usage.to_dict() for usage in self.before],
                "after": [usage.to_dict() for usage in self.after],
            },
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per changed pod."""
        return [change.to_dict() for change in self.pods]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the changed nodes, the changed pods, and the utilization."""
        parts: list[RenderableType] = [Text(f"from {self.a} to {self.b}: {self._headline()}", style="bold")]
        if self.nodes:
            table = Table("NODE", "CHANGE", "DETAILS", box=None, pad_edge=False, header_style="bold")
            for change in self.nodes if wide else self.nodes[:_SHOWN]:
                table.add_row(change.node, change.change, "; ".join(change.details))
            parts += [Text(), table]
            if len(self.nodes) > _SHOWN and not wide:
                parts.append(Text(f"... and {plural(len(self.nodes) - _SHOWN, 'more node')}: --output wide shows all"))
        parts += changes_table(self.pods, wide=wide)
        return Lines(*parts, Text(), before_and_after(self.before, self.after, ("A", "B")))

    def _headline(self) -> str:
        nodes = f"{plural(len(self.nodes), 'node')} added, removed or changed; " if self.nodes else ""
        return f"{nodes}{summary(self.pods)}"


def diff(world: World, other: World, names: tuple[str, str]) -> Difference:
    """Compare two worlds, which both end as they began. `names`: what they are called."""
    nodes = tuple(_node_changes(world, other))
    (before, usage_before), (after, usage_after) = settled(world), settled(other)
    return Difference(*names, nodes, compare(before, after), usage_before, usage_after)


def _node_changes(world: World, other: World) -> Iterator[NodeChange]:
    olds, news = world.state.table.row_of, other.state.table.row_of
    for name in sorted({*olds, *news}):
        if name not in news:
            yield NodeChange(name, "removed")
        elif name not in olds:
            yield NodeChange(name, "added", (_size(_info(other, name)),))
        else:
            details = tuple(_details(_info(world, name), _info(other, name)))
            if details:
                yield NodeChange(name, "changed", details)


def _info(world: World, name: str) -> NodeInfo:
    position = world.state.nodes.position(name)
    assert position is not None
    return world.state.nodes.info(position)


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
    yield from (f"taint {text}" for text in _entries(_taints(old), _taints(new)))
    yield from (f"label {text}" for text in _entries(old.labels, new.labels))


def _taints(node: NodeInfo) -> dict[str, str]:
    taints = [(taint.key, taint.value or "", taint.effect) for taint in node.spec.taints or ()]
    return {f"{key}:{effect}": taint_text((key, value, effect)) for key, value, effect in taints}


def _entries(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before != after:
            yield f"{key}: {'none' if before is None else before} -> {'none' if after is None else after}"
