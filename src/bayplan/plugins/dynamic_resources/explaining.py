"""What would free devices for a pod."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.remedies import Remedy, delete_pods


def remedies(pod: PodInfo, node: NodeInfo) -> Iterator[Remedy]:
    """Delete pods with claims on the node: as few as may be enough, the least important ones first."""
    users = sorted(
        (other for other in node.pods if other.spec.resourceClaims),
        key=lambda other: (other.priority, sum(other.requested.values()), other.key),
    )
    for number in range(1, len(users) + 1):
        yield from delete_pods(pod, users[:number])
