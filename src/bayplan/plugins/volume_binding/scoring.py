"""How well volumes use the room that there is: nodes are liked by a curve of it. Mirrors volumebinding/scorer.go."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayplan.api import quantity
from bayplan.api.volumes import capacity, class_of_claim, requested_storage
from bayplan.cluster.columns import Int64
from bayplan.plugins.volume_binding.capacity import total_bytes
from bayplan.plugins.volume_binding.search import PodVolumes


def score(volumes: PodVolumes, curve: Int64) -> int:
    """0 to 100: the mean, over storage classes, of the curve at the percentage of the room that would be used.

    Volumes that are there go before those that would be made. `curve`: int64, shape (101,).
    """
    used: dict[str, tuple[int, int]] = {}
    if volumes.bindings:
        for binding in volumes.bindings:
            spec = binding.volume.spec
            name = (spec.storageClassName if spec else None) or ""
            requested, room = used.get(name, (0, 0))
            wanted = quantity.value(requested_storage(binding.claim) or 0)
            used[name] = requested + wanted, room + quantity.value(capacity(binding.volume))
    else:
        for provision in volumes.provisions:
            if provision.capacity is not None:
                # Claims of one class share the room that it has.
                name = class_of_claim(provision.claim)
                wanted = quantity.value(requested_storage(provision.claim) or 0)
                used[name] = used.get(name, (0, 0))[0] + wanted, total_bytes(provision.capacity.capacity)
    return _mean([_at(curve, requested, room) for requested, room in used.values()])


def _at(curve: Int64, requested: int, room: int) -> int:
    return int(curve[100 if room == 0 or requested > room else requested * 100 // room])


def _mean(scores: Sequence[int]) -> int:
    return math.floor(sum(scores) / len(scores) + 0.5) if scores else 0
