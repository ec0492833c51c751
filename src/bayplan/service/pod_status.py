"""Writes the status of pending pods: the PodScheduled condition and the nominated node.

Mirrors updatePod in pkg/scheduler/schedule_one.go. A newer status of a pod replaces an older one that is not written
yet, and is retried until the API server accepts it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.kinds import POD
from bayplan.api.times import rfc3339
from bayplan.client import ApiError, Client, PatchType, TransportError
from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.log_fields import about_pod

log = logging.getLogger(__name__)

_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class _Request:
    """A running patch request: whether to retry it if it fails, and when it has ended."""

    wanted: bool = True
    over: asyncio.Event = field(default_factory=asyncio.Event)


class PodStatusWriter:
    """Keeps the status of pending pods up to date. `run` writes; until it runs, patches are queued."""

    def __init__(self, client: Client, clock: Clock, *, writers: int = 4) -> None:
        self._client = client
        self._clock = clock
        self._writers = writers
        self._patches: dict[str, tuple[PodInfo, dict[str, Any]]] = {}
        """The patches to write, by pod uid."""
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing: set[str] = set()
        self._requests: dict[str, _Request] = {}
        """The running requests, by pod uid."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        """Write why a pod is pending and its nominated node (None: no change), unless its status has both already."""
        status: dict[str, Any] = {}
        condition = self._changed_condition(pod, reason, message)
        if condition is not None:
            status["conditions"] = [condition]
        if nominated_node is not None and nominated_node != pod.nominated_node_name:
            status["nominatedNodeName"] = nominated_node or None
        if status:
            self._patch(pod, status)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Write the node that a pod is being bound to, while its binding takes long."""
        if node_name != pod.nominated_node_name:
            self._patch(pod, {"nominatedNodeName": node_name or None})

    def clear_nomination(self, pod: PodInfo) -> None:
        """Clear a nomination, even one that the watch has not reported yet."""
        self._patch(pod, {"nominatedNodeName": None})

    def forget(self, uid: str) -> None:
        """Write nothing more about a pod that is gone or bound."""
        self._patches.pop(uid, None)
        if (request := self._requests.get(uid)) is not None:
            request.wanted = False

    async def withdraw(self, uid: str) -> None:
        """Write nothing more about a pod that is about to be bound, and wait for a running request.

        A reason for waiting that arrived after the binding would overwrite the condition that it sets.
        """
        self.forget(uid)
        if (request := self._requests.get(uid)) is not None:
            await request.over.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._writers):
                tasks.create_task(self._write(), name=f"status-writer-{number}")

    async def drain(self, seconds: float) -> None:
        """Wait until everything is written, at most so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("the status of %d pods was not written in time", len(self._patches))

    def _changed_condition(self, pod: PodInfo, reason: str, message: str) -> dict[str, Any] | None:
        generation = pod.metadata.generation
        old = next((c for c in pod.status.conditions or () if c.type == "PodScheduled"), None)
        if old is not None and (old.status, old.reason, old.message, old.observedGeneration) == (
            "False",
            reason,
            message,
            generation,
        ):
            return None
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
        }
        if generation is not None:
            condition["observedGeneration"] = generation
        if old is None or old.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.now())
        return condition

    def _patch(self, pod: PodInfo, status: dict[str, Any]) -> None:
        waiting = self._patches.get(pod.uid)
        self._patches[pod.uid] = (pod, status if waiting is None else {**waiting[1], **status})
        if waiting is None and pod.uid not in self._writing:
            self._due.put_nowait(pod.uid)
        self._idle.clear()

    async def _write(self) -> None:
        while True:
            uid = await self._due.get()
            self._writing.add(uid)  # one writer per pod, so that its patches arrive in order
            try:
                await self._write_newest(uid)
            finally:
                self._writing.discard(uid)
                if not self._patches and not self._writing:
                    self._idle.set()

    async def _write_newest(self, uid: str) -> None:
        attempt = 0
        while (waiting := self._patches.pop(uid, None)) is not None:
            pod, status = waiting
            patch = {"metadata": {"uid": pod.uid}, "status": status}
            delay = _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]
            request = self._requests[uid] = _Request()
            try:
                await self._client.patch(
                    POD, pod.name, patch, pod.namespace, type=PatchType.STRATEGIC, subresource="status"
                )
                continue
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    if error.status not in {404, 409}:  # the pod is gone, or another one has its name
                        log.warning("the API server refused the status of pod %s: %s", about_pod(pod), error)
                    continue
                delay = error.retry_after or delay
            except TransportError as error:
                log.debug("the status of pod %s could not be written yet: %s", about_pod(pod), error)
            finally:
                del self._requests[uid]
                request.over.set()
            if not request.wanted:
                continue
            newer = self._patches.get(uid)
            self._patches[uid] = waiting if newer is None else (newer[0], {**status, **newer[1]})
            await asyncio.sleep(delay)
            attempt += 1
