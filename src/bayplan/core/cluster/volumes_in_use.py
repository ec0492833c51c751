"""The pods on nodes that have volumes which affect scheduling, and the claims that they use.

Pods with volumes are indexed by row, and claims with the rows that use them; other pods cost nothing here. Each row
knows the claims, volumes and classes that its numbers depend on, so an event updates only the rows that use its object.
Mirrors NodeInfo.PVCRefCounts and StorageInfoLister (pkg/scheduler/framework).
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api.volumes import claim_name
from bayplan.core.cluster.columns import Bool
from bayplan.core.cluster.pod_info import PodInfo


class VolumesInUse:
    """An index of pods and claims by row. Most pods have no such volumes, and cost nothing here."""

    def __init__(self) -> None:
        self.pods: dict[int, dict[str, PodInfo]] = {}
        """By row: the pods with volumes, by UID."""
        self._claims: dict[str, dict[int, int]] = {}
        """By claim (`namespace/name`): the number of references by the pods of each row."""

    def account(self, row: int, pod: PodInfo, by: int) -> None:
        """Count a pod that was added to a row (`by` 1), or removed from it (-1)."""
        if not pod.volumes:
            return
        if by > 0:
            self.pods.setdefault(row, {})[pod.uid] = pod
        else:
            pods = self.pods[row]
            del pods[pod.uid]
            if not pods:
                del self.pods[row]
        for volume in pod.volumes:
            if volume.persistentVolumeClaim is not None:
                self._count(f"{pod.namespace}/{volume.persistentVolumeClaim.claimName}", row, by)

    def replace(self, row: int, pod: PodInfo) -> None:
        """Replace a pod of the row by a newer version with the same volumes."""
        if pod.volumes:
            self.pods[row][pod.uid] = pod

    def claimed(self, claim: str, live: Bool) -> bool:
        """Return whether a pod on a live row uses the claim (`namespace/name`)."""
        return any(live[row] for row in self._claims.get(claim, ()))

    def users(self, claim: str) -> Iterator[PodInfo]:
        """Yield the pods on nodes that use the claim (`namespace/name`)."""
        for row in self._claims.get(claim, ()):
            for pod in self.pods.get(row, {}).values():
                if any(claim == f"{pod.namespace}/{claim_name(pod.name, volume)}" for volume in pod.volumes):
                    yield pod

    def _count(self, claim: str, row: int, by: int) -> None:
        rows = self._claims.setdefault(claim, {})
        rows[row] = rows.get(row, 0) + by
        if not rows[row]:
            del rows[row]
            if not rows:
                del self._claims[claim]
