"""QOSSort: sorts pods by priority, then by quality of service, then by the time at which they were queued.

Mirrors pkg/qos/queue_sort.go of scheduler-plugins.
"""

from __future__ import annotations

from bayplan.plugin import Plugin, PodInfo

_ORDER = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}


class QOSSort(Plugin):
    """Of pods with equal priorities, guaranteed ones come first, and best-effort ones last."""

    name = "QOSSort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, int, float]:
        """Return the key of a queued pod: the smallest key is popped first."""
        return -pod.priority, _ORDER.get(pod.qos_class, len(_ORDER)), queued_at
