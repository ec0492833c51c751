"""The queue and the executor of a recorded scheduler: whose turn it is, and which attempts are repeated.

Both decide as usual, and note it. A replay without a checkpoint finds the turns itself, and compares.
"""

from __future__ import annotations

from typing import Any

from bayplan.core.executor.attempts import AttemptDriver, Pause, no_pause
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.giving_way import GiveWay
from bayplan.core.queue import QueuedPod, SchedulingQueue
from bayplan.core.scheduling import Plan
from bayplan.running.recording.recorder import DecisionRecorder


class RecordedQueue(SchedulingQueue):
    """A queue that notes which pods are popped. The other arguments are those of SchedulingQueue."""

    def __init__(self, recorder: DecisionRecorder, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._recorder = recorder

    def pop(self, now: float) -> QueuedPod | None:
        """Return the next pod, and note which one."""
        self._recorder.asking(now)
        queued = super().pop(now)
        self._recorder.popped(queued, now)
        return queued

    def take(self, uid: str, now: float, *, joins: bool = True) -> QueuedPod | None:
        """Take a pod, and note an attempt that is repeated. A pod that joins one is asked for by the attempt."""
        queued = super().take(uid, now, joins=joins)
        if not joins:
            self._recorder.popped(queued, now, again=True)
        return queued


class RecordedExecutor(Executor):
    """An executor that notes which attempts gave way."""

    def __init__(self, recorder: DecisionRecorder, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._recorder = recorder

    async def schedule(self, queued: QueuedPod, attempts: AttemptDriver, pause: Pause = no_pause) -> Plan | None:
        """Attempt a pod and carry the plan out, and note whether the attempt gave way."""
        self._recorder.attempting()
        try:
            return await super().schedule(queued, attempts, pause)
        except GiveWay:
            self._recorder.gave_way()
            raise
