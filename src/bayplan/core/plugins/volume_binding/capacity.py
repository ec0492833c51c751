"""Where a volume can be provisioned: the allowed topologies of its class, and the storage capacity of its driver.

Capacities are read as columns: for each node, the index of one that is sufficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from lightkube.models.core_v1 import PersistentVolumeClaim
from lightkube.models.storage_v1 import CSIStorageCapacity, StorageClass

from bayplan.core.api import quantity
from bayplan.core.api.labels import InvalidSelector, LabelSelector
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.api.selectors import label_selector
from bayplan.core.api.volumes import full_name, requested_storage
from bayplan.core.cluster.columns import Bool, Int32
from bayplan.core.cluster.node_selection import match_labels
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.objects import ObjectStore

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


class Planned:
    """The volumes that will be provisioned for the members of a gang that are placed already, by their capacity.

    Upstream checks each volume alone, so that more members may be placed than their driver can make volumes for.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, list[int]]] = {}
        """In bytes, by the keys of the capacity and of the claim: members that share a claim share its volume."""

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, capacity: CSIStorageCapacity, claim: PersistentVolumeClaim) -> None:
        """Add the volume of a claim."""
        size = quantity.value(requested_storage(claim) or 0)
        self._sizes.setdefault(full_name(capacity), {}).setdefault(full_name(claim), []).append(size)

    def remove(self, capacity: CSIStorageCapacity, claim: PersistentVolumeClaim) -> None:
        """Undo `add`."""
        claims = self._sizes[full_name(capacity)]
        claims[full_name(claim)].pop()
        if not claims[full_name(claim)]:
            del claims[full_name(claim)]
        if not claims:
            del self._sizes[full_name(capacity)]

    def leaves(self, capacity: CSIStorageCapacity, claim: PersistentVolumeClaim, size: int) -> bool:
        """Whether a capacity is sufficient for a claim of this size and the other claims. Without a total, it is."""
        others = self._sizes.get(full_name(capacity), {})
        used = sum(sizes[0] for key, sizes in others.items() if key != full_name(claim))
        return not used or capacity.capacity is None or total_bytes(capacity.capacity) - used >= size


class Capacities:
    """The storage capacity that CSI drivers publish. Mirrors hasEnoughCapacity."""

    def __init__(self, drivers: ObjectStore, capacities: ObjectStore) -> None:
        self._drivers = drivers
        self._by_class = capacities.view(_ByClass)

    def find(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, nodes: Nodes, planned: Planned | None
    ) -> tuple[list[CSIStorageCapacity], Int32]:
        """Sufficient capacities, and for each node (int32) the index of its capacity, NOT_TRACKED or NO_CAPACITY.

        `planned`: what is left of a capacity without these volumes.
        """
        wanted = requested_storage(claim)
        driver = self._drivers.get(storage_class.provisioner)
        if wanted is None or driver is None or not driver.spec.storageCapacity:
            return [], np.full(len(nodes), NOT_TRACKED, dtype=np.int32)
        name = storage_class.metadata.name if storage_class.metadata else None
        size = quantity.value(wanted)
        sufficient = [
            each
            for each in self._by_class.published(name)
            if each.limit >= size and (planned is None or planned.leaves(each.obj, claim, size))
        ]
        source = np.full(len(nodes), NO_CAPACITY, dtype=np.int32)
        for index, each in enumerate(sufficient):
            if each.selector is not None:
                source[(source == NO_CAPACITY) & match_labels(each.selector, nodes)] = index
        return [each.obj for each in sufficient], source

    def free(self, storage_class: str, nodes: Nodes) -> list[tuple[CSIStorageCapacity, int]]:
        """The capacities of a class that these nodes can access, with the size of the largest new volume in bytes."""
        return [
            (each.obj, each.limit)
            for each in self._by_class.published(storage_class)
            if each.selector is not None and match_labels(each.selector, nodes).any()
        ]


@dataclass(frozen=True, slots=True)
class _Published:
    """A capacity, its volume limit in bytes, and the nodes that can access it; None for an invalid selector."""

    obj: CSIStorageCapacity
    limit: int
    selector: LabelSelector | None


class _ByClass:
    """A view of the capacities that have a limit, by storage class."""

    def __init__(self, capacities: ObjectStore) -> None:
        self._by_class: dict[str, dict[str, _Published]] = {}
        """By class, then by key."""
        self._sorted: dict[str, list[_Published]] = {}
        """By class: the capacities in the order of their keys, for classes that were asked for since their change."""
        capacities.listen(self._changed)

    def published(self, storage_class: str | None) -> Sequence[_Published]:
        """The capacities of a class, in the order of their keys."""
        known = self._by_class.get(storage_class or "")
        if storage_class is None or known is None:
            return ()
        if storage_class not in self._sorted:
            self._sorted[storage_class] = [each for _, each in sorted(known.items(), key=itemgetter(0))]
        return self._sorted[storage_class]

    def _changed(self, before: CSIStorageCapacity | None, now: CSIStorageCapacity | None) -> None:
        if before is not None and (known := self._by_class.get(before.storageClassName)) is not None:
            known.pop(full_name(before), None)
            if not known:
                del self._by_class[before.storageClassName]
            self._sorted.pop(before.storageClassName, None)
        if now is not None and (limit := volume_limit(now)) is not None:
            published = _Published(now, limit, _selector(now))
            self._by_class.setdefault(now.storageClassName, {})[full_name(now)] = published
            self._sorted.pop(now.storageClassName, None)


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


def _selector(capacity: CSIStorageCapacity) -> LabelSelector | None:
    try:
        return label_selector(capacity.nodeTopology)
    except InvalidSelector:
        return None
