"""Writes the status of pending pods: the PodScheduled condition and the nominated node.

The latest value wins: it replaces an older one that is not written yet, and it is retried until the API server accepts
it. It is compared with the value that was sent last, until the watch has reported that one. Mirrors updatePod in
pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.clock import Clock
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_pod
from bayplan.running.client.client import Client, PatchType
from bayplan.running.client.errors import ApiError, ConfigError, InvalidNameError, TransportError

log = logging.getLogger(__name__)

_WRITERS = 4
_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)
_CONDITION, _NOMINATION = "conditions", "nominatedNodeName"
_UNKNOWN = object()
"""The value of a field after a write with an unknown outcome. It differs from every value."""


class _NotScheduled(NamedTuple):
    """The condition of a pod that is not scheduled."""

    reason: str
    message: str
    generation: int | None


@dataclass(slots=True)
class _Status:
    """The status of a pod as far as this writer changes it. Values are by field."""

    pod: PodInfo
    wanted: dict[str, Any] = field(default_factory=dict)
    """The values to write."""
    sent: dict[str, Any] = field(default_factory=dict)
    """The values that were sent last, until the watch has reported them."""
    version: str = ""
    """The pod's resource version with the values that were sent; "" until the API server has replied."""
    failures: int = 0
    """How often the current write has failed."""
    queued: bool = False
    """Whether a write is due, running, or waits for a retry."""
    retry: asyncio.TimerHandle | None = None
    running: asyncio.Event | None = None
    """Set when the running request has ended; None if none is running."""
    dropped: bool = False
    """Whether the running request is not to be retried."""
    forgotten: bool = False

    def current(self, pod: PodInfo) -> dict[str, Any]:
        """The values that the API server has, or will have after the running request.

        The cached pod counts only if it is at least as new as the last write.
        """
        if self.version and _reaches(pod.resource_version, self.version):
            self.sent.clear()
            self.version = ""
        return {_CONDITION: _reported(pod), _NOMINATION: pod.nominated_node_name, **self.sent}


