"""Reserves volumes for a pod's claims and nodes for provisioning, and writes both to the API server.

Mirrors AssumePodVolumes, RevertAssumedPodVolumes and BindPodVolumes (plugins/volumebinding/binder.go).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np
from lightkube.models.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.csi_translation import Untranslatable
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, Kind
from bayplan.core.api.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    annotations_of,
    full_name,
    is_bound_to,
    is_fully_bound,
    volume_name,
)
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.objects import ObjectStore, version_of
from bayplan.core.framework.handle import ApiClient, Handle
from bayplan.core.framework.unknown_writes import Sleep, known
from bayplan.core.plugins.volume_binding.capacity import Planned
from bayplan.core.plugins.volume_binding.search import PodVolumes, VolumeSearch


class BindingFailed(Exception):
    """The claims of a pod can't be bound as decided, so the attempt fails. The message is upstream's."""


@dataclass(slots=True)
class _Assumed:
    """An assumed object, and the patch that writes it (None if nothing changes).

    Once it is `written`, only the server's version counts.
    """

    kind: Kind
    store: ObjectStore
    obj: Any
    patch: dict[str, Any] | None
    claim_key: str
    written: bool = False

    @property
    def key(self) -> str:
        return full_name(self.obj)

    def assume(self) -> None:
        if self.patch is not None:
            self.store.assume(self.key, self.obj)

    def release(self) -> None:
        """Restore the server's version, unless the object was written or assumed again since."""
        if self.patch is not None and not self.written and self.store.get(self.key) is self.obj:
            self.store.restore(self.key)

    async def write(self, client: ApiClient, sleep: Sleep) -> None:
        """Write the patch. The server rejects it if the object has changed since the decision.

        If it were released although it is written, the next attempt could choose a second volume on another node.
        """
        if self.patch is None:
            self.written = True
        else:
            request = _PatchWrite(client, self.kind, self.obj, self.patch)
            await known(request, sleep, carried_out=self._carried_out)

    def _carried_out(self, written: Any) -> None:
        self.obj, self.written = written, True


class _PatchWrite:
    """A `Write` (`bayplan.core.framework.unknown_writes`): a patch of a volume or a claim of one version."""

    def __init__(self, client: ApiClient, kind: Kind, assumed: Any, patch: dict[str, Any]) -> None:
        self._client = client
        self._kind = kind
        self._assumed = assumed
        self._patch = patch
        self.name = f"the change of {kind.kind} {full_name(assumed)}"

    async def send(self) -> Any:
        metadata = self._assumed.metadata
        return await self._client.patch(self._kind, metadata.name, self._patch, metadata.namespace)

    async def read(self) -> Any:
        metadata = self._assumed.metadata
        return await self._client.get(self._kind, metadata.name, metadata.namespace)

    def outcome(self, found: Any) -> Any | None:
        """The object that was read if it has the change of the patch: another pod of the gang may have written it."""
        if found.metadata.uid != self._assumed.metadata.uid:
            return None
        if self._kind is PERSISTENT_VOLUME:
            mine, reference = self._assumed.spec.claimRef, found.spec.claimRef
            same = reference is not None and (reference.uid, reference.name) == (mine.uid, mine.name)
        else:
            same = annotations_of(found).get(SELECTED_NODE) == annotations_of(self._assumed)[SELECTED_NODE]
        return found if same else None

    def is_ruled_out(self, found: Any) -> bool:
        before, now = self._assumed.metadata, found.metadata
        return (now.uid, now.resourceVersion) != (before.uid, before.resourceVersion)


@dataclass(slots=True)
class Reservation:
    """The reserved volumes and provisioning for one pod on its node. Nothing is written before `write`."""

    bindings: list[_Assumed] = field(default_factory=list)
    provisions: list[_Assumed] = field(default_factory=list)
    not_planned: list[Callable[[], None]] = field(default_factory=list)
    """Called on release."""

    @classmethod
    def make(
        cls, found: PodVolumes, node_name: str, claims: ObjectStore, volumes: ObjectStore, planned: Planned | None
    ) -> Reservation:
        """Assume the volumes and claims in the object stores, and add the volumes to provision to the planned ones.

        Each of the pods of a gang that share a claim writes what is missing on the server.
        """
        reservation = cls()
        for binding in found.bindings:
            known = volumes.known(full_name(binding.volume)) or binding.volume
            volume, patch = _bound(known, binding.claim)
            reservation.bindings.append(
                _Assumed(PERSISTENT_VOLUME, volumes, volume, patch, claim_key=full_name(binding.claim))
            )
        for provision in found.provisions:
            claim, patch = _with_node(provision.claim, node_name)
            reservation.provisions.append(
                _Assumed(PERSISTENT_VOLUME_CLAIM, claims, claim, patch, claim_key=full_name(claim))
            )
            if planned is not None and provision.capacity is not None:
                planned.add(provision.capacity, claim)
                reservation.not_planned.append(partial(planned.remove, provision.capacity, claim))
        for each in reservation.all():
            each.assume()
        return reservation

    def all(self) -> list[_Assumed]:
        """All assumed objects, in the order in which they are written."""
        return self.bindings + self.provisions

    def release(self) -> None:
        """Release the unwritten objects. Can be called repeatedly."""
        for each in self.all():
            each.release()
        while self.not_planned:
            self.not_planned.pop()()

    async def write(self, client: ApiClient, sleep: Sleep) -> None:
        """Write all objects. After a failure, the unwritten ones are released, and the written ones stay.

        The volume controller then completes the bindings and the provisioning.
        """
        try:
            for each in self.all():
                await each.write(client, sleep)
        except BaseException:
            self.release()
            raise


