"""Watches the pods of the demo over the API, with timestamps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.running.client.client import Client
from bayplan.running.client.reflector import Reflector


class PodWatcher:
    """Watches all pods, like `kubectl get pods -w`. Calls `changed` after every change."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._reflector: Reflector[PodInfo] = Reflector(client, POD, self, decode=PodInfo.from_raw)
        self._changed = changed
        self._created_at: dict[str, float] = {}
        """uid of a pod -> when it was first seen, in seconds of a monotonic clock"""
        self._bound_at: dict[str, float] = {}
        """uid of a pod -> when it was first seen bound"""
        self.placed: list[PodInfo] = []
        """All pods that were bound, in that order, including deleted ones."""

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The current pods."""
        return self._reflector.store

    def of(self, workload: str) -> list[PodInfo]:
        """The pods of a workload that were bound, including deleted ones."""
        return [pod for pod in self.placed if workload_of(pod) == workload]

    def pending(self) -> list[tuple[PodInfo, str]]:
        """The pods without a node, with the reasons; "" if a reason isn't known yet."""
        return [(pod, _reason(pod)) for pod in self.pods.values() if not pod.node_name]

    def latencies(self) -> list[float]:
        """The observed seconds from creation to binding of each bound pod."""
        return [bound - self._created_at[uid] for uid, bound in self._bound_at.items()]

    def added(self, new: PodInfo) -> None:
        """Note when a pod was created, and whether it has a node."""
        self._created_at[new.uid] = time.monotonic()
        self._note(new)

    def updated(self, old: PodInfo, new: PodInfo) -> None:
        """Note when a pod got its node."""
        self._note(new)

    def deleted(self, old: PodInfo) -> None:
        """Tell that something has changed."""
        self._changed()

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Fail: the demo's pods can be decoded."""
        raise error

    def _note(self, pod: PodInfo) -> None:
        if pod.node_name and pod.uid not in self._bound_at:
            self._bound_at[pod.uid] = time.monotonic()
            self.placed.append(pod)
        self._changed()


def workload_of(pod: PodInfo) -> str:
    """The workload that the pod belongs to."""
    return pod.labels.get("app") or pod.name


def _reason(pod: PodInfo) -> str:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason or ""
    return ""
