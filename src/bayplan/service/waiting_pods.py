"""Pods that wait in Permit until all plugins allow them, one rejects them, or a timeout ends.

Mirrors pkg/scheduler/framework/runtime/waiting_pods_map.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.status import Code, Status


class WaitingPod:
    """A pod that waits for one or more plugins."""

    def __init__(self, pod: PodInfo, waits: Mapping[str, float]) -> None:
        """`waits`: the timeout of each plugin, in seconds."""
        loop = asyncio.get_running_loop()
        self.pod = pod
        self._verdict: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(seconds, self._time_out, plugin, seconds) for plugin, seconds in waits.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return sorted(self._timers)

    def allow(self, plugin: str) -> None:
        """Allow the pod in the name of a plugin. Once all plugins have, the pod is bound."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(Status(Code.SUCCESS))

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod in the name of a plugin. The first call of `reject`, or the last `allow`, decides."""
        self._decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Reject the pod because another pod needs its room; it is retried. Returns False if it is already decided."""
        return self._decide(Status(Code.ERROR, (message,), plugin))

    async def verdict(self) -> Status:
        """Wait until the pod is allowed or rejected."""
        try:
            return await self._verdict
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def _time_out(self, plugin: str, seconds: float) -> None:
        self.reject(plugin, f"rejected due to timeout after waiting {seconds:g}s at plugin {plugin}")

    def _decide(self, status: Status) -> bool:
        if self._verdict.done():
            return False
        self._verdict.set_result(status)
        return True


class WaitingPods:
    """The pods that wait in Permit, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: PodInfo, waits: Mapping[str, float]) -> WaitingPod:
        """Let a pod wait. `waits`: as in WaitingPod."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, waits)
        return waiting

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this uid."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
