"""VolumeZone: filters out nodes outside the zones and regions of the pod's volumes.

Only bound claims have a zone. Zones are labels of volumes, so nodes without any such label accept all volumes, as
upstream.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.models.storage_v1 import StorageClass

from bayplan.core.api.csi_translation import BETA_REGION, REGION
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.volumes import WAIT_FOR_FIRST_CONSUMER, class_of_claim, volume_name, zones
from bayplan.core.api.well_known_labels import BETA_ZONE, ZONE
from bayplan.core.cluster.columns import Bool
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.hints import OWN_CLAIM, after_claim_change
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.missing_volumes import MissingVolumes
from bayplan.core.framework.remedies import Details, add_labels
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections

NO_ZONE = Status.unresolvable("node(s) had no available volume zone")

LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSOR = {BETA_ZONE: ZONE, BETA_REGION: REGION}


@dataclass(frozen=True, slots=True)
class _Topology:
    """A requirement of a volume: a node label, and its allowed values."""

    label: str
    values: frozenset[str]


class VolumeZone(OnlyPlaces):
    """Checks bound claims; VolumeBinding checks ephemeral volumes. Mirrors plugins/volumezone/volume_zone.go."""

    name = "VolumeZone"
    reads_pods = False

    def __init__(self, handle: Handle) -> None:
        self._missing = MissingVolumes(handle)
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)
        self._volumes = handle.objects(PERSISTENT_VOLUME)
        self._classes = handle.objects(STORAGE_CLASS)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Collect the requirements of the volumes; skip a pod without any."""
        topologies: list[_Topology] = []
        for found in self._volumes_of(pod):
            if isinstance(found, Status):
                return found
            if found is not None:
                topologies += _topologies(found)
        if not topologies:
            return SKIP
        cycle.data[self.name] = topologies
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes outside the volumes' zones. Nodes without any of the labels are feasible for all volumes."""
        labeled = np.zeros(len(nodes), dtype=np.bool_)
        for label in LABELS:
            labeled |= nodes.has_label(label)
        if not labeled.any():
            return None
        matches: Bool = np.ones(len(nodes), dtype=np.bool_)
        for topology in cycle.data[self.name]:
            matches &= _matches(topology, nodes)
        return Rejections.where(labeled & ~matches, NO_ZONE)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The zones that the volumes want, or what the claims lack."""
        if node is None:
            return Details(remedies=self._missing.remedies(pod))
        here = node.alone
        wanted = [
            (found.metadata.name, topology)
            for found in self._volumes_of(pod)
            if isinstance(found, PersistentVolume) and found.metadata is not None
            for topology in _topologies(found)
            if not _matches(topology, here)[0]
        ]
        texts = [f"volume {name} wants {each.label} in ({', '.join(sorted(each.values))})" for name, each in wanted]
        moved = add_labels(node, {topology.label: min(topology.values) for _, topology in wanted})
        return Details("; ".join(texts), [replace(moved, node=None)] if wanted else ())

    def events(self) -> Iterable[EventHint]:
        """Register changes of storage classes, nodes, claims and volumes."""
        yield EventHint(ClusterEvent(STORAGE_CLASS.kind, Action.ADD), self.after_class_add)
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL))
        yield EventHint(
            ClusterEvent(PERSISTENT_VOLUME_CLAIM.kind, Action.ADD | Action.UPDATE), after_claim_change, OWN_CLAIM
        )
        yield EventHint(ClusterEvent(PERSISTENT_VOLUME.kind, Action.ADD | Action.UPDATE), self.after_volume_change)

    def after_class_add(self, pod: PodInfo, old: Any, new: StorageClass) -> Hint:
        """Requeue for a class with volume binding mode WaitForFirstConsumer."""
        return Hint.QUEUE if new.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP

    def after_volume_change(self, pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
        """Requeue for a volume that is new, or whose requirements changed."""
        return Hint.QUEUE if old is None or _topologies(old) != _topologies(new) else Hint.SKIP

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: what matters are the volumes, which `rests_on` finds."""
        return ()

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """The requirements of the volumes, if all claims are bound."""
        if not pod.volumes:
            return ()
        topologies: set[_Topology] = set()
        for found in self._volumes_of(pod):
            if found is None or isinstance(found, Status):
                return None
            topologies.update(_topologies(found))
        return frozenset(topologies) if topologies else ()

    def _volumes_of(self, pod: PodInfo) -> Iterator[PersistentVolume | Status | None]:
        """Yield the result of `_volume_of` for each claim of a pod."""
        for volume in pod.volumes:
            if volume.persistentVolumeClaim is not None:
                yield self._volume_of(pod.namespace, volume.persistentVolumeClaim.claimName)

    def _volume_of(self, namespace: str, name: str) -> PersistentVolume | Status | None:
        """Return the volume of a claim; None if the claim is bound only after its pod is scheduled."""
        if not name:
            return Status.unresolvable("PersistentVolumeClaim had no name")
        claim: PersistentVolumeClaim | None = self._claims.get(f"{namespace}/{name}")
        if claim is None:
            return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
        if wanted := volume_name(claim):
            volume: PersistentVolume | None = self._volumes.get(wanted)
            return Status.unresolvable(f'persistentvolume "{wanted}" not found') if volume is None else volume
        class_name = class_of_claim(claim)
        if not class_name:
            return Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        found: StorageClass | None = self._classes.get(class_name)
        if found is None:
            return Status.unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
        if found.volumeBindingMode is None:
            return Status.unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        if found.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return Status.unresolvable("PersistentVolume had no name")


def _topologies(volume: PersistentVolume) -> list[_Topology]:
    """Return the requirements in the labels of a volume. Invalid labels are ignored."""
    labels = (volume.metadata.labels if volume.metadata else None) or {}
    found = ((label, zones(labels[label])) for label in LABELS if label in labels)
    return [_Topology(label, values) for label, values in found if values is not None]


def _matches(topology: _Topology, nodes: Nodes) -> Bool:
    """Return which nodes have one of the values. A missing beta label is replaced by its GA successor.

    bool, shape (len(nodes),).
    """
    label = topology.label
    matches = nodes.label_in(label, topology.values)
    successor = _SUCCESSOR.get(label)
    if successor is not None:
        matches = matches | (~nodes.has_label(label) & nodes.label_in(successor, topology.values))
    return matches
