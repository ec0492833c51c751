"""Scores nodes by the utilization of their volumes. Mirrors volumebinding/scorer.go, for all nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayplan.core.api import quantity
from bayplan.core.api.volumes import capacity, class_of_claim, requested_storage
from bayplan.core.cluster.columns import Bool, Int32, Int64
from bayplan.core.plugins.volume_binding.capacity import total_bytes
from bayplan.core.plugins.volume_binding.search import Found


@dataclass(slots=True)
class _ClassUse:
    """What a pod requests of a storage class on each node, and what is there: bytes, one per node."""

    present: Bool
    requested: Int64
    available: Int64

    @classmethod
    def nothing(cls, count: int) -> Self:
        """On `count` nodes."""
        numbers = np.zeros((2, count), dtype=np.int64)
        return cls(np.zeros(count, dtype=np.bool_), numbers[0], numbers[1])


def scores(found: Found, curve: Int64) -> Int64:
    """The mean of the classes' scores, 0 to 100 (int64, one per node); 0 where no class counts.

    `curve` (int64, shape (101,)) is the score by percent of utilization. Provisioned volumes count only on nodes where
    no existing volume is bound.
    """
    count = len(found.reasons)
    used: dict[str, _ClassUse] = {}
    static = np.zeros(count, dtype=np.bool_)
    for claim, volumes, choice in found.bindings:
        chosen = choice >= 0
        static |= chosen
        sizes = np.array([quantity.value(capacity(volume)) for volume in volumes], dtype=np.int64)
        names = [(volume.spec.storageClassName if volume.spec else None) or "" for volume in volumes]
        for name in dict.fromkeys(names):
            where = chosen & _among(choice, [each == name for each in names])
            use = used.setdefault(name, _ClassUse.nothing(count))
            use.present |= where
            use.requested[where] += quantity.value(requested_storage(claim) or 0)
            use.available[where] += sizes[choice[where]]
    for claim, wanted, capacities, source in found.provisions:
        where = wanted & ~static & (source >= 0)
        if where.any():
            sizes = np.array([total_bytes(each.capacity) for each in capacities], dtype=np.int64)
            use = used.setdefault(class_of_claim(claim), _ClassUse.nothing(count))
            use.present |= where
            use.requested[where] += quantity.value(requested_storage(claim) or 0)
            use.available[where] = sizes[source[where]]  # claims of one class share its capacity
    return _mean(list(used.values()), curve, count)


def _among(choice: Int32, chosen: list[bool]) -> Bool:
    """Where the chosen volume is one of some; the last one stands for no choice."""
    mask: Bool = np.array([*chosen, False], dtype=np.bool_)[choice]
    return mask


def _mean(uses: list[_ClassUse], curve: Int64, count: int) -> Int64:
    total, number = np.zeros((2, count), dtype=np.int64)
    for use in uses:
        full = (use.available == 0) | (use.requested > use.available)
        percent = use.requested * 100 // np.where(full, 1, use.available)  # wraps around as an int64 does in Go
        total += np.where(use.present, curve[np.where(full, 100, np.clip(percent, 0, 100))], 0)
        number += use.present
    return np.where(number > 0, (2 * total + number) // np.maximum(2 * number, 1), 0)  # rounded, half up
