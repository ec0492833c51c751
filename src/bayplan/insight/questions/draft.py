"""A snapshot that changes step by step, and what becomes of the pods that lose their node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.api.kinds import POD, RESOURCE_CLAIM, Kind
from bayplan.api.objects import convert, encode
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.remedies import is_daemon
from bayplan.insight.limits import Room
from bayplan.insight.nodes import pods_on
from bayplan.insight.questions.documents import pending_copy, pod_document
from bayplan.insight.snapshot import Snapshot
from bayplan.simulation.claims import released, without
from bayplan.simulation.world import World


class Draft:
    """A snapshot with the changes so far. `world` holds the snapshot as it was, and `room` is what may be created.

    Attributes:
        snapshot: the changed snapshot.
        steps: what has been changed, for people.
    """

    def __init__(self, world: World, snapshot: Snapshot, room: Room) -> None:
        self.snapshot = snapshot
        self.steps: list[str] = []
        self.world = world
        self.room = room
        self._created = world.handle.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        """The creation time of new pods: after all those of the snapshot."""

    def change(self, document: Mapping[str, Any]) -> None:
        """Replace an object."""
        self.snapshot = self.snapshot.but(change=[document])

    def put(self, kind: Kind, key: str, document: Mapping[str, Any]) -> bool:
        """Add an object, or replace the one with its key. Returns whether there was one."""
        known = key in self.snapshot.of_kind(kind)
        self.snapshot = self.snapshot.but(add=() if known else [document], change=[document] if known else ())
        return known

    def pods_on(self, node: str) -> Sequence[PodInfo]:
        """Return the pods that a node has in the original snapshot, and that still exist."""
        return [pod for pod in pods_on(self.world, node) if pod.key in self.snapshot.of_kind(POD)]

    def displace(self, pods: Sequence[PodInfo]) -> None:
        """Take pods from their node: those of DaemonSets are gone, the others are evicted."""
        self.remove([pod for pod in pods if is_daemon(pod)])
        self.evict([pod for pod in pods if not is_daemon(pod)])

    def evict(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods. Those with a controller are created again, with the names that they had."""
        kept = [pod for pod in pods if any(owner.controller for owner in pod.metadata.ownerReferences or ())]
        self._release_claims(pods)
        self.snapshot = self.snapshot.but(
            remove=[(POD, pod.key) for pod in pods if pod not in kept],
            change=[self.created_now(pod_document(pending_copy(pod))) for pod in kept],
        )

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods that nobody creates again."""
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
