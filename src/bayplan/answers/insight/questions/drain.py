"""drain: where the pods of nodes go, and what keeps the nodes from being drained.

Mirrors `kubectl drain`: what it refuses (`drain_rules.py`), and what disruption budgets block. Evicted pods are made
again by their controllers (`moving.py`) and scheduled, one round after the other. A drained node takes no pods, so a
pending pod is tried again only if what its rejection depends on has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lightkube.models.core_v1 import NodeSpec
from msgspec import structs
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer, Progress, Stopped, listed, plural, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.nodes import pods_on
from bayplan.answers.insight.questions.drain_flags import WithFlags, more_flags, summed_up
from bayplan.answers.insight.questions.drain_rules import DrainRules, SortedPods, has_local_storage
from bayplan.answers.insight.questions.eviction_budgets import allowed_by
from bayplan.answers.insight.questions.moving import Move, Moving
from bayplan.answers.insight.tables import grouped, table
from bayplan.answers.simulation.evictions import budgets_of
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD_DISRUPTION_BUDGET
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.collector import collector_paused

DRAINED, REFUSED, BLOCKED, DELETED, UNKNOWN = "drained", "refused", "blocked", "deleted", "unknown"


@dataclass(frozen=True, slots=True)
class NodeDrain:
    """What happens to a node.

    `outcome`: `drained`; `refused` by `kubectl drain` with `errors`, so that no pod is evicted; `blocked` by budgets;
    or `unknown` if the question was interrupted. `static`: its mirror pods, which stay.
    """

    node: str
    outcome: str
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    static: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovedPod:
    """A pod that leaves its node, or can't.

    `outcome`: `placed`, `preempts` (placed after `victims` are evicted) or `pending` for the pod that its controller
    makes instead, which gets `node`; `blocked` if a budget forbids its eviction; `deleted` if nothing replaces it.
    `message`: why it is pending (the event's text), blocked (the API server's text) or deleted. `preemptor`: the pod
    that this one makes room for.
    """

    pod: str
    source: str
    outcome: str
    node: str | None = None
    victims: tuple[str, ...] = ()
    message: str = ""
    preemptor: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the pod as in docs/insight.md."""
        return {"pod": self.pod, "from": self.source, **fields_of(self, "pod", "source")}


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A disruption budget: how many of its pods may be evicted at once, its pods on the nodes, and those it blocks."""

    budget: str
    allowed: int
    pods: tuple[str, ...]
    blocked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drain(Answer):
    """What `kubectl drain` leads to.

    `local_storage`: pods whose emptyDir data is lost. `with_flags`: what more flags would change, if nodes are refused.
    """

    nodes: tuple[NodeDrain, ...]
    pods: tuple[MovedPod, ...]
    budgets: tuple[BudgetUse, ...] = ()
    local_storage: tuple[str, ...] = ()
    with_flags: tuple[WithFlags, ...] = ()
    interrupted: bool = False
    shown: int = 20

    @property
    def drains(self) -> bool:
        """Whether all nodes are drained and all pods that move have a node."""
        return all(node.outcome == DRAINED for node in self.nodes) and not any(
            pod.outcome in {Fate.PENDING.value, BLOCKED} for pod in self.pods
        )

    @property
    def passes(self) -> bool:
        """Whether all nodes are drained."""
        return self.drains

    @property
    def next_steps(self) -> Sequence[str]:
        """Flags that let the nodes be drained, and what to do about budgets and pods without room."""
        flags = [f"drain with {' '.join(each.flags)}: {each.text}" for each in self.with_flags]
        budgets = [
            f"let {each.budget} allow more, or run more replicas: it keeps {listed(each.blocked, 3)}"
            for each in self.budgets
            if each.blocked
        ]
        pending = [pod.pod for pod in self.pods if pod.outcome == Fate.PENDING.value]
        room = [f"add a node first: {listed(pending, 3)} would stay pending"] if pending else []
        return [*flags, *budgets, *room]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {"drains": self.drains, "interrupted": self.interrupted, **fields_of(self)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pod."""
        return [pod.to_dict() for pod in self.pods]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, the pods, and what kubectl and the budgets say."""
        parts: list[RenderableType] = [Text(self.headline, style="bold")]
        parts += [Text(f"with {' '.join(flag.flags)}: {flag.text}", style="bold") for flag in self.with_flags]
        for nodes, error in summed_up({node.node: node.errors for node in self.nodes}, wide=wide):
            parts.append(Text(f"error: unable to drain {nodes}: {error}", style="red"))
        for nodes, warning in summed_up({node.node: node.warnings for node in self.nodes}, wide=wide):
            parts.append(Text(f"warning: {nodes}: {warning}", style="yellow"))
        for node in self.nodes:
            if node.static:
                parts.append(Text(f"note: node {node.node}: static pods stay: {listed(node.static)}"))
        if self.pods:
            parts += [Text(), self._table(0 if wide else self.shown)]
        stuck = (pod for pod in self.pods if pod.outcome in {Fate.PENDING.value, BLOCKED})
        causes = grouped((each.message, each.pod) for each in stuck)
        if causes:
            parts += [Text(), *(Text(f"{listed(pods)}: {message}") for message, pods in causes.items())]
        if self.budgets:
            parts += [Text(), self._budget_table(wide=wide)]
        return Lines(*parts)

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        counts = {outcome: sum(node.outcome == outcome for node in self.nodes) for outcome in _NODES}
        nodes = ", ".join(f"{plural(number, 'node')} {outcome}" for outcome, number in counts.items() if number)
        moved = {outcome: sum(pod.outcome in found for pod in self.pods) for outcome, found in _PODS.items()}
        pods = ", ".join(f"{plural(number, 'pod')} {outcome}" for outcome, number in moved.items() if number)
        return f"{nodes}: {pods or 'no pods move'}"

    def _table(self, limit: int) -> Table:
        def row(each: MovedPod) -> Sequence[str]:
            name = f"{each.pod} (preempted)" if each.preemptor else each.pod
            return name, each.source, each.outcome, each.node or "-", listed(each.victims, 3) or "-"

        worst_first = sorted(self.pods, key=lambda pod: _RANK.get(pod.outcome, len(_RANK)))
        return table(("POD", "FROM", "OUTCOME", "NODE", "PREEMPTS"), worst_first, row, limit)

    def _budget_table(self, *, wide: bool) -> Table:
        def row(each: BudgetUse) -> Sequence[str]:
            blocked = listed(each.blocked, len(each.blocked) if wide else 3)
            return each.budget, f"{each.allowed:,}", f"{len(each.pods):,}", blocked or "-"

        strictest_first = sorted(self.budgets, key=lambda budget: (-len(budget.blocked), budget.allowed))
        return table(("BUDGET", "AT ONCE", "PODS", "BLOCKS"), strictest_first, row, 0 if wide else self.shown)


_NODES = (DRAINED, BLOCKED, REFUSED, UNKNOWN)
_PODS = {
    "would be placed": (Fate.PLACED.value, Fate.PREEMPTS.value),
    "would stay pending": (Fate.PENDING.value,),
    "blocked by a budget": (BLOCKED,),
    "deleted": (DELETED,),
}
_RANK = {BLOCKED: 0, Fate.PENDING.value: 1, DELETED: 2, Fate.PREEMPTS.value: 3}


def drain(
    world: World,
    names: Sequence[str],
    rules: DrainRules,
    *,
    at_once: bool = False,
    shown: int = 20,
    progress: Progress = silent,
) -> Drain:
    """Cordon nodes and drain them, one after the other as `kubectl drain` does, or all `at_once`.

    Pods are evicted as far as their budgets allow; once their replacements have a node, the next ones follow. If nodes
    are refused, the drain is tried with the flags that they need, too.
    """
    found = _drain(world, names, rules, at_once, shown, progress)
    refused = [pods_on(world, node.node) for node in found.nodes if node.outcome == REFUSED]
    tried = []
    for flags, others in more_flags(rules, refused):
        if found.interrupted:
            break
        other = _drain(world, names, others, at_once, shown, progress)
        found = replace(found, interrupted=other.interrupted)
        nodes, pods = (Counter(each.outcome for each in every) for every in (other.nodes, other.pods))
        tried.append(WithFlags(flags, other.drains, nodes, pods, other.headline))
    return replace(found, with_flags=tuple(tried))


def _drain(
    world: World, names: Sequence[str], rules: DrainRules, at_once: bool, shown: int, progress: Progress
) -> Drain:
    with world.what_if(), collector_paused():
        draining = _Draining(world)
        for name in names:
            cordon(world, name)
        sorted_pods = {name: rules.sort(pods_on(world, name)) for name in names}
        interrupted = False
        budgets = _budgets(world, sorted_pods.values())
        groups = [list(names)] if at_once else [[name] for name in names]
        try:
            for number, group in enumerate(groups):
                progress(f"{number:,} of {plural(len(groups), 'node')}, {len(draining.moving.moves):,} pods moved")
                draining.drain(group, rules, progress)
        except Stopped:
            interrupted = True
        return Drain(
            tuple(_node(name, sorted_pods[name], draining) for name in names),
            tuple(draining.pods()),
            tuple(
                BudgetUse(key, allowed, pods, tuple(pod for pod in pods if pod in draining.blocked))
                for key, (allowed, pods) in budgets.items()
            ),
            tuple(key for key, move in draining.moving.moves.items() if has_local_storage(move.pod)),
            interrupted=interrupted,
            shown=shown,
        )


class _Draining:
    """Drains cordoned nodes. `blocked`: the pods that budgets protect, with the API server's message."""

    def __init__(self, world: World) -> None:
        self.moving = Moving(world)
        self.moving.schedule_pending()
        self.blocked: dict[str, str] = {}
        self.finished: set[str] = set()
        self._world = world
        self._sources: dict[str, str] = {}

    def drain(self, names: Iterable[str], rules: DrainRules, progress: Progress) -> None:
        """Drain nodes at the same time."""
        left: list[PodInfo] = []
        for name in names:
            pods = rules.sort(pods_on(self._world, name))
            if not pods.refused:
                left += pods.evicted
        self._sources |= {pod.key: pod.node_name for pod in left}
        while left:
            objections = self._evict(left)
            self.moving.schedule()
            progress(f"{len(self.moving.moves):,} pods moved")
            if len(objections) == len(left):
                break
            left = [pod for pod in left if pod.key in objections]
        self.blocked |= {pod.key: self.moving.objection_to(pod) for pod in left}
        self.finished |= set(names)

    def _evict(self, pods: Iterable[PodInfo]) -> set[str]:
        """Evict the pods that may be evicted now. Returns the keys of the others."""
        others = set()
        for pod in pods:
            if self._world.pod(pod.key) is None:  # another pod preempted it
                continue
            if self.moving.objection_to(pod):
                others.add(pod.key)
            else:
                self.moving.evict(pod)
        return others

    def pods(self) -> Iterable[MovedPod]:
        """The pods that move or can't."""
        for key, move in self.moving.moves.items():
            yield _moved(key, move, self.moving.original(move.preemptor))
        for key, message in self.blocked.items():
            yield MovedPod(key, self._sources[key], BLOCKED, message=message)


