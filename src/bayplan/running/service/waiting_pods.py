"""Pods that wait in Permit on the event loop, until their plugins have decided or a timeout ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import Status
from bayplan.core.framework.waiting_pods import PodInPermit, PodsInPermit


class AwaitedPod(PodInPermit):
    """A waiting pod with running timeouts."""

    def __init__(self, pod: PodInfo, waits: Mapping[str, float]) -> None:
        """`waits`: the timeout of each plugin, in seconds."""
        super().__init__(pod, waits)
        loop = asyncio.get_running_loop()
        self._decided: asyncio.Future[Status] = loop.create_future()
        self._timers = [loop.call_later(seconds, self.time_out, plugin) for plugin, seconds in waits.items()]

    async def verdict(self) -> Status:
        """Wait until the pod is allowed or rejected."""
        try:
            return await self._decided
        finally:
            for timer in self._timers:
                timer.cancel()

    def decide(self, status: Status) -> bool:
        """Set the status and wake `verdict`. Returns False if there is a status already."""
        if self._decided.done() or not super().decide(status):
            return False
        self._decided.set_result(status)
        return True


AwaitedPods = PodsInPermit[AwaitedPod]
