"""The topology of a CSI driver's volume, as node labels.

Mirrors GenerateAccessibilityRequirements (external-provisioner's pkg/controller/topology.go) with strict topology.
If no CSINode has topology keys of the driver, the keys of the class's allowed topologies apply.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from bayplan.core.api import quantity
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.served import CsiNode, CsiStorageCapacity, Node, PersistentVolumeClaim, StorageClass
from bayplan.core.api.volumes import requested_storage

Place = dict[str, str]
"""The labels of the nodes with access; if empty, all nodes have access."""


class CannotProvision(Exception):
    """A volume can't be created; the text is the reason."""


def place_for_node(driver: str, storage_class: StorageClass, node: Node, csi_node: CsiNode | None) -> Place:
    """The topology of a volume for the node that the scheduler selected. Raises CannotProvision."""
    allowed = allowed_places(storage_class)
    keys = topology_keys(driver, csi_node) or sorted({key for place in allowed for key in place})
    labels, name = node.metadata.labels or {}, node.metadata.name
    if missing := [key for key in keys if key not in labels]:
        raise CannotProvision(f'node "{name}" lacks the topology labels {", ".join(missing)}')
    place = {key: labels[key] for key in keys}
    if allowed and not any(each.items() <= place.items() for each in allowed):
        raise CannotProvision(f'selected node "{name}" topology {place} is not in allowed topologies: {allowed}')
    return place


def places_for_anybody(
    driver: str, storage_class: StorageClass, claim_name: str, nodes: Iterable[Node], csi_nodes: Iterable[CsiNode]
) -> list[Place]:
    """The possible topologies of a volume that no pod uses yet, best first. Raises CannotProvision.

    Claims are spread over the topologies by their names; the claims of a StatefulSet get them in turn.
    """
    places = allowed_places(storage_class)
    if not places:
        keys = next(filter(None, (topology_keys(driver, each) for each in csi_nodes)), ())
        labels = (node.metadata.labels or {} for node in nodes)
        places = [{key: each[key] for key in keys} for each in labels if all(key in each for key in keys)]
        if not keys:
            return [{}]
        if not places:
            raise CannotProvision(f"no node has the topology labels {', '.join(keys)}")
    distinct = sorted({tuple(sorted(place.items())) for place in places})
    first = _spread(claim_name) % len(distinct)
    return [dict(place) for place in distinct[first:] + distinct[:first]]


def has_room(
    capacities: Iterable[CsiStorageCapacity],
    storage_class: StorageClass,
    claim: PersistentVolumeClaim,
    labels: Mapping[str, str],
) -> bool:
    """Whether a topology has capacity for a claim, according to the CSIStorageCapacity objects.

    The driver is simulated, so these objects define its capacity. A class without them has unlimited capacity.
    """
    of_class = [one for one in capacities if one.storageClassName == storage_class.metadata.name]
    here = [one for one in of_class if selector_or_nothing(one.nodeTopology).matches(labels)]
    wanted = requested_storage(claim) or 0
    return not of_class or any(_holds(one) >= wanted for one in here)


def topology_keys(driver: str, csi_node: CsiNode | None) -> Sequence[str]:
    """The topology keys of a driver on a node."""
    drivers = (csi_node.spec.drivers if csi_node is not None else None) or ()
    return next((tuple(one.topologyKeys or ()) for one in drivers if one.name == driver), ())


def allowed_places(storage_class: StorageClass) -> list[Place]:
    """The allowed topologies of a class, one per combination of values; empty if all are allowed."""
    places: list[Place] = []
    for term in storage_class.allowedTopologies or ():
        expressions = term.matchLabelExpressions or ()
        keys = [expression.key for expression in expressions]
        combinations = itertools.product(*(expression.values for expression in expressions))
        places.extend(dict(zip(keys, values, strict=True)) for values in combinations)
    return [place for place in places if place]


def _holds(capacity: CsiStorageCapacity) -> int:
    """The largest possible volume, in nano-units."""
    amount = capacity.maximumVolumeSize or capacity.capacity
    return quantity.parse(amount) if amount else 0


def _spread(claim_name: str) -> int:
    """A hash that spreads claims. Mirrors getPVCNameHashAndIndexOffset, with its FNV-1."""
    set_name, dash, ordinal = claim_name.rpartition("-")
    numbered = bool(dash) and ordinal.isascii() and ordinal.isdigit()
    hashed = set_name.rpartition("-")[2] if numbered else claim_name
    number = 2166136261
    for byte in hashed.encode():
        number = (number * 16777619 & 0xFFFFFFFF) ^ byte
    return number + (int(ordinal) if numbered else 0)
