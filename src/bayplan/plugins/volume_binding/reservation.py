"""What was set aside for a pod, and how it is written: volumes for claims, and nodes for claims to have volumes made.

Mirrors AssumePodVolumes, RevertAssumedPodVolumes and BindPodVolumes (plugins/volumebinding/binder.go).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from lightkube.models.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api.csi_translation import Untranslatable
from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, Kind
from bayplan.api.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    annotations_of,
    full_name,
    is_bound_to,
    is_fully_bound,
    volume_name,
)
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.objects import ObjectStore, version_of
from bayplan.framework.handle import ApiClient, Handle
from bayplan.plugins.volume_binding.search import PodVolumes, Search


class BindingFailed(Exception):
    """The claims of a pod cannot be bound as decided: it has to be decided anew. The text is upstream's."""


@dataclass(slots=True)
class _Assumed:
    """An object as it is to be, and the part of it that has to be written for that.

    `written`: the server has it; from then on it is the server's word that counts.
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

    def give_up(self) -> None:
        """Readers see again what the server said. What was written or assumed by others since stays."""
        if self.patch is not None and not self.written and self.store.get(self.key) is self.obj:
            self.store.restore(self.key)

    async def write(self, client: ApiClient) -> None:
        """Write it, if nobody has changed the object since it was decided on."""
        if self.patch is not None:
            metadata = self.obj.metadata
            self.obj = await client.patch(self.kind, metadata.name, self.patch, metadata.namespace)
        self.written = True


@dataclass(slots=True)
class Reservation:
    """What is set aside for one pod on its node. Nothing of it is written before `write`."""

    bindings: list[_Assumed] = field(default_factory=list)
    provisions: list[_Assumed] = field(default_factory=list)

    @classmethod
    def make(cls, found: PodVolumes, node_name: str, claims: ObjectStore, volumes: ObjectStore) -> Reservation:
        """Set aside what was found, for all who read the stores."""
        reservation = cls()
        for binding in found.bindings:
            volume, patch = _bound(binding.volume, binding.claim)
            reservation.bindings.append(
                _Assumed(PERSISTENT_VOLUME, volumes, volume, patch, claim_key=full_name(binding.claim))
            )
        for provision in found.provisions:
            claim, patch = _with_node(provision.claim, node_name)
            reservation.provisions.append(
                _Assumed(PERSISTENT_VOLUME_CLAIM, claims, claim, patch, claim_key=full_name(claim))
            )
        for each in reservation.all():
            each.assume()
        return reservation

    def all(self) -> list[_Assumed]:
        """Everything that is set aside, in the order in which it is written."""
        return self.bindings + self.provisions

    def give_up(self) -> None:
        """Give back what is not written. May be called again."""
        for each in self.all():
            each.give_up()

    async def write(self, client: ApiClient) -> None:
        """Write everything. Where that breaks, what is not written is given back, and what is written stays.

        The controller takes over from here: it binds volumes to claims, and has volumes made.
        """
        try:
            for each in self.all():
                await each.write(client)
        except BaseException:
            self.give_up()
            raise


class Progress:
    """Whether the controller has bound what a pod needs. Mirrors checkBindings.

    Looks at what the server says, for what is assumed may be assumed anew meanwhile.
    """

    def __init__(self, reservation: Reservation, pod_key: str, node_name: str, handle: Handle, search: Search) -> None:
        self._reservation = reservation
        self._pod_key = pod_key
        self._node_name = node_name
        self._handle = handle
        self._search = search
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)
        self._volumes = handle.objects(PERSISTENT_VOLUME)

    def done(self, pods: ObjectStore) -> bool:
        """Whether all claims are bound. Raises BindingFailed where they will not be, as they were to be."""
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
            return False  # what was written has not come back yet
        self._check_reach(volume, node, "failed to translate pv to csi: ")
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
            # A provisioner that fails takes the annotation away.
            raise BindingFailed(f'provisioning failed for PVC "{claim.metadata.name}"')
        if name := volume_name(claim):
            volume = self._volumes.known(name)
            if volume is None:
                return False
            self._check_reach(volume, node, "")
        return is_fully_bound(claim)

    def _known(self, assumed: _Assumed, problem: str) -> Any:
        found = assumed.store.known(assumed.key)
        if found is None:
            raise BindingFailed(problem)
        return found

    def _check_reach(self, volume: PersistentVolume, node: Nodes, failing: str) -> None:
        try:
            reachable = self._search.matches_node(volume, node).all()
        except Untranslatable as error:
            raise BindingFailed(f"{failing}could not translate pv: {error}") from None
        if not reachable:
            problem = f'node affinity doesn\'t match node "{self._node_name}": no matching NodeSelectorTerms'
            raise BindingFailed(f'pv "{full_name(volume)}" {problem}')


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, dict[str, Any] | None]:
    """The volume as bound to a claim, and what differs (None: nothing). Mirrors GetBindVolumeToClaim."""
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
    """The claim as told where its volume is wanted, and what differs."""
    metadata = _annotated(claim.metadata or ObjectMeta(), SELECTED_NODE, node_name)
    patch: dict[str, Any] = {"metadata": {"annotations": {SELECTED_NODE: node_name}}}
    return msgspec.structs.replace(claim, metadata=metadata), _guarded(patch, metadata)


def _annotated(metadata: ObjectMeta, key: str, value: str) -> ObjectMeta:
    return msgspec.structs.replace(metadata, annotations={**(metadata.annotations or {}), key: value})


def _guarded(patch: dict[str, Any], metadata: ObjectMeta) -> dict[str, Any] | None:
    """A patch that the server refuses if anybody has changed the object meanwhile; None for an empty one."""
    if not patch:
        return None
    patch.setdefault("metadata", {})["resourceVersion"] = metadata.resourceVersion
    return patch