class PodStatusWriter:
    """Keeps the status of pending pods up to date. `run` writes; until it runs, values are queued."""

    def __init__(self, client: Client, clock: Clock, failures: Failures | None = None) -> None:
        self._client = client
        self._clock = clock
        self._failures = failures or Failures()
        self._statuses: dict[str, _Status] = {}
        """By pod uid: the pending pods whose status was written or is queued."""
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        """Write why a pod is pending and its nominated node (None: no change), unless its status has both already."""
        values: dict[str, Any] = {_CONDITION: _NotScheduled(reason, message, pod.metadata.generation)}
        if nominated_node is not None:
            values[_NOMINATION] = nominated_node
        self._want(pod, values)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Write the node that a pod is being bound to, while its binding takes long."""
        self._want(pod, {_NOMINATION: node_name})

    def clear_nomination(self, pod: PodInfo) -> None:
        """Clear a nomination, even one that the watch has not reported yet."""
        self._want(pod, {_NOMINATION: ""}, always=True)

    def forget(self, uid: str) -> None:
        """Write nothing more about a deleted or bound pod."""
        status = self._statuses.get(uid)
        if status is not None:
            status.forgotten = True
            self._drop(uid, status)

    async def withdraw(self, uid: str) -> None:
        """Write nothing more about a pod that is about to be bound, and wait for a running request.

        A reason for waiting that arrived after the binding would overwrite the condition that it sets.
        """
        status = self._statuses.get(uid)
        if status is not None:
            self._drop(uid, status)
            if status.running is not None:
                await status.running.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(_WRITERS):
                tasks.create_task(self._write_all(), name=f"status-writer-{number}")

    async def drain(self, seconds: float) -> None:
        """Wait until everything is written, for at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("the status of %d pods was not written in time", self._unfinished)

    def _want(self, pod: PodInfo, values: dict[str, Any], *, always: bool = False) -> None:
        """Write the values that differ from the last ones; `always`: write all."""
        status = self._statuses.get(pod.uid)
        if status is None:
            status = self._statuses[pod.uid] = _Status(pod)
        status.pod, status.dropped, status.forgotten = pod, False, False
        current = status.current(pod)
        for name, value in values.items():
            if always or current[name] != value:
                status.wanted[name] = value
            else:
                status.wanted.pop(name, None)
        if status.wanted and not status.queued:
            self._begin(pod.uid, status)
        self._discard_if_needless(pod.uid, status)

    def _drop(self, uid: str, status: _Status) -> None:
        status.wanted.clear()
        status.dropped = True
        if status.retry is not None:
            status.retry.cancel()
            self._end(status)
        self._discard_if_needless(uid, status)

    def _discard_if_needless(self, uid: str, status: _Status) -> None:
        if not status.queued and (status.forgotten or not status.sent):
            self._statuses.pop(uid, None)

    def _begin(self, uid: str, status: _Status) -> None:
        status.queued = True
        self._unfinished += 1
        self._idle.clear()
        self._due.put_nowait(uid)

    def _end(self, status: _Status) -> None:
        status.queued, status.retry, status.failures = False, None, 0
        self._unfinished -= 1
        if not self._unfinished:
            self._idle.set()

    async def _write_all(self) -> None:
        while True:
            uid = await self._due.get()
            status = self._statuses[uid]
            delay = None
            try:
                while status.wanted and delay is None:  # one writer per pod, so that its patches arrive in order
                    delay = await self._write(status)
            finally:
                if delay is None:
                    self._end(status)
                else:
                    status.retry = asyncio.get_running_loop().call_later(delay, self._retry, uid, status)
                self._discard_if_needless(uid, status)

    def _retry(self, uid: str, status: _Status) -> None:
        status.retry = None
        self._due.put_nowait(uid)

    async def _write(self, status: _Status) -> float | None:
        """Write the wanted values. Returns the seconds until a retry, None for no retry."""
        pod, values = status.pod, status.wanted
        patch = self._patch(status)
        delay = _RETRY_SECONDS[min(status.failures, len(_RETRY_SECONDS) - 1)]
        status.current(pod)  # forgets what the watch has reported
        status.sent.update(values)
        status.wanted, status.version = {}, ""
        running = status.running = asyncio.Event()
        again = False
        try:
            status.version = _version(await patch_status(self._client, pod, patch))
            status.failures = 0
            return None
        except ApiError as error:
            if error.status >= 500 or error.status == 429:
                again, delay = True, error.retry_after or delay
            elif error.status not in {404, 409}:  # the pod was deleted, perhaps recreated
                log.warning("the API server refused the status of pod %s: %s", about_pod(pod), error)
        except (TransportError, ConfigError) as error:
            again = True
            log.debug("the status of pod %s could not be written yet: %s", about_pod(pod), error)
        except Exception as error:  # noqa: BLE001 - it is recorded; it must not stop the other writes
            expected = isinstance(error, UndecodableObject | InvalidNameError)
            self._failures.record("writing the status of a pod", error, f"pod {about_pod(pod)}", expected=expected)
        finally:
            status.running = None
            running.set()
        status.sent.update(dict.fromkeys(values, _UNKNOWN))
        if not again or status.dropped:
            return None
        status.failures += 1
        status.wanted = {**values, **status.wanted}
        return delay

    def _patch(self, status: _Status) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        wanted: _NotScheduled | None = status.wanted.get(_CONDITION)
        if wanted is not None:
            known = isinstance(status.current(status.pod)[_CONDITION], _NotScheduled)
            patch[_CONDITION] = [pod_condition("PodScheduled", "False", *wanted, None if known else self._clock.now())]
        if _NOMINATION in status.wanted:
            patch[_NOMINATION] = status.wanted[_NOMINATION] or None
        return patch


async def patch_status(client: Client, pod: PodInfo, status: dict[str, Any]) -> Any:
    """Change parts of a pod's status, unless another pod has its name. Returns the reply. Raises as `Client.patch`."""
    patch = {"metadata": {"uid": pod.uid}, "status": status}
    return await client.patch(POD, pod.name, patch, pod.namespace, type=PatchType.STRATEGIC, subresource="status")


def pod_condition(
    kind: str, status: str, reason: str, message: str, generation: int | None, changed: datetime | None
) -> dict[str, Any]:
    """A condition of a pod for a patch. `changed`: when its status changed; None if it has not."""
    condition: dict[str, Any] = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
    }
    if generation is not None:
        condition["observedGeneration"] = generation
    if changed is not None:
        condition["lastTransitionTime"] = rfc3339(changed)
    return condition


def _reported(pod: PodInfo) -> _NotScheduled | None:
    """The condition of a pod that is not scheduled, as the watch reported it."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return _NotScheduled(condition.reason or "", condition.message or "", condition.observedGeneration)
    return None


def _version(written: Any) -> str:
    """The resource version in the reply to a patch. Raises UndecodableObject for a reply that isn't a stored pod."""
    metadata = written.metadata
    if metadata is None or not metadata.resourceVersion:
        raise UndecodableObject("the reply has no resource version", kind="Pod")
    version: str = metadata.resourceVersion
    return version


def _reaches(version: str, other: str) -> bool:
    """Whether a resource version is the same as another, or newer. Versions that aren't numbers have no order."""
    if version.isdecimal() and other.isdecimal():
        return int(version) >= int(other)
    return version == other
