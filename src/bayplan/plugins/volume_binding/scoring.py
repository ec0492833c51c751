"""Scores nodes by the utilization of their volumes. Mirrors volumebinding/scorer.go."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayplan.api import quantity
from bayplan.api.volumes import capacity, class_of_claim, requested_storage
from bayplan.cluster.columns import Int64
from bayplan.plugins.volume_binding.capacity import total_bytes
from bayplan.plugins.volume_binding.search import PodVolumes


def score(volumes: PodVolumes, curve: Int64) -> int:
    """The mean of the classes' scores, 0 to 100. `curve` (int64, shape (101,)) is the score by percent of utilization.

    Provisioned volumes count only if no existing volume is bound.
    """
    used: dict[str, tuple[int, int]] = {}
    if volumes.bindings:
        for binding in volumes.bindings:
            spec = binding.volume.spec
            name = (spec.storageClassName if spec else None) or ""
            requested, available = used.get(name, (0, 0))
            wanted = quantity.value(requested_storage(binding.claim) or 0)
            used[name] = requested + wanted, available + quantity.value(capacity(binding.volume))
    else:
        for provision in volumes.provisions:
            if provision.capacity is not None:
                # Claims of one class share its capacity.
                name = class_of_claim(provision.claim)
                wanted = quantity.value(requested_storage(provision.claim) or 0)
                used[name] = used.get(name, (0, 0))[0] + wanted, total_bytes(provision.capacity.capacity)
    return _mean([_at(curve, requested, available) for requested, available in used.values()])


def _at(curve: Int64, requested: int, available: int) -> int:
    return int(curve[100 if available == 0 or requested > available else requested * 100 // available])


def _mean(scores: Sequence[int]) -> int:
    return math.floor(sum(scores) / len(scores) + 0.5) if scores else 0
