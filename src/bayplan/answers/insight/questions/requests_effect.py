"""What new requests bring: the nodes and dollars that a cluster needs, and which workload's change frees which node.

A node is not needed if `shrink` finds that it can go. Each change is tried alone, and, if that frees nothing, all
others without it: several small savings may free a node together. What is the same with and without it brings nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import Progress, Stopped, listed, plural, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.drain_rules import DrainRules
from bayplan.answers.insight.questions.outcomes import PENDING, PodState
from bayplan.answers.insight.questions.request_changes import RequestChange
from bayplan.answers.insight.questions.shrink import Held, Shrink, shrink
from bayplan.answers.insight.tables import grouped, table
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE
from bayplan.core.api.requests import CPU, MEMORY, Amounts, amount_text, counted

SURELY_TRIED = 20
"""So many workloads, those with the largest savings, are tried one by one however long that takes."""
TRIED_SECONDS = 60.0
"""Seconds in which further workloads are tried, too."""
_RESOURCES = (CPU, MEMORY)
PriceOf = Callable[[Mapping[str, str]], float | None]


@dataclass(frozen=True, slots=True)
class ClusterNeed:
    """What a cluster needs: its nodes without those that can go, and their dollars for an hour.

    `total`, `cost_total`: with those that can go. `cost`: None without prices. `unpriced`: nodes without one. `gone`:
    the nodes that can go. `held`: what holds the one that comes nearest. `pending`: the keys of the pods without a
    node, by workload.
    """

    nodes: int
    total: int
    cost: float | None = None
    cost_total: float | None = None
    unpriced: int = 0
    gone: tuple[str, ...] = ()
    held: Held | None = None
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEffect:
    """What the new requests of a workload bring.

    `before`, `after`: what one of its `pods` requests, in millicores of cpu and bytes of memory. `qos`, `qos_after`:
    their QoS class. `replaces`: whether its pods are replaced, and don't stay as they are. `brings`: whether it brings
    anything; None if that was not tried. Of this change alone are `frees`: the nodes that can go, `held`: without such
    a node, what holds the one that comes nearest, `fits`: the pods that get a node, and `lacks`: those that lose it.
    """

    workload: str
    change: str
    pods: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    qos: str
    qos_after: str
    frees: tuple[str, ...] = ()
    fits: tuple[str, ...] = ()
    held: str = ""
    lacks: tuple[str, ...] = ()
    replaces: bool = False
    brings: bool | None = None

    @property
    def saving(self) -> dict[str, int]:
        """How much less all of its pods request."""
        return {name: (self.before.get(name, 0) - self.after.get(name, 0)) * self.pods for name in _RESOURCES}


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """The new nodes with which pods that would get none do. `nodes`: how many, by the node that they are like.

    `without`: how many pods still get none, because no new node of a pool is enough for them.
    """

    nodes: Mapping[str, int]
    without: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsEffect:
    """What new requests bring together, and each workload's.

    `total`, `cost`: all nodes of the cluster. `needed`, `cost_needed`: those that it needs with the present requests;
    `needed_after`, `cost_after`: with the new ones. `unpriced`: how many nodes have no price. `fits`: pods that get
    a node now, and `lacks`: those that get none any more; then, `more` has the new nodes that are enough for them, and
    for the rollouts to end. `interrupted`: whether it ended before all was known.
    """

    total: int
    needed: int
    needed_after: int
    cost: float | None
    cost_needed: float | None
    cost_after: float | None
    unpriced: int = 0
    fits: tuple[str, ...] = ()
    workloads: tuple[RequestEffect, ...] = ()
    lacks: tuple[str, ...] = ()
    more: MoreNodes | None = None
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the effect as in docs/requests.md."""
        workloads = [{**fields_of(each), "saving": each.saving} for each in self.workloads]
        return {**fields_of(self, "workloads"), "workloads": workloads}

    def render(self, limit: int) -> Iterator[RenderableType]:
        """Yield the nodes and dollars, a row for each workload, and what holds nodes. `limit`: rows; 0 for all."""
        yield Text(
            f"of {plural(self.total, 'node')}, {self.needed:,} are needed with the present requests, "
            f"{self.needed_after:,} with the new ones"
        )
        if self.cost is not None:
            least = f" (without {plural(self.unpriced, 'node')} without a price)" if self.unpriced else ""
            yield Text(
                f"cost per hour: {_dollars(self.cost)} for all, {_dollars(self.cost_needed)} for those that are needed "
                f"now, {_dollars(self.cost_after)} for those that are needed then{least}"
            )
        if self.fits:
            yield Text(f"pods that fit now: {listed(self.fits, limit or len(self.fits))}")
        if self.lacks:
            yield Text(f"{plural(len(self.lacks), 'pod')} would get no node: {listed(self.lacks, limit or 5)}")
            yield from map(Text, self._more())
        yield Text()
        yield table(("WORKLOAD", "PODS", "CPU", "MEMORY", "QOS", "FREES"), self.workloads, _row, limit)
        for each in self.workloads[: limit or None]:
            if each.lacks:
                more = f"{plural(len(each.lacks), 'pod')} would get no node: {listed(each.lacks, 3)}"
                yield Text(f"{each.workload} requests too much: {more}")
            elif each.brings is False:
                stays = ": its pods stay as they are" if each.pods and not each.replaces else ""
                why = stays if each.change else ": it requests that already"
                yield Text(f"{each.workload} brings nothing{why}")
            if each.held and not each.lacks:
                yield Text(f"{each.workload} alone frees no node: {each.held}")
        untried = [each.workload for each in self.workloads if each.brings is None]
        if untried:
            number = f"{plural(len(untried), 'workload')} with smaller savings"
            yield Text(f"not tried one by one, because that takes long: {number}: {listed(untried, 5)}")

    def _more(self) -> Iterator[str]:
        """Yield how many nodes more are needed."""
        if self.more is None:
            return
        if self.more.nodes:
            added = " and ".join(f"{plural(number, 'node')} like {like}" for like, number in self.more.nodes.items())
            yield f"more nodes that are needed{' for the others' if self.more.without else ''}: {added}"
        if self.more.without:
            yield f"for {plural(self.more.without, 'pod')}, no new node of a pool is enough"


