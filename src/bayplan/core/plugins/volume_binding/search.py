"""Finds the nodes that satisfy a pod's claims, with existing volumes or by provisioning new ones.

Mirrors FindPodVolumes (plugins/volumebinding/binder.go), for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.models.storage_v1 import CSIStorageCapacity, StorageClass

from bayplan.core.api.csi_translation import Untranslatable
from bayplan.core.api.labels import InvalidSelector
from bayplan.core.api.selectors import NodeSelector
from bayplan.core.api.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    class_of_claim,
    full_name,
    requested_storage,
    volume_name,
)
from bayplan.core.cluster.columns import Bool, Int32
from bayplan.core.cluster.csi_nodes import CsiNodes
from bayplan.core.cluster.node_selection import match_topology
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.volume_access import VolumeAccess, VolumeAccesses
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.volume_binding.capacity import NO_CAPACITY, Capacities, Planned, topology_allowed
from bayplan.core.plugins.volume_binding.claims import PodClaims
from bayplan.core.plugins.volume_binding.matching import matching_volumes

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_REASONS = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING)
_CONFLICT, _BIND, _SPACE, _MISSING = (1 << bit for bit in range(len(_REASONS)))
_STATUSES = tuple(
    Status.unresolvable(*(reason for bit, reason in enumerate(_REASONS) if bits & 1 << bit))
    for bits in range(1, 1 << len(_REASONS))
)
"""The statuses by the bits of their reasons, starting at 1."""


@dataclass(frozen=True, slots=True)
class ClaimMatch:
    """A claim and the existing volume to bind it to."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class Provision:
    """A claim for which a volume must be provisioned, and the capacity for it if the driver publishes one."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None = None


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes of a pod's claims on one node."""

    bindings: tuple[ClaimMatch, ...] = ()
    provisions: tuple[Provision, ...] = ()


@dataclass(slots=True)
class Found:
    """The results of a search, by position of the node.

    `reasons` (int32) are the bits of the rejection reasons. `error` (int32) is 0 or an index of `errors` plus one.
    """

    reasons: Int32
    error: Int32
    errors: list[Status] = field(default_factory=list)
    bindings: list[tuple[PersistentVolumeClaim, list[PersistentVolume], Int32]] = field(default_factory=list)
    """A claim, volumes, and the index of the chosen volume (-1 for none)."""
    provisions: list[tuple[PersistentVolumeClaim, Bool, list[CSIStorageCapacity], Int32]] = field(default_factory=list)
    """A claim, whether a volume is provisioned for it, and the index of the capacity (-1 if it isn't published)."""

    @classmethod
    def all_feasible(cls, count: int) -> Found:
        """No rejections for `count` nodes."""
        return cls(np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32))

    def fail(self, where: Bool, problem: str) -> None:
        """Add an error for these nodes. The first error of a node counts."""
        self.errors.append(Status.error(problem))
        self.error[where & (self.error == 0)] = len(self.errors)

    @property
    def without_error(self) -> Bool:
        """The nodes without an error."""
        without_error: Bool = self.error == 0
        return without_error

    def rejections(self) -> Rejections | None:
        """The rejected nodes; None if all are feasible."""
        index = self.reasons.copy()
        failed = self.error > 0
        index[failed] = len(_STATUSES) + self.error[failed]
        if not index.any():
            return None
        return Rejections(index, (*_STATUSES, *self.errors))

    def at(self, position: int) -> PodVolumes:
        """The volumes on a feasible node."""
        bindings = [
            ClaimMatch(volumes[choice[position]], claim)
            for claim, volumes, choice in self.bindings
            if choice[position] >= 0
        ]
        provisions = [
            Provision(claim, capacities[source[position]] if source[position] >= 0 else None)
            for claim, where, capacities, source in self.provisions
            if where[position]
        ]
        return PodVolumes(tuple(bindings), tuple(provisions))


