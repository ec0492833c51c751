"""The objects of requests that only this process knows: the pods that stand for places, and their claims.

They take the way of objects that a watch reports.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from lightkube.models.resource_v1 import AllocationResult, ResourceClaimConsumerReference, ResourceClaimStatus

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM
from bayplan.core.api.volumes import full_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.handlers import ObjectHandler, PodHandler, Receiver
from bayplan.core.expansion.own_claims import OwnClaim


class OwnObjects:
    """Puts pods with their claims into the state and the queue, and takes them out."""

    def __init__(self, receiver: Receiver) -> None:
        self._pods, self._store = PodHandler(receiver), receiver.state.objects[POD]
        self._claims = {kind: ObjectHandler(kind, receiver) for kind in (RESOURCE_CLAIM, PERSISTENT_VOLUME_CLAIM)}

    def put(self, pod: PodInfo, claims: Iterable[OwnClaim]) -> None:
        """Add a pod and its claims, or change them."""
        for kind, claim in claims:
            self._claims[kind].put(full_name(claim), claim)
        self._pods.put(pod.key, pod)

    def restore(self, pods: Iterable[PodInfo]) -> None:
        """Let pods be those that a checkpoint has; the queue is restored by itself."""
        for pod in pods:
            self._store.set(pod.key, pod)

    def remove(self, pod: PodInfo, claims: Iterable[OwnClaim]) -> None:
        """Remove a pod and its claims, if they are there."""
        self._pods.removed(pod.key)
        for kind, claim in claims:
            handler, key = self._claims[kind], full_name(claim)
            if kind is RESOURCE_CLAIM and claim.status is not None:  # plugins learn of free devices by an update
                free = copy.copy(claim)
                free.status = None
                handler.put(key, free)
            handler.removed(key)


def allocated(claims: Iterable[OwnClaim], pod: PodInfo, devices: Mapping[str, AllocationResult]) -> list[OwnClaim]:
    """Return the claims of a pod with the devices that they got, by the keys of the claims."""
    consumer = ResourceClaimConsumerReference(name=pod.name, resource=POD.plural, uid=pod.uid)
    found: list[OwnClaim] = []
    for kind, claim in claims:
        if (result := devices.get(full_name(claim))) is not None:
            claim = copy.copy(claim)  # noqa: PLW2901
            claim.status = ResourceClaimStatus(allocation=result, reservedFor=[consumer])
        found.append((kind, claim))
    return found
