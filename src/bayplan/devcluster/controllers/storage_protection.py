"""Protects claims that pods use, and volumes that claims are bound to, from deletion.

The server adds a finalizer to both. These controllers remove it once the object isn't in use. Mirrors
pkg/controller/volume/{pvcprotection,pvprotection}.
"""

from __future__ import annotations

from typing import ClassVar

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from bayplan.client import Client
from bayplan.devcluster.controllers import pods
from bayplan.devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan.devcluster.controllers.informers import key_of
from bayplan.devcluster.controllers.pod_volumes import claim_keys, keeps_claim
from bayplan.devcluster.controllers.served import Object, PersistentVolume, PersistentVolumeClaim, Pod

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


class ClaimProtectionController(Controller):
    """Removes the finalizer of a terminating claim once no pod on a node uses it."""

    name: ClassVar[str] = "pvc-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.watch(PERSISTENT_VOLUME_CLAIM, self._claim_changed)
        self._pods = self.watch(POD)
        self._by_claim = self._pods.index(claim_keys)
        self._pods.listen(self._pod_changed)

    async def sync(self, key: str) -> None:
        """Sync one claim."""
        claim: PersistentVolumeClaim | None = self._claims.get(key)
        if claim is None:
            return
        if _awaits_protection(claim, CLAIM_FINALIZER):
            await add_finalizer(self.client, PERSISTENT_VOLUME_CLAIM, claim, CLAIM_FINALIZER)
        elif _awaits_release(claim, CLAIM_FINALIZER) and not await self._is_used(key, claim):
            await remove_finalizer(self.client, PERSISTENT_VOLUME_CLAIM, claim, CLAIM_FINALIZER)

    async def _is_used(self, key: str, claim: PersistentVolumeClaim) -> bool:
        if any(keeps_claim(pod, claim) for pod in self._by_claim.get(key)):
            return True
        # Ask the server: a pod may have been bound just now, and the deletion can't be undone.
        page = await self.client.list(POD, claim.metadata.namespace)
        return any(keeps_claim(pod, claim) for pod in page.items)

    def _claim_changed(self, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and _concerns(new, CLAIM_FINALIZER):
            self.queue.add(key_of(new))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the claims of a pod that doesn't use them or no longer does."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._enqueue_claims(old)
        if new is not None and (pods.is_finished(new) or pods.is_terminating(new) or not new.spec.nodeName):
            self._enqueue_claims(new)

    def _enqueue_claims(self, pod: Pod) -> None:
        for key in claim_keys(pod):
            self.queue.add(key)


class VolumeProtectionController(Controller):
    """Removes the finalizer of a terminating volume once no claim is bound to it."""

    name: ClassVar[str] = "pv-protection-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = self.watch(PERSISTENT_VOLUME, self._volume_changed)

    async def sync(self, key: str) -> None:
        """Sync one volume."""
        volume: PersistentVolume | None = self._volumes.get(key)
        if volume is None:
            return
        if _awaits_protection(volume, VOLUME_FINALIZER):
            await add_finalizer(self.client, PERSISTENT_VOLUME, volume, VOLUME_FINALIZER)
        elif _awaits_release(volume, VOLUME_FINALIZER) and volume.status.phase != "Bound":
            await remove_finalizer(self.client, PERSISTENT_VOLUME, volume, VOLUME_FINALIZER)

    def _volume_changed(self, _old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and _concerns(new, VOLUME_FINALIZER):
            self.queue.add(key_of(new))


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


def _concerns(obj: Object, finalizer: str) -> bool:
    return _awaits_protection(obj, finalizer) or _awaits_release(obj, finalizer)


def _awaits_protection(obj: Object, finalizer: str) -> bool:
    return obj.metadata.deletionTimestamp is None and finalizer not in (obj.metadata.finalizers or ())


def _awaits_release(obj: Object, finalizer: str) -> bool:
    return obj.metadata.deletionTimestamp is not None and finalizer in (obj.metadata.finalizers or ())
