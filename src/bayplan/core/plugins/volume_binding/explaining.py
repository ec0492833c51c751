"""Which claims and volumes a node is rejected for, and what would help.

It asks the same stores by the same search as Filter, and affects no decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim

from bayplan.core.api.csi_translation import Untranslatable
from bayplan.core.api.objects import encode
from bayplan.core.api.quantity import NANO, format_quantity
from bayplan.core.api.selectors import NodeSelector, parse_node_selector
from bayplan.core.api.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    annotations_of,
    claim_name,
    class_of_claim,
    full_name,
    is_fully_bound,
    requested_storage,
    volume_name,
)
from bayplan.core.api.volumes import capacity as capacity_of
from bayplan.core.api.well_known_labels import HOSTNAME
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.missing_volumes import MissingVolumes
from bayplan.core.framework.remedies import Details, Remedy, add_labels
from bayplan.core.plugins.volume_binding.candidates import is_available
from bayplan.core.plugins.volume_binding.capacity import Capacities, topology_allowed
from bayplan.core.plugins.volume_binding.claims import PodClaims
from bayplan.core.plugins.volume_binding.search import VolumeSearch

_MOST_VOLUMES = 100
_GONE, _NO_SUCH = ", which no node has", ", and there is no node"
"""How texts say that what a claim wants is gone, which is so for all nodes."""


class VolumeExplanations:
    """Explains the rejections of nodes, from the same stores and by the same search as Filter."""

    def __init__(
        self,
        search: VolumeSearch,
        volumes: ObjectStore,
        classes: ObjectStore,
        capacities: Capacities,
        missing: MissingVolumes,
    ) -> None:
        self._search = search
        self._volumes = volumes
        self._classes = classes
        self._capacities = capacities
        self._missing = missing
        self._known: tuple[int, str, list[PersistentVolume]] | None = None
        """A version of the volumes, a class, and its free volumes."""

    def of(self, claims: PodClaims, pod: PodInfo, node: NodeInfo) -> Details:
        """Explain why a node can't satisfy the claims of a pod."""
        parts, remedies = list[str](), list[Remedy]()
        for claim in claims.bound:
            volume: PersistentVolume | None = self._volumes.get(volume_name(claim))
            if volume is None:
                parts.append(f"claim {_name(claim)} is bound to volume {volume_name(claim)}, which does not exist")
            elif not self._accessible(volume, node.alone):
                text, moved = _wants(volume, node)
                parts.append(f"volume {_name(volume)} of claim {_name(claim)} wants {text}")
                remedies += moved
        for claim, _ in claims.waiting:
            alone = PodClaims((), tuple(each for each in claims.waiting if each[0] is claim))
            if self._search.find(alone, node.alone).rejections() is not None:
                parts.append(self._unsatisfied(claim, node))
                remedies += self._other_ways(claim, node)
        if not parts and claims.waiting:
            names = ", ".join(_name(claim) for claim, _ in claims.waiting)
            parts.append(f"each of the claims {names} finds a volume on {node.name}, but not all of them together")
        lost = [part for part in parts if part.endswith(_GONE) or _NO_SUCH in part]
        return Details("; ".join(parts), [*self._missing.remedies(pod), *remedies], everywhere="; ".join(lost))

    def _accessible(self, volume: PersistentVolume, node: Nodes) -> bool:
        try:
            return bool(self._search.matches_node(volume, node)[0])
        except Untranslatable:
            return False

    def _unsatisfied(self, claim: PersistentVolumeClaim, node: NodeInfo) -> str:
        """Why a claim finds no volume on a node, and none can be provisioned."""
        class_name, size = class_of_claim(claim), _size(requested_storage(claim))
        which = f"claim {_name(claim)} ({size} of class {class_name or 'none'})"
        storage_class = self._classes.get(class_name)
        if storage_class is None or storage_class.provisioner in {"", NO_PROVISIONER}:
            nearest = self._nearest_volume(claim, node)
            none = f"{which} finds no free volume that the node can access, and the class provisions none"
            return f"{none}; {nearest}" if nearest else none
        if not topology_allowed(storage_class, node.alone)[0]:
            terms = [
                [f"{each.key} in ({', '.join(each.values or ())})" for each in term.matchLabelExpressions or ()]
                for term in storage_class.allowedTopologies or ()
            ]
            return f"{which}: the class provisions volumes only where {' or '.join(map(', '.join, terms))}"
        selected = annotations_of(claim).get(SELECTED_NODE, "")
        if selected not in {"", node.name}:
            gone = "" if node.among.position(selected) is not None else f"{_NO_SUCH} {selected}"
            return f"{which} has the annotation {SELECTED_NODE}={selected}{gone}"
        free = self._capacities.free(class_name, node.alone)
        if not free:
            return f"{which}: driver {storage_class.provisioner} has published no capacity for {node.name}"
        most = max(limit for _, limit in free)
        return f"{which}: {_size(most * NANO)} is free for {node.name}"

    def _nearest_volume(self, claim: PersistentVolumeClaim, node: NodeInfo) -> str:
        """What is wrong with the free volume that the claim could almost have; "" if none of its class is free."""
        free, wanted = self._free(class_of_claim(claim)), requested_storage(claim) or 0
        if not free:
            return ""
        here = [volume for volume in free if self._accessible(volume, node.alone)]
        nearest = max(here or free, key=capacity_of)
        text = f"volume {_name(nearest)} has {_size(capacity_of(nearest))}"
        if not here:
            return f"{text} and wants {_wants(nearest, node)[0]}"
        return (
            text if capacity_of(nearest) < wanted else f"{text}, but other labels, access modes or another volume mode"
        )

    def _free(self, class_name: str) -> list[PersistentVolume]:
        """The volumes of a class that no claim has; not all, if they are very many."""
        if self._known is None or self._known[:2] != (self._volumes.version, class_name):
            free = (
                volume
                for volume in self._volumes.values()
                if is_available(volume)
                and volume.spec.claimRef is None
                and (volume.spec.storageClassName or "") == class_name
            )
            self._known = self._volumes.version, class_name, list(islice(free, _MOST_VOLUMES))
        return self._known[2]

    def _other_ways(self, claim: PersistentVolumeClaim, node: NodeInfo) -> Iterator[Remedy]:
        """A node where the class provisions, more capacity, another class, or a smaller claim."""
        selected = annotations_of(claim).get(SELECTED_NODE, "")
        if selected not in {"", node.name}:
            changed = _document(claim, "v1", "PersistentVolumeClaim")
            annotations = {key: text for key, text in annotations_of(claim).items() if key != SELECTED_NODE}
            changed["metadata"] = {**changed["metadata"], "annotations": annotations}
            yield Remedy(
                f"remove the annotation {SELECTED_NODE} from the persistentvolumeclaim {_name(claim)}", apply=(changed,)
            )
            return
        storage_class = self._classes.get(class_of_claim(claim))
        wanted = requested_storage(claim) or 0
        provisions = storage_class is not None and storage_class.provisioner not in {"", NO_PROVISIONER}
        allowed = provisions and bool(topology_allowed(storage_class, node.alone)[0])
        if provisions and not allowed:
            for term in storage_class.allowedTopologies or ():
                labels = {each.key: each.values[0] for each in term.matchLabelExpressions or () if each.values}
                yield replace(add_labels(node, labels), node=None)
        for volume in () if provisions else self._free(class_of_claim(claim)):
            if capacity_of(volume) >= wanted and not self._accessible(volume, node.alone):
                yield from _wants(volume, node)[1][:1]
                break
        if allowed:
            for capacity, limit in self._capacities.free(class_of_claim(claim), node.alone):
                larger = _document(capacity, "storage.k8s.io/v1", "CSIStorageCapacity")
                larger |= {"capacity": _size(wanted), "maximumVolumeSize": None}
                text = f"give class {class_of_claim(claim)} {_size(wanted)} of capacity for {node.name}"
                yield Remedy(f"{text} (it has {_size(limit * NANO)})", apply=(larger,))
        for name, other in sorted(self._classes.items()):
            usable = other.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER and other.provisioner != NO_PROVISIONER
            if usable and name != class_of_claim(claim):
                changed = _document(claim, "v1", "PersistentVolumeClaim")
                changed["spec"] = {**changed["spec"], "storageClassName": name}
                yield Remedy(
                    f"give the persistentvolumeclaim {_name(claim)} the storage class {name}", apply=(changed,)
                )


