"""Draft: a snapshot that changes step by step, and what happens to the pods that lose their node.

Changes of what-ifs (`edits.py`) are made on it. The world keeps the snapshot as it was, and moves to the result later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.insight.nodes import pods_on
from bayplan.answers.insight.questions.documents import pending_copy, pod_document
from bayplan.answers.insight.questions.replaced_pods import replaced_pods
from bayplan.answers.insight.questions.rolling_out import ComingPods
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.claims import released, without
from bayplan.answers.simulation.owners import PodOwner, controller_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import POD, RESOURCE_CLAIM, Kind
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion
from bayplan.core.framework.remedies import is_daemon
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import manifests


class Draft:
    """A snapshot with the changes so far. `world` holds the snapshot as it was, and `room` is what may be created.

    Names and uids of new objects are generated from `seed`.

    Attributes:
        snapshot: the changed snapshot.
        steps: what has been changed, for people.
        coming: the pods of changed workloads, which come as their rollouts go on.
    """

    def __init__(self, world: World, snapshot: Snapshot, room: AdditionLimit, seed: int = 0) -> None:
        self.snapshot = snapshot
        self._seed = seed
        self._servers = 0
        self.steps: list[str] = []
        self.coming = ComingPods()
        self.world = world
        self.room = room
        self._created = world.handle.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        """The creation time of new pods: after all those of the snapshot."""
        self._by_owner: Mapping[tuple[str, str, str], Sequence[PodInfo]] | None = None
        self._made_again: set[str] = set()
        """The evicted pods that their controllers made again."""

    def manifests(self) -> manifests.Manifests:
        """Return what expands manifests in this snapshot. Each one generates other names and uids."""
        self._servers += 1
        return manifests.Manifests(self.snapshot, self._next_seed(), self.room)

    def after(self, snapshot: Snapshot) -> Draft:
        """Return a draft that goes on with another snapshot."""
        return Draft(self.world, snapshot, self.room, self._next_seed() + 1)

    def _next_seed(self) -> int:
        """The seed for the first objects, and others that are made of it."""
        return self._seed if self._servers < 2 else Random(f"{self._seed} {self._servers}").getrandbits(62)

    def change(self, document: Mapping[str, Any]) -> None:
        """Replace an object."""
        self.snapshot = self.snapshot.but(change=[document])

    def put(self, kind: Kind, key: str, document: Mapping[str, Any]) -> bool:
        """Add an object, or replace the one with its key. Returns whether there was one."""
        known = key in self.snapshot.of_kind(kind)
        self.snapshot = self.snapshot.but(add=() if known else [document], change=[document] if known else ())
        return known

    def add(self, expansion: Expansion) -> list[tuple[Kind, str]]:
        """Add the objects and pods of an expansion as far as they don't exist. Returns the new objects but pods."""
        new = []
        for document in expansion.objects:
            kind, key, _ = identify(document)
            if not self.put(kind, key, document):
                new.append((kind, key))
        pods = [pod for pod in expansion.pods if identify(pod)[1] not in self.snapshot.of_kind(POD)]
        self.snapshot = self.snapshot.but(add=map(self.created_now, pods))
        return new

    def roll_out(self, expansion: Expansion) -> list[tuple[Kind, str]]:
        """Add what the change of workloads leads to. Returns the new objects but pods.

        Pods that are too many are gone. Those that others replace stay, until `coming` is carried out.
        """
        successors = {key for rollout in expansion.rollouts for key in rollout.new}
        pods = [(identify(pod)[1] in successors, pod) for pod in expansion.pods]
        self.coming.add(expansion.rollouts, (self.created_now(pod) for comes, pod in pods if comes))
        self.coming.refused |= bool(expansion.refused_pods)
        known = [key for key in expansion.removed if key in self.snapshot.of_kind(POD)]
        self._release_claims(pod for key in known if (pod := self.world.pod(key)) is not None)
        self.snapshot = self.snapshot.but(remove=[(POD, key) for key in known])
        return self.add(replace(expansion, pods=[pod for comes, pod in pods if not comes]))

    def pods_on(self, node: str) -> Sequence[PodInfo]:
        """Return the pods that a node has in the original snapshot, and that still exist."""
        return [pod for pod in pods_on(self.world, node) if pod.key in self.snapshot.of_kind(POD)]

    def displace(self, pods: Sequence[PodInfo]) -> None:
        """Take pods from their node: those of DaemonSets are gone, the others are evicted."""
        self.remove([pod for pod in pods if is_daemon(pod)])
        self.evict([pod for pod in pods if not is_daemon(pod)])

    def evict(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods. Those that their controllers replace are created again, with the names that they had."""
        replaced = replaced_pods(self.snapshot, pods, self._siblings)
        self._made_again |= replaced
        self._release_claims(pods)
        self.snapshot = self.snapshot.but(
            remove=[(POD, pod.key) for pod in pods if pod.key not in replaced],
            change=[self.created_now(pod_document(pending_copy(pod))) for pod in pods if pod.key in replaced],
        )

    def _siblings(self, owner: PodOwner, namespace: str) -> int:
        """How many pods of a controller exist in the draft that aren't being deleted."""
        if self._by_owner is None:
            self._by_owner = grouped(
                ((pod.namespace, each.kind, each.name), pod)
                for pod in self.world.state.objects[POD].values()
                if (each := controller_of(pod)) is not None
            )
        known = self.snapshot.of_kind(POD)
        pods = self._by_owner.get((namespace, owner.kind, owner.name), ())
        return sum(pod.key in known and (not pod.terminating or pod.key in self._made_again) for pod in pods)

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods that no controller creates again."""
        self._release_claims(pods)
        self.snapshot = self.snapshot.but(remove=[(POD, pod.key) for pod in pods])

    def created_now(self, document: dict[str, Any]) -> dict[str, Any]:
        """Give a new pod its creation time, and return it."""
        document["metadata"]["creationTimestamp"] = self._created
        return document

    def _release_claims(self, pods: Iterable[PodInfo]) -> None:
        """Free the devices of pods: claims without any other user are no longer allocated.

        The claims of templates stay, because the pods that are created again have the same names.
        """
        for pod in pods:
            for key, claim in released(self.world, pod, gone=False):
                document = self.snapshot.document(RESOURCE_CLAIM, key)
                if document is not None and claim is None:
                    self.snapshot = self.snapshot.but(remove=[(RESOURCE_CLAIM, key)])
                elif document is not None:
                    current = convert(RESOURCE_CLAIM.type, document)  # pods before this one may have released it, too
                    self.change(document | msgspec.json.decode(encode(without(current, pod))))
