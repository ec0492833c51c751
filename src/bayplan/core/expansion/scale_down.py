"""Which pods of a workload go first, if it has too many. Mirrors ActivePodsWithRanks (pkg/controller)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from bayplan.core.api.served import Pod
from bayplan.core.expansion import pods

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def scale_down_order(candidates: Sequence[Any], related: Iterable[Any]) -> list[Any]:
    """The candidates, pods of any source, in the order of their deletion.

    The order is: unassigned, pending, not ready, low deletion cost (an annotation), on a node with many `related` pods,
    recently ready, many restarts, recently created. Upstream compares the two times on a logarithmic scale; this
    function compares them directly.
    """
    crowd = Counter(pod.spec.nodeName for pod in related if pods.is_active(pod) and pods.is_ready(pod))

    def rank(pod: Pod) -> tuple[Any, ...]:
        ready = pods.is_ready(pod)
        return (
            bool(pod.spec.nodeName),
            _PHASES.get(pods.phase(pod), 0),
            ready,
            _deletion_cost(pod),
            -crowd[pod.spec.nodeName],
            -((pods.ready_since(pod) or _LONG_AGO) - _LONG_AGO).total_seconds() if ready else 0,
            -max((one.restartCount for one in (pod.status and pod.status.containerStatuses) or ()), default=0),
            -((pod.metadata.creationTimestamp or _LONG_AGO) - _LONG_AGO).total_seconds(),
            pod.metadata.uid or "",
        )

    return sorted(candidates, key=rank)


def _deletion_cost(pod: Pod) -> int:
    try:
        return int((pod.metadata.annotations or {}).get(DELETION_COST, "0"))
    except ValueError:
        return 0