def unbound_text(pod: PodInfo, claims: ObjectStore, classes: ObjectStore) -> str:
    """Return which claims of a pod are missing or not bound yet, and who has to bind them; "" if none is."""
    parts = []
    for name in filter(None, (claim_name(pod.name, volume) for volume in pod.volumes)):
        claim = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            parts.append(f'persistentvolumeclaim "{name}" not found')
        elif claim.metadata.deletionTimestamp is not None:
            parts.append(f'persistentvolumeclaim "{name}" is being deleted')
        elif claim.status is not None and claim.status.phase == "Lost":
            parts.append(f"claim {name} has lost its volume {volume_name(claim)}")
        elif not is_fully_bound(claim):
            class_name = class_of_claim(claim)
            storage_class = classes.get(class_name)
            if storage_class is None:
                who = f"its class {class_name} does not exist" if class_name else "it has no class"
            elif storage_class.provisioner == NO_PROVISIONER:
                who = f"class {class_name} provisions no volumes"
            elif storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER and not volume_name(claim):
                continue
            else:
                who = f"it waits for provisioner {storage_class.provisioner} of class {class_name}"
            parts.append(f"claim {name} must be bound first: {who}")
    return "; ".join(parts)


def _wants(volume: PersistentVolume, node: NodeInfo) -> tuple[str, list[Remedy]]:
    """What the node affinity of a volume wants, and a new node with these labels."""
    affinity = volume.spec.nodeAffinity.required if volume.spec is not None and volume.spec.nodeAffinity else None
    if affinity is None:
        return "a node that its driver can use", []
    required = parse_node_selector(affinity)
    nobody = "" if _anywhere(required, node.among) else _GONE
    remedies = []
    for term in required.terms:
        labels = {each.key: min(each.values) for each in term.labels.requirements if each.operator == "in"}
        if labels and HOSTNAME not in labels:
            remedies.append(replace(add_labels(node, labels), node=None))
    return f"{required}{nobody}", remedies


def _anywhere(required: NodeSelector, nodes: Nodes) -> bool:
    infos = (nodes.info(position) for position in np.flatnonzero(nodes.live).tolist())
    return any(required.matches(info.labels, info.name) for info in infos)


def _document(obj: Any, version: str, kind: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(encode(obj))
    return {**document, "apiVersion": version, "kind": kind}


def _size(nanos: int | None) -> str:
    return format_quantity(nanos or 0, binary=True)


def _name(obj: Any) -> str:
    return full_name(obj).rpartition("/")[2]
