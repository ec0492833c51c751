"""Protects claims that pods use, and volumes that claims are bound to, from deletion.

The server adds a finalizer to both. These controllers remove it once the object isn't in use. Mirrors
pkg/controller/volume/{pvcprotection,pvprotection}.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from bayplan.core.api.served import Object, PersistentVolume, PersistentVolumeClaim, Pod
from bayplan.core.expansion import pods
from bayplan.running.client.client import Client
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.pod_volumes import claim_keys, keeps_claim

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


class _ProtectionController(Controller):
    """Gives the objects of a kind a finalizer, and removes it from a terminating one that isn't in use."""

    kind: ClassVar[Kind]
    finalizer: ClassVar[str]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._protected = self.watch(self.kind, self._protected_changed)

    @abstractmethod
    async def is_used(self, key: str, obj: Any) -> bool:
        """Whether an object has to stay."""

    async def sync(self, key: str) -> None:
        """Sync one object."""
        obj = self._protected.get(key)
        if obj is not None and self._awaits(obj):
            if obj.metadata.deletionTimestamp is None:
                await add_finalizer(self.client, self.kind, obj, self.finalizer)
            elif not await self.is_used(key, obj):
                await remove_finalizer(self.client, self.kind, obj, self.finalizer)

    def _protected_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and self._awaits(new):
            self.queue.add(key_of(new))

    def _awaits(self, obj: Object) -> bool:
        """Whether an object needs its finalizer, or waits until the finalizer is removed."""
        protected = self.finalizer in (obj.metadata.finalizers or ())
        return protected is (obj.metadata.deletionTimestamp is not None)


class ClaimProtectionController(_ProtectionController):
    """Removes the finalizer of a terminating claim once no pod on a node uses it."""

    name: ClassVar[str] = "pvc-protection-controller"
    kind: ClassVar[Kind] = PERSISTENT_VOLUME_CLAIM
    finalizer: ClassVar[str] = CLAIM_FINALIZER

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.watch(POD)
        self._by_claim = self._pods.index(claim_keys)
        self._pods.listen(self._pod_changed)

    async def is_used(self, key: str, obj: PersistentVolumeClaim) -> bool:
        """Whether a pod on a node uses the claim."""
        if any(keeps_claim(pod, obj) for pod in self._by_claim.get(key)):
            return True
        # Ask the server: a pod may have been bound just now, and the deletion can't be undone.
        page = await self.client.list(POD, obj.metadata.namespace)
        return any(keeps_claim(pod, obj) for pod in page.items)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the claims of a pod that doesn't use them or no longer does."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._enqueue_claims(old)
        if new is not None and (pods.is_finished(new) or pods.is_terminating(new) or not new.spec.nodeName):
            self._enqueue_claims(new)

    def _enqueue_claims(self, pod: Pod) -> None:
        for key in claim_keys(pod):
            self.queue.add(key)


class VolumeProtectionController(_ProtectionController):
    """Removes the finalizer of a terminating volume once no claim is bound to it."""

    name: ClassVar[str] = "pv-protection-controller"
    workers: ClassVar[int] = 1
    kind: ClassVar[Kind] = PERSISTENT_VOLUME
    finalizer: ClassVar[str] = VOLUME_FINALIZER

    async def is_used(self, key: str, obj: PersistentVolume) -> bool:
        """Whether a claim is bound to the volume."""
        return bool(obj.status.phase == "Bound")


async def add_finalizer(client: Client, kind: Kind, obj: Object, finalizer: str) -> None:
    """Add a finalizer to an object, unless the object has changed (ApiError 409)."""
    await _set_finalizers(client, kind, obj, [*(obj.metadata.finalizers or ()), finalizer])


async def remove_finalizer(client: Client, kind: Kind, obj: Object, finalizer: str) -> None:
    """Remove a finalizer from an object, unless the object has changed (ApiError 409)."""
    await _set_finalizers(client, kind, obj, [one for one in obj.metadata.finalizers or () if one != finalizer])


async def _set_finalizers(client: Client, kind: Kind, obj: Object, finalizers: list[str]) -> None:
    metadata = obj.metadata
    patch = {"metadata": {"resourceVersion": metadata.resourceVersion, "finalizers": finalizers or None}}
    with Ignored(404):  # deleted already
        await client.patch(kind, metadata.name, patch, metadata.namespace)