@dataclass(slots=True)
class RequestTrials:
    """Tries changes of requests.

    `need`: what the cluster needs if only some workloads change, by their names. `more`: the new nodes for the pods
    that have none with all changes, and have one without them. `seconds`: a clock.
    """

    need: Callable[[frozenset[str]], ClusterNeed]
    more: Callable[[ClusterNeed], MoreNodes]
    progress: Progress = silent
    seconds: Callable[[], float] = time.monotonic
    _known: dict[frozenset[str], ClusterNeed] = field(default_factory=dict)

    def of(self, changed: frozenset[str]) -> ClusterNeed:
        """Return what the cluster needs with these changes. Raises Stopped."""
        if changed not in self._known:
            self._known[changed] = self.need(changed)
        return self._known[changed]

    def effect(
        self, changes: Sequence[RequestChange], pods: Mapping[str, int], rolled_out: Container[str]
    ) -> RequestsEffect:
        """Return what changes bring together, and each of them. Raises Stopped.

        `pods`: how many each workload has. `rolled_out`: the workloads whose pods are replaced.
        """
        plain = sorted((_effect(each, pods.get(each.workload, 0)) for each in changes), key=_size, reverse=True)
        plain = [replace(each, replaces=each.workload in rolled_out) for each in plain]
        every = frozenset(each.workload for each in plain if each.change)
        before, after = self.of(frozenset()), self.of(every)
        lacks = fitting(after, before)
        more = self.more(before) if lacks else None
        found, stopped = self._tried_alone(plain, every)
        return RequestsEffect(
            total=after.total,
            needed=before.nodes,
            needed_after=after.nodes,
            cost=after.cost_total,
            cost_needed=before.cost,
            cost_after=after.cost,
            unpriced=after.unpriced,
            fits=fitting(before, after),
            workloads=(*found, *plain[len(found) :]),
            lacks=lacks,
            more=more,
            interrupted=stopped,
        )

    def _tried_alone(self, plain: Sequence[RequestEffect], every: frozenset[str]) -> tuple[list[RequestEffect], bool]:
        """What each change brings, the largest saving first, as far as there is time; and whether it was stopped."""
        found, end = list[RequestEffect](), self.seconds() + TRIED_SECONDS
        try:
            for number, each in enumerate(plain):
                if number >= SURELY_TRIED and self.seconds() > end:
                    break
                self.progress(f"{number:,} of {plural(len(plain), 'workload')} tried alone")
                found.append(self._tried(each, every))
        except Stopped:
            return found, True
        return found, False

    def _tried(self, each: RequestEffect, every: frozenset[str]) -> RequestEffect:
        if not each.change:
            return replace(each, brings=False)
        none, alone = self.of(frozenset()), self.of(frozenset({each.workload}))
        frees, fits = freed(none, alone), fitting(none, alone)
        held = "" if frees or alone.held is None else _held(alone.held)
        brings = bool(frees or fits)
        if not brings and len(every) > 1:
            together, others = self.of(every), self.of(every - {each.workload})
            brings = bool(freed(others, together) or fitting(others, together))
        return replace(each, frees=frees, fits=fits, held=held, lacks=fitting(alone, none), brings=brings)


