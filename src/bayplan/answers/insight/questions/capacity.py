"""capacity: how many more pods of given kinds fit, where, and what stops the next one.

Pods are placed one after the other as the scheduler would, after the pending ones. Replicas that differ in nothing are
placed without an attempt each (`bayplan.answers.simulation.replicas`), on the nodes that attempts would choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer, Progress, QuestionError, Stopped, plural, silent
from bayplan.answers.insight.json_values import as_json, fields_of
from bayplan.answers.insight.nodes import node_of
from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.insight.pools import pool_of, zone_of
from bayplan.answers.insight.questions.copies import Copies
from bayplan.answers.insight.questions.new_objects import add_objects, given
from bayplan.answers.insight.questions.rejected_nodes import RejectedNodes, rejected_nodes, rejections_table
from bayplan.answers.insight.tables import table
from bayplan.answers.simulation.replicas import Replicas
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.snapshot import flattened
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import Document, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion
from bayplan.foundations.collector import collector_paused

LIMIT, INTERRUPTED = "limit", "interrupted"


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of pods to fit: `ratio` copies of it are in each set."""

    name: str
    copies: Copies
    ratio: int = 1


@dataclass(frozen=True, slots=True)
class KindCapacity:
    """How many copies of one kind fit. `ratio`: the copies in each set."""

    kind: str
    ratio: int
    fits: int


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """How many copies of each kind fit on a node. `groups`: the node's values of the labels to group by."""

    node: str
    zone: str
    pool: str
    groups: Mapping[str, str]
    fits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Capacity(Answer):
    """How many sets fit, each with `ratio` copies of every kind.

    `stopped`: `limit` or `interrupted` if more may fit, else "". `message`: why the next set does not fit, as in the
    event of the first pod that stays pending; `blocked` is its kind, `groups` its rejected nodes. `nodes`: the nodes
    that got pods, those with the most first; their numbers are of pods.
    """

    sets: int
    kinds: tuple[KindCapacity, ...]
    stopped: str = ""
    blocked: str = ""
    message: str = ""
    groups: tuple[RejectedNodes, ...] = ()
    nodes: tuple[NodeCapacity, ...] = ()
    labels: tuple[str, ...] = ()
    shown: int = 20

    @property
    def interrupted(self) -> bool:
        """Whether more may fit, because the question was stopped."""
        return self.stopped == INTERRUPTED

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        by = {grouping: as_json(self.by(grouping)) for grouping in self._by}
        return {"fits": self.sets, **fields_of(self, "sets", "nodes", "labels"), "by": by}

    @property
    def _by(self) -> tuple[str, ...]:
        return ("node", "zone", "pool", *self.labels)

    def by(self, grouping: str) -> dict[str, Counter[str]]:
        """Return the number of pods of each kind by `node`, `zone`, `pool` or one of `labels`; "" for no value."""
        found: dict[str, Counter[str]] = {}
        for node in self.nodes:
            fixed = {"node": node.node, "zone": node.zone, "pool": node.pool}
            name = node.groups[grouping] if grouping in self.labels else fixed[grouping]
            found.setdefault(name, Counter()).update(node.fits)
        return dict(sorted(found.items(), key=lambda item: (-item[1].total(), item[0])))

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per node."""
        return [
            {"node": node.node, "zone": node.zone, "pool": node.pool, **node.groups, **node.fits} for node in self.nodes
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, what stops the next set, and tables by label, zone, pool and node."""
        parts: list[RenderableType] = [Text(self._headline(), style="bold")]
        if self.message:
            next_one = f"the next {self.blocked}" if len(self.kinds) > 1 else "the next one"
            parts.append(Text(f"{next_one}: {self.message}"))
        if self.groups:
            parts += [Text(), rejections_table(self.groups, wide=wide)]
        for grouping in (*self.labels, "zone", "pool", "node"):
            counts = self.by(grouping)
            if any(counts):
                parts += [Text(), self._table(grouping, counts, 0 if wide else self.shown)]
        return Lines(*parts)

    def _headline(self) -> str:
        kinds = ", ".join(f"{kind.fits:,} x {kind.kind}" for kind in self.kinds)
        text = f"{kinds} fit" if sum(kind.fits for kind in self.kinds) != 1 else f"{kinds} fits"
        if len(self.kinds) > 1 or self.kinds[0].ratio > 1:
            text += f" ({plural(self.sets, 'set')})"
        match self.stopped:
            case "limit":
                return f"{text}; the limit is reached, and more may fit"
            case "interrupted":
                return f"{text} so far; interrupted"
        return text

    def _table(self, grouping: str, counts: Mapping[str, Counter[str]], limit: int) -> Table:
        kinds = [each.kind for each in self.kinds]
        headers = ("PODS",) if len(kinds) == 1 else kinds

        def row(item: tuple[str, Counter[str]]) -> Sequence[str]:
            name, fits = item
            return name or "-", *(f"{fits[kind]:,}" for kind in kinds)

        return table((grouping.upper(), *headers), list(counts.items()), row, limit)


