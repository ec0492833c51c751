"""The pods on nodes that take resources of them through claims for devices.

Mirrors NodeInfo.NodeAllocatableDRAClaimStates (pkg/scheduler/framework/types.go).
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.core.cluster.pod_info import PodInfo

_NONE: Mapping[str, int] = {}


class ClaimsInUse:
    """An index of pods by claim. Most pods take nothing through claims, and cost nothing here."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, int]] = {}
        """By claim (`namespace/name`): the rows of the pods, by UID."""

    def account(self, row: int, pod: PodInfo, by: int) -> None:
        """Count a pod that was added to a row (`by` 1), or removed from it (-1)."""
        if not pod.counted_claims:
            return
        for claim in {f"{pod.namespace}/{name}" for name in pod.counted_claims}:
            if by > 0:
                self._users.setdefault(claim, {})[pod.uid] = row
                continue
            users = self._users[claim]
            del users[pod.uid]
            if not users:
                del self._users[claim]

    def users(self, claim: str) -> Mapping[str, int]:
        """The rows of the pods that take resources through a claim (`namespace/name`), by UID."""
        return self._users.get(claim, _NONE)