def need_of(
    world: World, states: Mapping[str, PodState], price_of: PriceOf | None, progress: Progress = silent
) -> ClusterNeed:
    """Return what the cluster of a world needs. `states`: those of its pods. Raises Stopped."""
    found = shrink(world, DrainRules(ignore_daemonsets=True), progress=progress)
    if found.interrupted:
        raise Stopped
    gone = tuple(each.node for each in found.gone)
    nodes = world.state.objects[NODE]
    prices = {} if price_of is None else {name: price_of(node.metadata.labels or {}) for name, node in nodes.items()}
    known = {name: price for name, price in prices.items() if price is not None}
    return ClusterNeed(
        nodes=len(nodes) - len(gone),
        total=len(nodes),
        cost=round(sum(price for name, price in known.items() if name not in gone), 6) if known else None,
        cost_total=round(sum(known.values()), 6) if known else None,
        unpriced=len(prices) - len(known),
        gone=gone,
        held=_nearest(found),
        pending=pending_of(states),
    )


def pending_of(states: Mapping[str, PodState]) -> Mapping[str, Sequence[str]]:
    """Return the keys of the pods without a node, by workload."""
    return grouped((state.workload or key, key) for key, state in states.items() if state.state == PENDING)


def freed(before: ClusterNeed, after: ClusterNeed) -> tuple[str, ...]:
    """Return nodes that can go only afterwards: as many as can go more."""
    new = [name for name in after.gone if name not in before.gone]
    return tuple(new[: max(len(after.gone) - len(before.gone), 0)])


def fitting(before: ClusterNeed, after: ClusterNeed) -> tuple[str, ...]:
    """Return the pods that are pending before, as far as fewer pods of their workload are pending afterwards."""
    return placed_since(before.pending, after.pending)


def placed_since(before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Do so with the pending pods by workload."""
    found = list[str]()
    for workload, keys in before.items():
        left = after.get(workload, ())
        fit = sorted(set(keys).difference(left))
        found += fit[: max(len(keys) - len(left), 0)]
    return tuple(sorted(found))


def _nearest(found: Shrink) -> Held | None:
    """What holds the first node that was tried; nodes that rules hold whatever room there is come last."""
    return next((each for each in found.held if each.rule == "no place"), next(iter(found.held), None))


def _held(held: Held) -> str:
    return f"{held.node} is held: {f'{held.pod}: ' if held.pod else ''}{held.message}"


def _effect(change: RequestChange, pods: int) -> RequestEffect:
    before, after = map(_counted, change.amounts())
    qos = change.qos()
    return RequestEffect(
        workload=change.workload,
        change=change.text,
        pods=pods,
        before=before,
        after=after,
        qos=qos[0],
        qos_after=qos[1],
    )


def _counted(amounts: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in counted(amounts).items() if name in _RESOURCES}


def _size(effect: RequestEffect) -> float:
    """How much a change saves, with a core counted as much as 4 GiB."""
    saving = effect.saving
    return saving[CPU] / 1000 + saving[MEMORY] / 2**32


def _row(each: RequestEffect) -> Sequence[str]:
    amounts = [
        _pair(*(amount_text(name, of[name]) if name in of else "-" for of in (each.before, each.after)))
        for name in _RESOURCES
    ]
    return each.workload, f"{each.pods:,}", *amounts, _pair(each.qos, each.qos_after), listed(each.frees, 3) or "-"


def _pair(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _dollars(amount: float | None) -> str:
    return f"${amount or 0:,.2f}"
