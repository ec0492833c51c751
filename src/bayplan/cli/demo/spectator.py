"""What can be seen of the demo's pods over the API, and when it was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bayplan.api.kinds import POD
from bayplan.client import Client, Reflector
from bayplan.cluster.pod_info import PodInfo


class Spectator:
    """Watches all pods, as `kubectl get pods -w` does; `seen` is called after every change."""

    def __init__(self, client: Client, seen: Callable[[], None]) -> None:
        self._reflector: Reflector[PodInfo] = Reflector(client, POD, self, decode=PodInfo.from_raw)
        self._seen = seen
        self._created_at: dict[str, float] = {}
        """When each pod was seen first, by uid: seconds of a monotonic clock. So is when it was seen bound."""
        self._bound_at: dict[str, float] = {}
        self.placed: list[PodInfo] = []
        """Every pod that was bound, in that order, also if it is gone."""

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods as they are."""
        return self._reflector.store

    def of(self, workload: str) -> list[PodInfo]:
        """The pods of a workload that were bound, also those that are gone."""
        return [pod for pod in self.placed if workload_of(pod) == workload]

    def waiting(self) -> list[tuple[PodInfo, str]]:
        """The pods that have no node, with the reason for which they wait; "" if it is not known yet."""
        return [(pod, _reason(pod)) for pod in self.pods.values() if not pod.node_name]

    def latencies(self) -> list[float]:
        """Seconds from creation to binding of every pod that was bound, as seen from here."""
        return [bound - self._created_at[uid] for uid, bound in self._bound_at.items()]

    def added(self, new: PodInfo) -> None:
        """See client.Handler."""
        self._created_at[new.uid] = time.monotonic()
        self._note(new)

    def updated(self, old: PodInfo, new: PodInfo) -> None:
        """See client.Handler."""
        self._note(new)

    def deleted(self, old: PodInfo) -> None:
        """See client.Handler."""
        self._seen()

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """See client.Handler."""
        raise error

    def _note(self, pod: PodInfo) -> None:
        if pod.node_name and pod.uid not in self._bound_at:
            self._bound_at[pod.uid] = time.monotonic()
            self.placed.append(pod)
        self._seen()


def workload_of(pod: PodInfo) -> str:
    """What the pod belongs to."""
    return pod.labels.get("app") or pod.name


def _reason(pod: PodInfo) -> str:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason or ""
    return ""
