"""Where a volume could be made: the topologies that its class allows, and the room that its driver tells of."""

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

NOT_ASKED = -1
NOWHERE = -2


def topology_allowed(storage_class: StorageClass, nodes: Nodes) -> Bool:
    """On which nodes a class lets volumes be made. Mirrors MatchTopologySelectorTerms. Bool, one a node."""
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
    """What CSI drivers tell of the room that they have. Mirrors hasEnoughCapacity."""

    def __init__(self, drivers: ObjectStore, capacities: ObjectStore) -> None:
        self._drivers = drivers
        self._capacities = capacities

    def find(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, nodes: Nodes
    ) -> tuple[list[CSIStorageCapacity], Int32]:
        """Capacities, and which of them has room for the claim on each node.

        NOT_ASKED where the driver tells of none, NOWHERE where none has room.
        """
        wanted = requested_storage(claim)
        driver = self._drivers.get(storage_class.provisioner)
        if wanted is None or driver is None or not driver.spec.storageCapacity:
            return [], np.full(len(nodes), NOT_ASKED, dtype=np.int32)
        name = storage_class.metadata.name if storage_class.metadata else None
        size = quantity.value(wanted)
        roomy = [
            each
            for _, each in sorted(self._capacities.items())
            if each.storageClassName == name and (limit := volume_limit(each)) is not None and limit >= size
        ]
        source = np.full(len(nodes), NOWHERE, dtype=np.int32)
        for index, each in enumerate(roomy):
            source[(source == NOWHERE) & _reachable(each, nodes)] = index
        return roomy, source


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The size of the largest volume that can be made, in bytes: what the driver says of it, or else all it has."""
    told = capacity.maximumVolumeSize if capacity.maximumVolumeSize is not None else capacity.capacity
    return None if told is None else total_bytes(told)


def total_bytes(amount: str | None) -> int:
    """Whole bytes, rounded up; 0 for what cannot be read."""
    try:
        return quantity.value(quantity.parse(amount)) if amount is not None else 0
    except InvalidQuantity:
        return 0


def _reachable(capacity: CSIStorageCapacity, nodes: Nodes) -> Bool:
    try:
        selector = label_selector(capacity.nodeTopology)
    except InvalidSelector:
        selector = None
    if selector is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    return match_labels(selector, nodes)
