"""The garbage collector and the namespace controller, for a kube-apiserver without kube-controller-manager.

The embedded API server has its own. Mirrors pkg/controller/garbagecollector and pkg/controller/namespace.

An object is deleted in the background once none of its owners exists. In a foreground deletion, a finalizer keeps the
owner until its blocking dependents are gone. In an orphaning deletion, a finalizer keeps the owner until the owner
references of its dependents are removed.
"""

from functools import partial
from typing import Any, ClassVar

from lightkube.models.core_v1 import NamespaceSpec
from lightkube.models.meta_v1 import OwnerReference
from msgspec import json, structs

from bayplan.client import ApiError, PatchType
from bayplan.core.api.kinds import CORE_EVENT, EVENT, KINDS, NAMESPACE, Kind
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import Index, key_of

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

_KINDS = {kind.resource: kind for kind in KINDS if kind not in {EVENT, CORE_EVENT}}
_BY_REFERENCE = {(kind.api_version, kind.kind): kind for kind in _KINDS.values()}


class GarbageCollector(Controller):
    """Handles owner references between kinds of `bayplan.core.api.kinds`. Its keys are "resource namespace/name"."""

    name: ClassVar[str] = "garbage-collector"
    workers: ClassVar[int] = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._views = {kind: context.informers.of(kind) for kind in _KINDS.values()}
        self._dependents: dict[Kind, Index] = {}
        for kind, view in self._views.items():
            self._dependents[kind] = view.index(_owner_uids)
            view.listen(partial(self._changed, kind))

    async def sync(self, key: str) -> None:
        """Sync one object."""
        resource, _, path = key.partition(" ")
        kind = _KINDS[resource]
        obj = self._views[kind].get(path)
        if obj is None:
            return
        metadata = obj.metadata
        if metadata.deletionTimestamp is not None:
            if ORPHAN in (metadata.finalizers or ()):
                await self._orphan_dependents(kind, obj)
            elif FOREGROUND in (metadata.finalizers or ()):
                await self._delete_dependents(kind, obj)
        elif metadata.ownerReferences:
            await self._check_owners(kind, obj)

    async def _check_owners(self, kind: Kind, obj: Any) -> None:
        metadata = obj.metadata
        solid, gone, leaving = [], [], []
        for reference in metadata.ownerReferences:
            owner_kind = _BY_REFERENCE.get((reference.apiVersion, reference.kind))
            if owner_kind is None:  # the owner's kind is unknown, so the owner counts as existing
                solid.append(reference)
                continue
            owner = await self._owner(owner_kind, reference, metadata.namespace)
            if owner is None:
                gone.append(reference)
            elif owner.metadata.deletionTimestamp is not None and FOREGROUND in (owner.metadata.finalizers or ()):
                leaving.append(reference)
            else:
                solid.append(reference)
        if solid and (gone or leaving):
            patch = {"metadata": {"resourceVersion": metadata.resourceVersion, "ownerReferences": solid}}
            await self.client.patch(kind, metadata.name, patch, metadata.namespace, type=PatchType.MERGE)
        elif not solid:
            blocks = any(self._dependents_of(metadata.uid)) and bool(leaving)
            await self.delete(kind, obj, propagation_policy="Foreground" if blocks else "Background")

    async def _owner(self, kind: Kind, reference: OwnerReference, namespace: str | None) -> Any | None:
        """The owner, or None if none has that uid. Asks the server before it returns None."""
        known = self._views[kind].get(_owner_key(kind, reference, namespace))
        if known is not None and known.metadata.uid == reference.uid:
            return known
        try:
            found = await self.client.get(kind, reference.name, namespace if kind.namespaced else None)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found if found.metadata.uid == reference.uid else None

    async def _delete_dependents(self, kind: Kind, owner: Any) -> None:
        """Foreground deletion: release the owner once no dependent blocks it."""
        blocking = False
        for dependent_kind, dependent in self._dependents_of(owner.metadata.uid):
            reference = next(one for one in dependent.metadata.ownerReferences if one.uid == owner.metadata.uid)
            blocking |= bool(reference.blockOwnerDeletion)
            if dependent.metadata.deletionTimestamp is None:
                self.queue.add(f"{dependent_kind.resource} {key_of(dependent)}")
        if not blocking:
            await self._drop_finalizer(kind, owner, FOREGROUND)

    async def _orphan_dependents(self, kind: Kind, owner: Any) -> None:
        for dependent_kind, dependent in self._dependents_of(owner.metadata.uid):
            metadata = dependent.metadata
            left = [one for one in metadata.ownerReferences if one.uid != owner.metadata.uid]
            version = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
            patch = {"metadata": {**version, "ownerReferences": left or None}}
            try:
                await self.client.patch(dependent_kind, metadata.name, patch, metadata.namespace, type=PatchType.MERGE)
            except ApiError as error:
                if error.status != 404:
                    raise
        await self._drop_finalizer(kind, owner, ORPHAN)

    async def _drop_finalizer(self, kind: Kind, owner: Any, finalizer: str) -> None:
        metadata = owner.metadata
        left = [one for one in metadata.finalizers if one != finalizer]
        patch = {"metadata": {"resourceVersion": metadata.resourceVersion, "finalizers": left or None}}
        try:
            await self.client.patch(kind, metadata.name, patch, metadata.namespace, type=PatchType.MERGE)
        except ApiError as error:
            if error.status != 404:
                raise

    def _dependents_of(self, uid: str) -> list[tuple[Kind, Any]]:
        return [(kind, one) for kind, index in self._dependents.items() for one in index.get(uid)]

    def _changed(self, kind: Kind, old: Any, new: Any) -> None:
        if new is None:
            for dependent_kind, dependent in self._dependents_of(old.metadata.uid):
                self.queue.add(f"{dependent_kind.resource} {key_of(dependent)}")
            for reference in old.metadata.ownerReferences or ():
                self._look_at_owner(reference, old.metadata.namespace)
        elif new.metadata.deletionTimestamp is not None or self._has_absent_owner(new):
            self.queue.add(f"{kind.resource} {key_of(new)}")

    def _look_at_owner(self, reference: OwnerReference, namespace: str | None) -> None:
        """Queue the owners of a deleted dependent: they may have waited for it."""
        kind = _BY_REFERENCE.get((reference.apiVersion, reference.kind))
        if kind is not None:
            self.queue.add(f"{kind.resource} {_owner_key(kind, reference, namespace)}")

    def _has_absent_owner(self, obj: Any) -> bool:
        namespace = obj.metadata.namespace
        for reference in obj.metadata.ownerReferences or ():
            kind = _BY_REFERENCE.get((reference.apiVersion, reference.kind))
            if kind is None:
                continue
            known = self._views[kind].get(_owner_key(kind, reference, namespace))
            if known is None or known.metadata.uid != reference.uid:
                return True
        return False


