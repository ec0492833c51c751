"""Lending: what is kept of a place while a pending pod has it, besides the nomination of that pod to its node.

The nominated pod counts as the pod of the place does, so that the place can be held again. The claims of the place stay
allocated, and their devices are free only while the pod that has the place is attempted, and from then on if it is
placed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.api.volumes import full_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.expansion.own_claims import OwnClaim
from bayplan.core.scheduling import Unit

ClaimsLentTo = Callable[[str], Iterable[OwnClaim]]
"""The claims of the place that the pod with a uid has; none if it has no place."""


class Lending:
    """Keeps what nominations don't."""

    def __init__(self, state: ClusterState, claims_lent_to: ClaimsLentTo) -> None:
        self._state, self._claims_lent_to = state, claims_lent_to
        self._claims = state.objects[RESOURCE_CLAIM]

    def begin(self, pod: PodInfo, place: PodInfo, node: str) -> None:
        """Nominate a pod to the node of its place. It counts as the place there, unless it needs other host ports."""
        if set(pod.host_ports) <= set(place.host_ports):
            self._state.nominations.counts_as[pod.uid] = place.replica(pod.name, pod.uid, "")
        self._state.nominations.add(pod, node)

    def end(self, uid: str) -> None:
        """Let a pod count as itself again."""
        self._state.nominations.counts_as.pop(uid, None)

    def keep(self, uid: str) -> None:
        """Take the devices of a pod's place, which they are free for no more: it was not placed."""
        for key in self._keys(uid):
            self._claims.restore(key)

    @contextmanager
    def to(self, unit: Unit) -> Iterator[None]:
        """Let the devices be free that are kept for the pods of a unit. Those of pods that are placed stay free."""
        uids = [pod.uid for pod in {each.uid: each for each in (unit.pod, *unit.pending)}.values()]
        for uid in uids:
            for key in self._keys(uid):
                free = copy.copy(self._claims[key])
                free.status = None
                self._claims.assume(key, free)
        try:
            yield
        finally:
            for uid in uids:
                if self._state.pod(uid) is None:
                    self.keep(uid)

    def _keys(self, uid: str) -> list[str]:
        keys = [full_name(claim) for kind, claim in self._claims_lent_to(uid) if kind is RESOURCE_CLAIM]
        return [key for key in keys if self._claims.known(key) is not None]
