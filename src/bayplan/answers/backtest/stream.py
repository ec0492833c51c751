"""What happens to a simulated cluster, of a history."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import Node

from bayplan.answers.backtest.changed_pods import ChangedPods
from bayplan.answers.backtest.lookahead import Lookahead, target_of
from bayplan.answers.backtest.node_pools import PoolKey, key_of_document
from bayplan.answers.backtest.pods import PodMaker
from bayplan.answers.history.ends import ENDS_BY_ITSELF
from bayplan.answers.history.events import (
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    ObjectAdded,
    ObjectChanged,
    ObjectRemoved,
    PodArrived,
    PodBound,
    PodChanged,
    PodEnded,
)
from bayplan.answers.history.reading import History
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.simulation.happenings import (
    NodeComes,
    NodeGoes,
    ObjectChanges,
    PodArrives,
    PodEnds,
    PodIsChanged,
    PodIsPlaced,
)
from bayplan.answers.simulation.owners import belongs_to
from bayplan.answers.simulation.timeline import Happening
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from bayplan.core.api.objects import convert, decode, encode
from bayplan.core.cluster.pod_info import PodInfo

_VOLUMES = (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM)
Json = Mapping[str, Any]


class Stream:
    """Makes happenings of a history, a few at a time.

    `served`: the scheduler names whose pods are decided; the others get the nodes that they had. `managed`: the groups
    whose nodes come and go by an autoscaler, with their pods of DaemonSets: what the history says of these is left out.
    `replaced`: those of them that have no nodes from the start on; the pods of these nodes arrive then. `changed`: the
    pods of changed workloads.

    Pods that ended by themselves run as long as they did, from when they get a node. What a scheduler preempted does
    not end because of that, and its replacement does not arrive: see `RecordedNeeds`. All others end when they did.
    """

    def __init__(
        self,
        history: History,
        ahead: Lookahead,
        served: Container[str],
        managed: Container[PoolKey] = (),
        replaced: Container[PoolKey] = (),
        changed: ChangedPods | None = None,
    ) -> None:
        self._changed = changed
        self._history = history
        self._ahead = ahead
        self._needs = ahead.needs
        self._served = served
        self._managed = managed
        self._replaced = replaced
        self._pods = PodMaker()
        self._managed_nodes: set[str] = set()
        self._held: dict[str, PodInfo] = {}
        """By uid: pods that belong to a node, until the node is known."""
        self._left_out: set[str] = set()
        """The uids of pods that belong to nodes of managed groups."""
        self._ending: set[str] = set()
        """The uids of pods that end by themselves."""
        self._of_others: set[str] = set()
        """The uids of pods that other schedulers decide about, until they have a node."""
        self._their_victims: set[str] = set()
        """The uids of victims that other schedulers decide about: their ends are inputs."""
        self._one_need: dict[str, str] = {}
        """By the uid of a pod that did not arrive, because it has replaced a victim: the uid of the first pod."""
        self._arrivals = 0

    def __iter__(self) -> Iterator[Happening]:
        """Yield what happens, in the order of time."""
        yield from self._start()
        begin = self._history.begin
        for event in self._history.events():
            at = (event.time - begin).total_seconds()
            try:
                yield from self._happenings(max(at, 1e-6), event)
            except ValueError:  # the lookahead has named the object
                continue

    def _start(self) -> Iterator[Happening]:
        documents = self._history.start().documents
        absent: set[str] = set()
        for name, raw in sorted(documents.get(NODE, {}).items()):
            document = msgspec.json.decode(raw)
            key = key_of_document(document)
            if key in self._managed:
                self._managed_nodes.add(name)
            if key in self._replaced:
                absent.add(name)
            else:
                yield NodeComes(0.0, decode(Node, raw))
        for _, raw in sorted(documents.get(POD, {}).items()):
            try:
                pod = PodInfo.from_raw(raw)
                if self._changed is not None and not pod.terminated:
                    pod = self._changed.at_begin(pod, msgspec.json.decode(raw))
            except ValueError:
                continue
            if not pod.terminated:
                if pod.node_name in self._managed_nodes and _belongs_to_node(pod):
                    self._left_out.add(pod.uid)
                if pod.node_name in absent:
                    if pod.uid in self._left_out:
                        continue
                    pod = pending_copy(pod)
                if pod.scheduler_name not in self._served and self._needs.is_victim(pod.uid):
                    self._their_victims.add(pod.uid)
                yield self._arrival(0.0, pod, self._ahead.initial_runs.get(pod.uid))

    def _happenings(self, at: float, event: object) -> Iterator[Happening]:
        match event:
            case PodArrived(time, _, uid, document):
                runs = self._ahead.runs[self._arrivals]
                self._arrivals += 1
                yield from self._arrived(
                    at, self._made(document, time), uid, document, None if math.isnan(runs) else runs
                )
            case PodBound(_, _, uid, node):
                yield from self._bound(at, uid, node)
            case PodChanged(time, _, uid, document):
                if not (uid in self._left_out or uid in self._held or uid in self._one_need):
                    yield PodIsChanged(at, self._made(document, time))
            case PodEnded(_, _, uid, reason):
                yield from self._ended(at, uid, reason)
            case NodeAdded(_, name, document) | NodeChanged(_, name, document):
                if key_of_document(document) in self._managed:
                    self._managed_nodes.add(name)
                else:
                    yield NodeComes(at, convert(Node, document))
            case NodeRemoved(_, name):
                if name in self._managed_nodes:
                    self._managed_nodes.discard(name)
                else:
                    yield NodeGoes(at, name)
            case ObjectAdded(_, kind, key, document) | ObjectChanged(_, kind, key, document):
                changes = isinstance(event, ObjectChanged)
                if key not in self._managed_nodes and not (changes and kind in _VOLUMES):
                    yield ObjectChanges(at, kind, key, _decoded(kind, document))
            case ObjectRemoved(_, kind, key):
                if key not in self._managed_nodes:
                    yield ObjectChanges(at, kind, key, None)

    def _made(self, document: Json, created: datetime) -> PodInfo:
        """The pod of a document, as its workload would have made it. Raises ValueError for one that is malformed."""
        pod = self._pods.make(document, created)
        changed = document if self._changed is None else self._changed.document_of(pod, document)
        return pod if changed is document else self._pods.make(changed, created)

    def _arrived(self, at: float, pod: PodInfo, uid: str, document: Json, runs: float | None) -> Iterator[Happening]:
        decided = pod.scheduler_name in self._served
        if decided and uid in self._needs.origins:
            self._one_need[uid] = self._needs.origins[uid]
            return
        if _belongs_to_node(pod):
            node = target_of(document)
            if node in self._managed_nodes:
                self._left_out.add(uid)
            elif node:
                yield self._arrival(at, pod, runs)
            else:
                self._held[uid] = pod
        else:
            if not decided:
                self._of_others.add(uid)
                if self._needs.is_victim(uid):
                    self._their_victims.add(uid)
            yield self._arrival(at, pod, runs)

    def _arrival(self, at: float, pod: PodInfo, runs: float | None) -> PodArrives:
        if pod.uid in self._their_victims:
            return PodArrives(at, pod, returns=False)
        if runs is not None:
            self._ending.add(pod.uid)
        return PodArrives(at, pod, runs, True if pod.uid in self._needs.returning else None)

    def _ended(self, at: float, uid: str, reason: str) -> Iterator[Happening]:
        """A pod's end happens, unless the simulation knows better: it ends by itself, or was preempted."""
        self._held.pop(uid, None)
        self._of_others.discard(uid)
        if uid in self._left_out:
            self._left_out.discard(uid)
        elif uid in self._their_victims:
            self._their_victims.discard(uid)
            yield PodEnds(at, uid)
        elif not self._needs.is_victim(uid) or uid in self._needs.over:
            origin = self._one_need.pop(uid, uid)
            by_itself = origin in self._ending and reason in ENDS_BY_ITSELF
            self._ending.discard(origin)
            if not by_itself:
                yield PodEnds(at, origin)

    def _bound(self, at: float, uid: str, node: str) -> Iterator[Happening]:
        held = self._held.pop(uid, None)
        if held is not None:
            if node in self._managed_nodes:
                self._left_out.add(uid)
            else:
                yield PodArrives(at, held.on_node(node))
        elif uid in self._of_others:
            self._of_others.discard(uid)
            yield PodIsPlaced(at, uid, node)


def other_objects(history: History) -> dict[Kind, Mapping[str, bytes]]:
    """Return the objects at the start of a history that are neither pods nor nodes."""
    return {kind: objects for kind, objects in history.start().documents.items() if kind not in {POD, NODE}}


def _belongs_to_node(pod: PodInfo) -> bool:
    return belongs_to(pod) is None


def _decoded(kind: Kind, document: Json) -> Any:
    return convert(kind.type, document) if kind.model else decode(kind.type, encode(document))