class Progress:
    """Checks whether the volume controller has bound the claims of a pod. Mirrors checkBindings.

    It reads the server's versions, because assumed versions could be replaced while it waits.
    """

    def __init__(
        self, reservation: Reservation, pod_key: str, node_name: str, handle: Handle, search: VolumeSearch
    ) -> None:
        self._reservation = reservation
        self._pod_key = pod_key
        self._node_name = node_name
        self._handle = handle
        self._search = search
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)
        self._volumes = handle.objects(PERSISTENT_VOLUME)

    def done(self, pods: ObjectStore) -> bool:
        """Whether all claims are bound. Raises BindingFailed if they can't be bound as decided any more."""
        node = self._node()
        if self._pod_key not in pods:
            name = self._pod_key.partition("/")[2]
            raise BindingFailed(f'pod does not exist any more: pod "{name}" not found')
        return all(self._is_bound(each, node) for each in self._reservation.bindings) and all(
            self._is_made(each, node) for each in self._reservation.provisions
        )

    def _node(self) -> Nodes:
        nodes = self._handle.nodes
        position = nodes.position(self._node_name)
        if position is None:
            name = self._node_name
            raise BindingFailed(f'failed to get node "{name}": node "{name}" not found')
        return nodes.at(np.array([position]))

    def _is_bound(self, binding: _Assumed, node: Nodes) -> bool:
        volume = self._known(binding, f'failed to check binding: persistentvolumes "{binding.key}" not found')
        claim = self._claims.known(binding.claim_key)
        if claim is None:
            raise BindingFailed(f'failed to check binding: persistentvolumeclaims "{binding.claim_key}" not found')
        if version_of(binding.obj) > version_of(volume):
            return False  # the watch event of the write hasn't arrived yet
        self._check_access(volume, node, "failed to translate pv to csi: ")
        reference = volume.spec.claimRef
        if reference is None or not reference.uid:
            raise BindingFailed(f'ClaimRef got reset for pv "{binding.key}"')
        return is_fully_bound(claim)

    def _is_made(self, provision: _Assumed, node: Nodes) -> bool:
        missing = f'failed to check provisioning pvc: persistentvolumeclaims "{provision.key}" not found'
        claim = self._known(provision, missing)
        if version_of(provision.obj) > version_of(claim):
            return False
        if not annotations_of(claim):
            raise BindingFailed(f'selectedNode annotation reset for PVC "{claim.metadata.name}"')
        if annotations_of(claim).get(SELECTED_NODE) != self._node_name:
            # A provisioner removes the annotation if it fails.
            raise BindingFailed(f'provisioning failed for PVC "{claim.metadata.name}"')
        if name := volume_name(claim):
            volume = self._volumes.known(name)
            if volume is None:
                return False
            self._check_access(volume, node, "")
        return is_fully_bound(claim)

    def _known(self, assumed: _Assumed, problem: str) -> Any:
        found = assumed.store.known(assumed.key)
        if found is None:
            raise BindingFailed(problem)
        return found

    def _check_access(self, volume: PersistentVolume, node: Nodes, prefix: str) -> None:
        try:
            accessible = self._search.matches_node(volume, node).all()
        except Untranslatable as error:
            raise BindingFailed(f"{prefix}could not translate pv: {error}") from None
        if not accessible:
            problem = f'node affinity doesn\'t match node "{self._node_name}": no matching NodeSelectorTerms'
            raise BindingFailed(f'pv "{full_name(volume)}" {problem}')


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, dict[str, Any] | None]:
    """The volume with a reference to the claim, and the patch (None for no change). Mirrors GetBindVolumeToClaim."""
    assert volume.spec is not None
    assert claim.metadata is not None
    patch: dict[str, Any] = {}
    spec, reference = volume.spec, volume.spec.claimRef
    if reference is None or not is_bound_to(volume, claim) or reference.uid != claim.metadata.uid:
        reference = ObjectReference(
            apiVersion="v1",
            kind="PersistentVolumeClaim",
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            uid=claim.metadata.uid,
            resourceVersion=claim.metadata.resourceVersion,
        )
        spec = msgspec.structs.replace(spec, claimRef=reference)
        patch["spec"] = {"claimRef": reference}
    metadata = volume.metadata or ObjectMeta()
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume):
        metadata = _annotated(metadata, BOUND_BY_CONTROLLER, "yes")
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec), _guarded(patch, metadata)


def _with_node(claim: PersistentVolumeClaim, node_name: str) -> tuple[PersistentVolumeClaim, dict[str, Any] | None]:
    """The claim with its selected node, and the patch."""
    metadata = _annotated(claim.metadata or ObjectMeta(), SELECTED_NODE, node_name)
    patch: dict[str, Any] = {"metadata": {"annotations": {SELECTED_NODE: node_name}}}
    return msgspec.structs.replace(claim, metadata=metadata), _guarded(patch, metadata)


def _annotated(metadata: ObjectMeta, key: str, value: str) -> ObjectMeta:
    return msgspec.structs.replace(metadata, annotations={**(metadata.annotations or {}), key: value})


def _guarded(patch: dict[str, Any], metadata: ObjectMeta) -> dict[str, Any] | None:
    """The patch with the object's version, so that the server rejects it after a change; None for an empty patch."""
    if not patch:
        return None
    patch.setdefault("metadata", {})["resourceVersion"] = metadata.resourceVersion
    return patch
