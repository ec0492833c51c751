"""ApiEvictor: evicts victims through the API server. Their status says why, and then they are deleted.

It implements the evictor of `bayplan.core.executor.ports`. A victim that is gone already counts as evicted; a failure
is reported, and the preemptor is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Recorder
from bayplan.core.executor.preemption import record_preempted
from bayplan.core.scheduling import Preemption
from bayplan.foundations.clock import Clock
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_pod
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, InvalidNameError, TransportError
from bayplan.running.service.pod_status import patch_status, pod_condition

log = logging.getLogger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
_RETRY_SECONDS = (0.01, 0.05, 0.25)


class ApiEvictor:
    """Implements bayplan.core.executor.ports.Evictor."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder, failures: Failures) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._failures = failures

    async def evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Delete victims concurrently, each with an event. Returns whether all of them are gone or terminating."""
        evictions = (self._evict(preemption, victim) for victim in victims)
        results = await asyncio.gather(*evictions, return_exceptions=True)
        preemptor = about_pod(preemption.pod, "preemptor")
        for victim, problem in zip(victims, results, strict=True):
            if isinstance(problem, ApiError | TransportError | ConfigError):
                log.warning("pod %s could not be evicted for pod %s: %s", about_pod(victim), preemptor, problem)
            elif isinstance(problem, BaseException):
                expected = isinstance(problem, UndecodableObject | InvalidNameError)
                self._failures.record("evicting a pod", problem, f"pod {about_pod(victim)}", expected=expected)
        return not any(isinstance(problem, BaseException) for problem in results)

    async def _evict(self, preemption: Preemption, victim: PodInfo) -> None:
        """Write the reason into the victim's status, and delete the victim, unless it is already gone."""
        client, status = self._client, self._disruption(victim, preemption)
        try:
            if status is not None:
                await _retried(lambda: patch_status(client, victim, status))
            await _retried(lambda: client.delete(POD, victim.name, victim.namespace, uid=victim.uid))
        except ApiError as error:
            if error.status == 404:
                return
            raise
        record_preempted(self._recorder, victim, preemption)

    def _disruption(self, victim: PodInfo, preemption: Preemption) -> dict[str, Any] | None:
        """A patch of the victim's status with the reason for the eviction; None where the status has it already."""
        scheduler_name = preemption.pod.scheduler_name
        preemptor = "podgroup" if preemption.pod_group_uid else "pod"
        message = f"{scheduler_name}: preempting to accommodate a higher priority {preemptor}"
        pod = victim.object  # read once: it may have to be decoded
        conditions = (pod.status.conditions if pod.status else None) or ()
        generation = pod.metadata.generation if pod.metadata else None
        old = next((each for each in conditions if each.type == DISRUPTION_TARGET), None)
        changed = self._clock.now() if old is None or old.status != "True" else None
        condition = pod_condition(DISRUPTION_TARGET, "True", PREEMPTED, message, generation, changed)
        if old is not None and all(getattr(old, name) == value for name, value in condition.items()):
            return None
        order = dict.fromkeys([*(each.type for each in conditions), DISRUPTION_TARGET])
        return {"$setElementOrder/conditions": [{"type": name} for name in order], "conditions": [condition]}


async def _retried(request: Callable[[], Awaitable[object]]) -> None:
    """Repeat a request a few times while the API server fails. Raises the last error."""
    for delay in _RETRY_SECONDS:
        try:
            await request()
        except ApiError as error:
            if error.status < 500 and error.status != 429:
                raise
            await asyncio.sleep(error.retry_after or delay)
        except TransportError:
            await asyncio.sleep(delay)
        else:
            return
    await request()