class VolumeSearch:
    """Searches for volumes in the object stores."""

    def __init__(
        self, volumes: ObjectStore, classes: ObjectStore, csi_nodes: ObjectStore, capacities: Capacities
    ) -> None:
        self._volumes = volumes
        self._classes = classes
        self._accesses = volumes.view(VolumeAccesses)
        self._csi_nodes = csi_nodes.view(CsiNodes)
        self._capacities = capacities

    def find(self, claims: PodClaims, nodes: Nodes, planned: Planned | None = None) -> Found:
        """Search on all nodes. `planned`: the volumes of other members of the pod's gang."""
        found = Found.all_feasible(len(nodes))
        self._check_bound(claims, nodes, found)
        if claims.waiting:
            self._find_volumes(claims, nodes, found, planned)
        return found

    def requirements(self, claims: PodClaims, nodes: Nodes) -> frozenset[NodeSelector] | None:
        """Return the node affinities of bound volumes; None if the result of a search depends on more than that."""
        required = set()
        for claim in claims.bound:
            volume = self._volumes.get(volume_name(claim))
            if volume is None or self._migrated_on(access := self._accesses.of(volume), nodes) is not None:
                return None
            if access.required is not None:
                required.add(access.required)
        return None if claims.waiting else frozenset(required)

    def matches_node(self, volume: PersistentVolume, nodes: Nodes) -> Bool:
        """The nodes that can access a volume. Raises Untranslatable for an invalid one of a former in-tree plugin."""
        access = self._accesses.of(volume)
        migrated = self._migrated_on(access, nodes)
        if migrated is None or not migrated.any():
            return _matches(access.required, nodes)
        if access.translated is None:
            raise Untranslatable(access.untranslatable)
        translated = _matches(access.translated_required, nodes)
        return np.where(migrated, translated, _matches(access.required, nodes))

    def _check_bound(self, claims: PodClaims, nodes: Nodes, found: Found) -> None:
        """Check the volumes of bound claims. A node is rejected for the first missing or inaccessible volume."""
        feasible = np.ones(len(nodes), dtype=np.bool_)
        for claim in claims.bound:
            volume = self._volumes.get(volume_name(claim))
            if volume is None:
                found.reasons[feasible] |= _MISSING
                return
            try:
                accessible = self.matches_node(volume, nodes)
            except Untranslatable as error:
                # Volumes are translated only for nodes with a migrated plugin.
                access = self._accesses.of(volume)
                migrated = self._migrated_on(access, nodes)
                assert migrated is not None
                found.fail(feasible & migrated, f"could not translate pv: {error}")
                accessible = migrated | _matches(access.required, nodes)
                feasible &= ~migrated
            found.reasons[feasible & ~accessible] |= _CONFLICT
            feasible &= accessible

    def _find_volumes(self, claims: PodClaims, nodes: Nodes, found: Found, planned: Planned | None) -> None:
        """Find volumes for waiting claims.

        A claim with a selected node needs a new volume there. Other claims get an existing volume, or else a new one.
        """
        feasible = found.without_error
        selected = [claim for claim, _ in claims.waiting if SELECTED_NODE in annotations_of(claim)]
        for claim in selected:
            other_nodes = np.ones(len(nodes), dtype=np.bool_)
            position = nodes.position(annotations_of(claim)[SELECTED_NODE])
            if position is not None:
                other_nodes[position] = False
            found.reasons[feasible & other_nodes] |= _BIND
            feasible &= ~other_nodes
        to_provision: list[tuple[PersistentVolumeClaim, Bool]] = [(claim, feasible.copy()) for claim in selected]
        unselected = [each for each in claims.waiting if SELECTED_NODE not in annotations_of(each[0])]
        chosen: dict[str, Bool] = {}
        for claim, candidates in sorted(unselected, key=lambda each: requested_storage(each[0]) or 0):
            try:
                matching = matching_volumes(claim, candidates)
            except InvalidSelector as error:
                key = full_name(claim)
                found.fail(feasible, f"error creating internal label selector for claim: {key}: {error}")
                return
            volumes, choice = self._choose(matching, nodes, feasible, chosen)
            found.bindings.append((claim, volumes, choice))
            missing = feasible & (choice < 0)
            if missing.any():
                to_provision.append((claim, missing))
        self._check_provisioning(to_provision, nodes, found, planned)

    def _check_provisioning(
        self,
        to_provision: list[tuple[PersistentVolumeClaim, Bool]],
        nodes: Nodes,
        found: Found,
        planned: Planned | None,
    ) -> None:
        """Check whether volumes can be provisioned. A node is rejected for the first claim that can't be."""
        rejected = np.zeros(len(nodes), dtype=np.bool_)
        for claim, wanted in to_provision:
            where = wanted & ~rejected
            if not where.any():
                continue
            class_name = class_of_claim(claim)
            storage_class: StorageClass | None = self._classes.get(class_name)
            if storage_class is None:
                found.fail(where, f'failed to find storage class "{class_name}"')
                rejected |= where
                continue
            if storage_class.provisioner in {"", NO_PROVISIONER}:
                impossible = where
            else:
                impossible = where & ~topology_allowed(storage_class, nodes)
            found.reasons[impossible] |= _BIND
            rejected |= impossible
            sources, source = self._capacities.find(claim, storage_class, nodes, planned)
            full = where & ~rejected & (source == NO_CAPACITY)
            found.reasons[full] |= _SPACE
            rejected |= full
            found.provisions.append((claim, where & ~rejected, sources, source))

    def _choose(
        self, matching: Iterator[tuple[PersistentVolume, bool]], nodes: Nodes, feasible: Bool, chosen: dict[str, Bool]
    ) -> tuple[list[PersistentVolume], Int32]:
        """The volumes that were tried, and for each node the index of the first that the claim can use; -1 for none.

        `matching` are the matching volumes, each with whether it is pre-bound to the claim. `chosen` are, by volume,
        the nodes on which another claim of the pod uses it; the choices are added to it.
        """
        tried: list[PersistentVolume] = []
        choice = np.full(len(nodes), -1, dtype=np.int32)
        pending = feasible.copy()
        for index, (volume, prebound) in enumerate(matching):
            tried.append(volume)
            name = full_name(volume)
            taken = chosen.get(name)
            free = pending if taken is None else pending & ~taken
            usable = free & _matches(self._accesses.of(volume).required, nodes)
            choice[usable] = index
            # A claim can use no other volume than a pre-bound one, even on nodes that can't access it.
            pending &= ~(free if prebound else usable)
            if usable.any():
                chosen[name] = usable if taken is None else taken | usable
            if not pending.any():
                break
        return tried, choice

    def _migrated_on(self, access: VolumeAccess, nodes: Nodes) -> Bool | None:
        """The nodes on which the plugin of a volume is migrated to its CSI driver; None if there are none."""
        if access.plugin is None:
            return None
        self._csi_nodes.refresh(nodes.table)
        return self._csi_nodes.migrated(access.plugin.name, nodes)


def _matches(required: NodeSelector | None, nodes: Nodes) -> Bool:
    return np.ones(len(nodes), dtype=np.bool_) if required is None else match_topology(required, nodes)
