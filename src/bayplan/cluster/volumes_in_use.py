"""Which pods on nodes have volumes that decisions depend on, and which claims they use.

Mirrors NodeInfo.PVCRefCounts and StorageInfoLister (pkg/scheduler/framework).
"""

from __future__ import annotations

from bayplan.cluster.columns import Bool
from bayplan.cluster.pod_info import PodInfo


class VolumesInUse:
    """Kept up to date as pods come and go. Most pods have no such volumes and cost nothing here."""

    def __init__(self) -> None:
        self.pods: dict[int, dict[str, PodInfo]] = {}
        """By row: the pods with volumes, by uid."""
        self._claims: dict[str, dict[int, int]] = {}
        """By claim (`namespace/name`): how often the pods of a row name it, by row."""

    def account(self, row: int, pod: PodInfo, sign: int) -> None:
        """A pod came to a row (1) or went from it (-1)."""
        if not pod.volumes:
            return
        if sign > 0:
            self.pods.setdefault(row, {})[pod.uid] = pod
        else:
            pods = self.pods[row]
            del pods[pod.uid]
            if not pods:
                del self.pods[row]
        for volume in pod.volumes:
            if volume.persistentVolumeClaim is not None:
                self._count(f"{pod.namespace}/{volume.persistentVolumeClaim.claimName}", row, sign)

    def replace(self, row: int, pod: PodInfo) -> None:
        """A pod of the row has a newer value, with the same volumes."""
        if pod.volumes:
            self.pods[row][pod.uid] = pod

    def claimed(self, claim: str, live: Bool) -> bool:
        """Whether a pod on a live row names the claim (`namespace/name`)."""
        return any(live[row] for row in self._claims.get(claim, ()))

    def _count(self, claim: str, row: int, sign: int) -> None:
        rows = self._claims.setdefault(claim, {})
        rows[row] = rows.get(row, 0) + sign
        if not rows[row]:
            del rows[row]
            if not rows:
                del self._claims[claim]