def _moved(key: str, move: Move, preemptor: str) -> MovedPod:
    result, source = move.result, move.pod.node_name
    if result is None:
        message = "it is being deleted already" if move.pod.terminating else "no controller makes another one"
        return MovedPod(key, source, DELETED, message=message, preemptor=preemptor)
    victims = tuple(victim.key for victim in result.victims)
    message = result.message if result.fate is Fate.PENDING else ""
    return MovedPod(key, source, result.fate.value, result.node, victims, message, preemptor)


def _node(name: str, pods: SortedPods, draining: _Draining) -> NodeDrain:
    static = tuple(pod.key for pod in pods.static)
    if pods.refused:
        return NodeDrain(name, REFUSED, errors=pods.errors, static=static)
    outcome = UNKNOWN if name not in draining.finished else DRAINED
    if any(pod.key in draining.blocked for pod in pods.evicted):
        outcome = BLOCKED
    return NodeDrain(name, outcome, warnings=pods.warnings, static=static)


def _budgets(world: World, nodes: Iterable[SortedPods]) -> Mapping[str, tuple[int, tuple[str, ...]]]:
    """The budgets of the pods to evict: how many may go at once, and the pods."""
    found: dict[str, list[str]] = {}
    for pods in nodes:
        for pod in () if pods.refused else pods.evicted:
            for key, _ in budgets_of(world, pod):
                found.setdefault(key, []).append(pod.key)
    store = world.state.objects[POD_DISRUPTION_BUDGET]
    return {key: (allowed_by(store[key]), tuple(pods)) for key, pods in sorted(found.items())}


def cordon(world: World, name: str) -> bool:
    """Mark a node as unschedulable. Returns whether it was schedulable before."""
    return _set_unschedulable(world, name, unschedulable=True)


def uncordon(world: World, name: str) -> bool:
    """Mark a node as schedulable. Returns whether it was unschedulable before."""
    return _set_unschedulable(world, name, unschedulable=False)


def _set_unschedulable(world: World, name: str, *, unschedulable: bool) -> bool:
    node: Any = world.state.objects[NODE][name]
    spec = node.spec or NodeSpec()
    if bool(spec.unschedulable) is unschedulable:
        return False
    world.change(NODE, name, structs.replace(node, spec=structs.replace(spec, unschedulable=unschedulable)))
    return True
