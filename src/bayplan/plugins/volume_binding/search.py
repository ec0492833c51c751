"""Which nodes meet a pod's claims, and how: by volumes that are there, or by volumes that can be made.

Mirrors FindPodVolumes (plugins/volumebinding/binder.go), for all nodes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from lightkube.models.core_v1 import NodeSelector, PersistentVolume, PersistentVolumeClaim
from lightkube.models.storage_v1 import CSIStorageCapacity, StorageClass

from bayplan.api import selectors
from bayplan.api.csi_translation import InTreePlugin, Untranslatable, in_tree_plugin, translate
from bayplan.api.labels import InvalidSelector
from bayplan.api.volumes import (
    MIGRATED_PLUGINS,
    NO_PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    class_of_claim,
    full_name,
    requested_storage,
    volume_name,
)
from bayplan.cluster.columns import Bool, Int32
from bayplan.cluster.node_selection import match_topology
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.objects import ObjectStore
from bayplan.framework.status import Status
from bayplan.framework.verdicts import Rejections
from bayplan.plugins.volume_binding.capacity import Capacities, topology_allowed
from bayplan.plugins.volume_binding.claims import PodClaims
from bayplan.plugins.volume_binding.matching import fitting

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
"""What is said of a node, by the bits of its reasons, from 1 on."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A volume that a claim is to be bound to."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class Provision:
    """A claim that a volume is to be made for, and where there is room for it, where that is known."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None = None


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """What becomes of a pod's claims on one node."""

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[Provision, ...] = ()


@dataclass(slots=True)
class Found:
    """What was found, by position of the selection.

    `reasons`: int32, bits of what keeps the pod from the node. `error`: int32, 0 or an index into `errors` plus one.
    """

    reasons: Int32
    error: Int32
    errors: list[Status] = field(default_factory=list)
    bindings: list[tuple[PersistentVolumeClaim, list[PersistentVolume], Int32]] = field(default_factory=list)
    """A claim, volumes, and which of them it gets (-1: none)."""
    provisions: list[tuple[PersistentVolumeClaim, Bool, list[CSIStorageCapacity], Int32]] = field(default_factory=list)
    """A claim, whether a volume is made for it, and the capacity that it comes out of (-1: none is told)."""

    @classmethod
    def nothing(cls, count: int) -> Found:
        """Nothing is in the way of so many nodes."""
        return cls(np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32))

    def fail(self, where: Bool, problem: str) -> None:
        """Looking at these nodes failed; what failed first counts."""
        self.errors.append(Status.error(problem))
        self.error[where & (self.error == 0)] = len(self.errors)

    @property
    def intact(self) -> Bool:
        """Where nothing failed."""
        intact: Bool = self.error == 0
        return intact

    def rejections(self) -> Rejections | None:
        """A status for every node that does not do."""
        index = self.reasons.copy()
        failed = self.error > 0
        index[failed] = len(_STATUSES) + self.error[failed]
        if not index.any():
            return None
        return Rejections(index, (*_STATUSES, *self.errors))

    def at(self, position: int) -> PodVolumes:
        """What becomes of the claims on a node that does."""
        bindings = [
            Binding(volumes[choice[position]], claim)
            for claim, volumes, choice in self.bindings
            if choice[position] >= 0
        ]
        provisions = [
            Provision(claim, capacities[source[position]] if source[position] >= 0 else None)
            for claim, where, capacities, source in self.provisions
            if where[position]
        ]
        return PodVolumes(tuple(bindings), tuple(provisions))


