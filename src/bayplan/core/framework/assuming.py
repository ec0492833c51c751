"""The form in which a pod is assumed on a node: a plugin may let it count for more than its spec requests.

DynamicResources does, for devices that take a part of their node's own resources. To let a pod count for more, put a
function into `CycleState.data`; once the pod is bound, `bayplan.core.api.requests` counts what its status says.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import CycleState

ASSUMED_AS = "assumed as"
"""The key in `CycleState.data` of a function of a pod and a node's name that returns the pod as it counts there.

It is called before Reserve. Mirrors assume in pkg/scheduler/schedule_one.go.
"""


def assumed_as(cycle: CycleState, pod: PodInfo, node_name: str) -> PodInfo:
    """The pod as it counts on a node from the time on when it is assumed there."""
    counts: Callable[[PodInfo, str], PodInfo] | None = cycle.data.get(ASSUMED_AS)
    return pod if counts is None else counts(pod, node_name)
