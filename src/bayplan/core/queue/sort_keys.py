"""The order of the queue: the sort key of an entry, from the QueueSort plugin.

A key that fails or can't be compared puts its pod last, so that one odd pod doesn't stop the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import PluginError
from bayplan.core.queue.queued_pod import Entry
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_pod


def sort_key_of(
    of_pod: Callable[[PodInfo, float], Any],
    failures: Failures,
    since: Callable[[Any], float] = lambda entry: entry.queued_at,
) -> Callable[[Entry], Any]:
    """Return the sort key of the queue. `since`: the time by which entries are sorted.

    If the QueueSort plugin fails for a pod, or its key cannot be compared with the first key, the pod is sorted last,
    and the failure is recorded in `failures`.
    """
    name = str(getattr(getattr(of_pod, "__self__", None), "name", "QueueSort"))
    first: dict[str, Any] = {}

    def sort_key(queued: Entry) -> Any:
        try:
            key = of_pod(queued.pod, since(queued))
            min(key, first.get("key", key))  # raises for keys that cannot be compared
            first.setdefault("key", key)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is its own error
            PluginError.of(name, "QueueSort", error).record(failures, f"pod {about_pod(queued.pod)}")
            return 1, since(queued)
        return 0, key

    return sort_key
