"""Booking: one request, its places, and who has taken them.

A place is held while it counts on its node. It is lent to a pending pod that names the request: that pod is nominated
to the node then, and the place comes back if the pod is deleted. It is taken once such a pod is bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from bayplan.core.api.provisioning import ProvisioningRequest, set_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.own_claims import OwnClaim
from bayplan.running.provisioning.room import Wants


class BookingStage(Enum):
    """How far a request is."""

    INCOMPLETE = "incomplete"
    """It waits for a PodTemplate, or for its turn."""
    ASKED = "asked"
    """Its pods are in the queue."""
    HELD = "held"
    """It has its room."""
    ENDED = "ended"
    """Nothing is held, and nothing more is decided."""


@dataclass(slots=True, eq=False)
class Booking:
    """A request and its places. The keys are the uids of the pods that stand for the places.

    Attributes:
        pods: the pods that stand for the places, without nodes.
        claims: the claims that come with these pods.
        places: the nodes of the places that are held or lent.
        held: the uids of those that count on their nodes.
        consumers: by the uid of a pod that names the request: the place that it has; "" if it had it before a restart.
        lent: by the uid of a pending one: its place.
        unseen: how many places had been taken at a restart by pods that have not been seen yet.
        expires: when the room is not held any longer.
        valid_until: until when the request is tried.
        waits_for: the keys of PodTemplates that are missing.
        wants: what its pods ask for, while they are in the queue.
        message: why there is no room yet.
        again: whether its room is decided again after a restart.
    """

    request: ProvisioningRequest
    stage: BookingStage = BookingStage.INCOMPLETE
    pods: dict[str, PodInfo] = field(default_factory=dict)
    claims: dict[str, list[OwnClaim]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    consumers: dict[str, str] = field(default_factory=dict)
    lent: dict[str, str] = field(default_factory=dict)
    unseen: int = 0
    expires: datetime | None = None
    valid_until: datetime | None = None
    waits_for: set[str] = field(default_factory=set)
    pod_group: str = ""
    preempts: bool = False
    retries: bool = True
    wants: Wants = ()
    message: str = ""
    again: bool = False

    @property
    def key(self) -> str:
        """`namespace/name` of the request."""
        return self.request.key

    def by_set(self) -> dict[int, dict[str, int]]:
        """How many places are held or lent on which nodes, by the number of the pod set."""
        found: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for number in range(len(self.request.pod_sets)):
            found[number] = Counter()
        for uid, node in self.places.items():
            found[set_of(self.pods[uid])][node] += 1
        return {number: dict(nodes) for number, nodes in found.items()}

    def place_for(self, pod: PodInfo) -> str | None:
        """The place that a pod takes, whose room it fits: one on its node, if it has one; None if there is none left.

        A place that asks for the same comes before one that asks for more.
        """
        free = [uid for uid in self.places if uid in self.held and covers(self.pods[uid], pod)]
        if not free:
            return None

        def preference(uid: str) -> tuple[bool, bool]:
            return self.places[uid] != pod.node_name, self.pods[uid].requested != pod.requested

        return min(free, key=preference)

    def placed_on(self, node: str) -> list[str]:
        """The uids of the places on a node."""
        return [uid for uid, name in self.places.items() if name == node]

    def adopted(self, held: dict[int, dict[str, int]]) -> Iterator[tuple[str, str]]:
        """Yield each place that the status names, with its node: the uid of the pod that stands for it."""
        by_set: defaultdict[int, list[str]] = defaultdict(list)
        for uid, pod in self.pods.items():
            by_set[set_of(pod)].append(uid)
        for number, nodes in held.items():
            yield from zip(by_set[number], _repeated(nodes), strict=False)

    def keep_only(self, uids: Collection[str]) -> None:
        """Drop the other places: they were taken before a restart."""
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid in uids}
        self.claims = {uid: claims for uid, claims in self.claims.items() if uid in uids}


def covers(place: PodInfo, pod: PodInfo) -> bool:
    """Whether a pod requests no more than a place."""
    return all(place.requested.get(name, 0) >= amount for name, amount in pod.requested.items())


def _repeated(nodes: dict[str, int]) -> Iterable[str]:
    return (node for node, count in nodes.items() for _ in range(max(count, 0)))
