"""Where a volume can be provisioned: the allowed topologies of its class, and the storage capacity of its driver."""

from __future__ import annotations

import numpy as np
from lightkube.models.core_v1 import PersistentVolumeClaim
from lightkube.models.storage_v1 import CSIStorageCapacity, StorageClass

from bayplan.api import quantity
from bayplan.api.labels import InvalidSelector
from bayplan.api.quantity import InvalidQuantity
from bayplan.api.selectors import label_selector
from bayplan.api.volumes import requested_storage
from bayplan.cluster.columns import Bool, Int32
from bayplan.cluster.node_selection import match_labels
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.objects import ObjectStore

NOT_TRACKED = -1
"""The driver doesn't publish its capacity."""
NO_CAPACITY = -2
"""No published capacity is large enough."""


def topology_allowed(storage_class: StorageClass, nodes: Nodes) -> Bool:
    """The nodes in the allowed topologies of a class (bool, one per node). Mirrors MatchTopologySelectorTerms."""
    terms = storage_class.allowedTopologies or ()
    allowed = np.full(len(nodes), not terms, dtype=np.bool_)
    for term in terms:
        if term.matchLabelExpressions:
            matches = np.ones(len(nodes), dtype=np.bool_)
            for expression in term.matchLabelExpressions:
                matches &= nodes.label_in(expression.key, expression.values or ())
            allowed |= matches
    return allowed


class Capacities:
    """The storage capacity that CSI drivers publish. Mirrors hasEnoughCapacity."""

    def __init__(self, drivers: ObjectStore, capacities: ObjectStore) -> None:
        self._drivers = drivers
        self._capacities = capacities

    def find(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, nodes: Nodes
    ) -> tuple[list[CSIStorageCapacity], Int32]:
        """Sufficient capacities, and for each node (int32) the index of its capacity, NOT_TRACKED or NO_CAPACITY."""
        wanted = requested_storage(claim)
        driver = self._drivers.get(storage_class.provisioner)
        if wanted is None or driver is None or not driver.spec.storageCapacity:
            return [], np.full(len(nodes), NOT_TRACKED, dtype=np.int32)
        name = storage_class.metadata.name if storage_class.metadata else None
        size = quantity.value(wanted)
        sufficient = [
            each
            for _, each in sorted(self._capacities.items())
            if each.storageClassName == name and (limit := volume_limit(each)) is not None and limit >= size
        ]
        source = np.full(len(nodes), NO_CAPACITY, dtype=np.int32)
        for index, each in enumerate(sufficient):
            source[(source == NO_CAPACITY) & _accessible(each, nodes)] = index
        return sufficient, source


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The maximum size of a new volume in bytes: `maximumVolumeSize`, or else `capacity`; None if neither is set."""
    limit = capacity.maximumVolumeSize if capacity.maximumVolumeSize is not None else capacity.capacity
    return None if limit is None else total_bytes(limit)


def total_bytes(amount: str | None) -> int:
    """Whole bytes, rounded up; 0 for a malformed quantity."""
    try:
        return quantity.value(quantity.parse(amount)) if amount is not None else 0
    except InvalidQuantity:
        return 0


def _accessible(capacity: CSIStorageCapacity, nodes: Nodes) -> Bool:
    try:
        selector = label_selector(capacity.nodeTopology)
    except InvalidSelector:
        selector = None
    if selector is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    return match_labels(selector, nodes)