def capacity(
    world: World,
    demands: Sequence[Demand],
    *,
    most: int | None = None,
    preempt: bool = False,
    labels: Sequence[str] = (),
    shown: int = 20,
    progress: Progress = silent,
) -> Capacity:
    """Place sets of pods until one does not fit, after the pending pods of the cluster.

    The world keeps the pods until `reset`. `most`: the number of sets after which to stop. `preempt`: whether the pods
    may evict others. `labels`: node labels to group by. `shown`: the number of rows in tables; 0 for all.
    """
    Simulation(world, together=True).schedule(world.in_queue_order(world.pending.values()))
    for demand in demands:
        add_objects(world, demand.copies.shared)
    filling = _Filling(world, demands, preempt=preempt)
    stopped = LIMIT
    with collector_paused():
        try:
            while most is None or filling.sets < most:
                progress(f"{filling.pods:,} pods fit")
                if not filling.place():
                    stopped = ""
                    break
        except Stopped:
            stopped = INTERRUPTED
    return Capacity(
        filling.sets,
        tuple(KindCapacity(each.name, each.ratio, filling.sets * each.ratio) for each in demands),
        stopped,
        filling.blocked,
        filling.message,
        filling.groups,
        tuple(_nodes(world, filling.placed, labels)),
        tuple(labels),
        shown,
    )


class _Filling:
    """Places sets one after the other."""

    def __init__(self, world: World, demands: Sequence[Demand], *, preempt: bool) -> None:
        self.sets = 0
        self.pods = 0
        self.placed: dict[str, Counter[str]] = {}
        """node -> sort of pods -> their number"""
        self.blocked = self.message = ""
        self.groups: tuple[RejectedNodes, ...] = ()
        self._world = world
        self._demands = demands
        self._simulation = Simulation(world, preempt=preempt)
        self._made = 0
        self._alone = len(demands) == 1 and demands[0].ratio == 1 and demands[0].copies.alone
        """Whether a set is one pod, which may not need an attempt."""
        self._replicas: Replicas | None = None

    def place(self) -> bool:
        """Place the next set. Returns False if it doesn't fit."""
        return (self._alone and self._place_replica()) or self._place_set()

    # One set

    def _place_set(self) -> bool:
        world, mark = self._world, self._world.mark()
        keys: dict[str, str] = {}
        self._made += 1
        number = 0
        for demand in self._demands:
            for _ in range(demand.ratio):
                copy = f"{self._made}.{number}" if number else f"{self._made}"
                number += 1
                add_objects(world, demand.copies.objects(copy))
                for pod in self._new_pods(demand, copy):
                    world.change(POD, pod.key, pod)
                    keys[pod.key] = demand.name
        added = list(filter(None, map(world.pod, keys)))
        results = {pod.key: given(world, pod) for pod in added if pod.key not in world.pending}
        results |= self._simulation.schedule(pod for pod in added if pod.key in world.pending)
        failed = next((result for result in results.values() if result.fate is Fate.PENDING), None)
        if failed is not None:
            self.blocked, self.message = keys[failed.pod.key], failed.message
            if failed.decision is not None:
                self.groups = rejected_nodes(world, failed.decision.diagnosis)
            world.undo_to(mark)
            return False
        for key, result in results.items():
            if key in keys and result.node is not None:
                self._count(result.node, keys[key])
        self.sets += 1
        return True

    # Several pods of one kind

    def _place_replica(self) -> bool:
        """Place a pod with the results of earlier attempts. Returns False where it must be attempted."""
        if self._replicas is None and not self._find_replicas():
            return False
        assert self._replicas is not None
        demand = self._demands[0]
        name, uid = demand.copies.identity(f"{self._made + 1}")
        node = self._replicas.place(name, uid)
        if node is None:
            self._alone = False
            return False
        self._made += 1
        self._count(node, demand.name)
        self.sets += 1
        return True

    def _find_replicas(self) -> bool:
        """Find results of attempts that can be reused. There are none for the first pod of a kind."""
        pod, other = (next(iter(self._new_pods(self._demands[0], f"{self._made + number}"))) for number in (1, 2))
        self._replicas = Replicas.of(self._world, pod, other)
        found = self._replicas is not None
        self._alone = found or not self._made
        return found

    def _new_pods(self, demand: Demand, copy: str) -> Iterable[PodInfo]:
        for document in demand.copies.copies(copy):
            pod = PodInfo.from_raw(encode(document))
            if self._world.pod(pod.key) is not None:
                raise QuestionError(f"pod {pod.key} exists already")
            yield pod

    def _count(self, node: str, kind: str) -> None:
        self.placed.setdefault(node, Counter())[kind] += 1
        self.pods += 1