def _owner_uids(obj: Any) -> tuple[str, ...]:
    return tuple(reference.uid for reference in obj.metadata.ownerReferences or ())


def _owner_key(kind: Kind, reference: OwnerReference, namespace: str | None) -> str:
    return f"{namespace}/{reference.name}" if kind.namespaced else reference.name


AGAIN = 1.0
"""Seconds between two checks of a namespace that isn't empty yet."""
FINALIZER = "kubernetes"


class NamespaceController(Controller):
    """Deletes the contents of terminating namespaces, limited to the kinds in `bayplan.core.api.kinds`."""

    name: ClassVar[str] = "namespace-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.watch(NAMESPACE, self.enqueue)

    async def sync(self, key: str) -> None:
        """Sync one namespace."""
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is None:
            return
        finalizers = (namespace.spec.finalizers if namespace.spec else None) or []
        if FINALIZER not in finalizers:
            return
        left = [kind for kind in KINDS if kind.namespaced and kind != EVENT and not await self._empty(kind, key)]
        if left:
            self.queue.add_after(key, AGAIN)
            return
        spec = NamespaceSpec(finalizers=[one for one in finalizers if one != FINALIZER])
        body = json.encode(structs.replace(namespace, apiVersion="v1", kind="Namespace", spec=spec))
        try:
            await self.client.request("PUT", NAMESPACE.path(name=key, subresource="finalize"), body=body)
        except ApiError as error:
            if error.status != 404:  # deleted already
                raise

    async def _empty(self, kind: Kind, namespace: str) -> bool:
        """Delete all objects of a kind. Returns whether there were none."""
        try:
            if not (await self.client.list(kind, namespace, limit=1)).items:
                return True
            await self.client.request("DELETE", kind.path(namespace))
        except ApiError as error:
            if error.status in {404, 405}:  # not served or not deletable
                return True
            raise
        return False


CLEANERS: tuple[type[Controller], ...] = (GarbageCollector, NamespaceController)