class Search:
    """Looks for volumes, in the stores of what is known."""

    def __init__(
        self, volumes: ObjectStore, classes: ObjectStore, csi_nodes: ObjectStore, capacities: Capacities
    ) -> None:
        self._volumes = volumes
        self._classes = classes
        self._csi_nodes = csi_nodes
        self._capacities = capacities

    def find(self, claims: PodClaims, nodes: Nodes) -> Found:
        """What each node does for the claims."""
        found = Found.nothing(len(nodes))
        self._look_at_bound(claims, nodes, found)
        if claims.waiting:
            self._look_for_waiting(claims, nodes, found)
        return found

    def matches_node(self, volume: PersistentVolume, nodes: Nodes) -> Bool:
        """Which nodes a volume can be had on. Raises Untranslatable for one of a former plugin that cannot be read."""
        required = _required(volume)
        plugin = in_tree_plugin(volume.spec)
        if plugin is None or not plugin.migrated:
            return _matches(required, nodes)
        there = self._migrated_on(plugin, nodes)
        if not there.any():
            return _matches(required, nodes)
        translated = _matches(translate(volume, plugin).required, nodes)
        return np.where(there, translated, _matches(required, nodes))

    def _look_at_bound(self, claims: PodClaims, nodes: Nodes, found: Found) -> None:
        """Volumes that claims have: the first that is missing or out of reach is what is said of a node."""
        open_ = np.ones(len(nodes), dtype=np.bool_)
        for claim in claims.bound:
            volume = self._volumes.get(volume_name(claim))
            if volume is None:
                found.reasons[open_] |= _MISSING
                return
            try:
                there = self.matches_node(volume, nodes)
            except Untranslatable as error:
                # Only nodes on which the driver took over have the volume translated.
                plugin = in_tree_plugin(volume.spec)
                assert plugin is not None
                migrated = self._migrated_on(plugin, nodes)
                found.fail(open_ & migrated, f"could not translate pv: {error}")
                there = migrated | _matches(_required(volume), nodes)
                open_ &= ~migrated
            found.reasons[open_ & ~there] |= _CONFLICT
            open_ &= there

    def _look_for_waiting(self, claims: PodClaims, nodes: Nodes, found: Found) -> None:
        """Claims with a node have a volume made there, others get one that is there, or else have one made."""
        open_ = found.intact
        selected = [claim for claim in claims.waiting if SELECTED_NODE in annotations_of(claim)]
        for claim in selected:
            elsewhere = np.ones(len(nodes), dtype=np.bool_)
            position = nodes.position(annotations_of(claim)[SELECTED_NODE])
            if position is not None:
                elsewhere[position] = False
            found.reasons[open_ & elsewhere] |= _BIND
            open_ &= ~elsewhere
        to_make: list[tuple[PersistentVolumeClaim, Bool]] = [(claim, open_.copy()) for claim in selected]
        unselected = [claim for claim in claims.waiting if SELECTED_NODE not in annotations_of(claim)]
        chosen: dict[str, Bool] = {}
        for claim in sorted(unselected, key=lambda claim: requested_storage(claim) or 0):
            try:
                volumes = fitting(claim, claims.candidates[class_of_claim(claim)])
            except InvalidSelector as error:
                key = full_name(claim)
                found.fail(open_, f"error creating internal label selector for claim: {key}: {error}")
                return
            choice = _choose(claim, volumes, nodes, open_, chosen)
            found.bindings.append((claim, [volume for volume, _ in volumes], choice))
            missing = open_ & (choice < 0)
            if missing.any():
                to_make.append((claim, missing))
        self._look_for_room(to_make, nodes, found)

    def _look_for_room(self, to_make: list[tuple[PersistentVolumeClaim, Bool]], nodes: Nodes, found: Found) -> None:
        """Whether volumes can be made; the first claim for which none can settles what is said of a node."""
        settled = np.zeros(len(nodes), dtype=np.bool_)
        for claim, wanted in to_make:
            where = wanted & ~settled
            if not where.any():
                continue
            class_name = class_of_claim(claim)
            storage_class: StorageClass | None = self._classes.get(class_name)
            if storage_class is None:
                found.fail(where, f'failed to find storage class "{class_name}"')
                settled |= where
                continue
            if storage_class.provisioner in {"", NO_PROVISIONER}:
                impossible = where
            else:
                impossible = where & ~topology_allowed(storage_class, nodes)
            found.reasons[impossible] |= _BIND
            settled |= impossible
            sources, source = self._capacities.find(claim, storage_class, nodes)
            full = where & ~settled & (source < -1)
            found.reasons[full] |= _SPACE
            settled |= full
            found.provisions.append((claim, where & ~settled, sources, source))

    def _migrated_on(self, plugin: InTreePlugin, nodes: Nodes) -> Bool:
        """On which nodes a CSI driver has taken over from a plugin, as their CSINodes tell."""
        migrated = np.zeros(len(nodes), dtype=np.bool_)
        for name, csi_node in self._csi_nodes.items():
            if plugin.name in annotations_of(csi_node).get(MIGRATED_PLUGINS, "").split(","):
                position = nodes.position(name)
                if position is not None:
                    migrated[position] = True
        return migrated


def _choose(
    claim: PersistentVolumeClaim,
    volumes: list[tuple[PersistentVolume, bool]],
    nodes: Nodes,
    open_: Bool,
    chosen: dict[str, Bool],
) -> Int32:
    """Which of the volumes (best first, each with whether it is set aside for the claim) it gets on each node.

    `chosen`: by volume, where another claim of the pod has it already; brought up to date.
    """
    choice = np.full(len(nodes), -1, dtype=np.int32)
    open_ = open_.copy()
    for index, (volume, set_aside) in enumerate(volumes):
        if not open_.any():
            break
        name = full_name(volume)
        taken = chosen.get(name)
        free = open_ if taken is None else open_ & ~taken
        there = free & _matches(_required(volume), nodes)
        choice[there] = index
        # A volume that was set aside for the claim is the only one, even where it is out of reach.
        open_ &= ~(free if set_aside else there)
        if there.any():
            chosen[name] = there if taken is None else taken | there
    return choice


def _required(volume: PersistentVolume) -> NodeSelector | None:
    affinity = volume.spec.nodeAffinity if volume.spec else None
    return affinity.required if affinity else None


def _matches(required: NodeSelector | None, nodes: Nodes) -> Bool:
    if required is None:
        return np.ones(len(nodes), dtype=np.bool_)
    return match_topology(selectors.parse_node_selector(required), nodes)