def _nodes(world: World, placed: Mapping[str, Counter[str]], labels: Sequence[str]) -> Iterable[NodeCapacity]:
    for name, fits in sorted(placed.items(), key=lambda item: (-item[1].total(), item[0])):
        if not fits.total():
            continue
        node = node_of(world, name)
        found = {} if node is None else node.labels
        groups = {label: found.get(label, "") for label in labels}
        yield NodeCapacity(name, zone_of(found), pool_of(found), groups, dict(fits))


def one_replica(document: Mapping[str, Any]) -> Document:
    """Return a workload with one replica; other objects as they are. Raises QuestionError for a DaemonSet."""
    kind, spec = document.get("kind"), document.get("spec") or {}
    match kind:
        case "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet":
            return {**document, "spec": {**spec, "replicas": 1}}
        case "Job":
            return {**document, "spec": {**spec, "parallelism": 1}}
        case "CronJob":
            template = spec.get("jobTemplate") or {}
            return {**document, "spec": {**spec, "jobTemplate": one_replica({**template, "kind": "Job"})}}
        case "DaemonSet":
            raise QuestionError("a DaemonSet has one pod on each node; expected a pod or another workload")
    return dict(document)


def demands_of(
    kinds: Sequence[Iterable[Mapping[str, Any]]],
    ratio: Sequence[int],
    expand: Callable[[Sequence[Document]], Expansion],
) -> Sequence[Demand]:
    """Return the demand for each kind of pods, in a ratio; by default, one of each. Raises QuestionError."""
    if ratio and len(ratio) != len(kinds):
        raise QuestionError(f"the ratio has {plural(len(ratio), 'number')} for {plural(len(kinds), 'kind')} of pods")
    demands = []
    for number, objects in enumerate(kinds):
        documents = [one_replica(document) for document in flattened(objects)]
        demands.append(_demand_of(expand(documents), documents, ratio[number] if ratio else 1))
    return demands


def _demand_of(expansion: Expansion, documents: Sequence[Document], ratio: int) -> Demand:
    """Return the demand for copies of manifests, named after their first workload or pod. Raises QuestionError."""
    if not expansion.pods:
        raise QuestionError("the manifests have no pods; expected a pod or a workload")
    if ratio < 1:
        raise QuestionError(f"ratio {ratio}: expected at least 1")
    workloads = {"Pod", *(kind.kind for kind in WORKLOADS)}
    named = next((document for document in documents if document["kind"] in workloads), documents[0])
    metadata = named["metadata"]
    return Demand(
        f"{named['kind'].lower()} {metadata.get('name') or metadata.get('generateName')}", Copies(expansion), ratio
    )
