"""Records a scheduler: notes what reaches it from outside, on its way in, and what it decides.

What is outside are its ports, the handle of its plugins, its watches and its extenders. Each is wrapped here by
something that does the same and adds an entry. Without a recorder, nothing of this is there.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.extenders import Extenders
from bayplan.core.executor.ports import Ports
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.extenders import Answer, ExtenderError, Filtered, Question
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan, Rotation
from bayplan.foundations.clock import Clock
from bayplan.running.recording.checkpoints import checkpoint
from bayplan.running.recording.entries import (
    Activated,
    Answered,
    Began,
    Changed,
    Compared,
    GaveWay,
    PlanMade,
    Popped,
    RecordedEntry,
    RecordingEnded,
    RecordingRedaction,
    Replied,
    RequestDue,
    RequestsOpened,
    Setting,
)
from bayplan.running.recording.files import prepare_recording
from bayplan.running.recording.memories import memories_of
from bayplan.running.recording.summaries import summary_of
from bayplan.running.recording.wrappers import (
    RecordedBinder,
    RecordedClient,
    RecordedEvictor,
    RecordedMeasures,
    RecordedSink,
    RecordedWait,
    recorded_status,
)
from bayplan.running.recording.writing import MOST_BYTES, FrameWriter, Keep

_TASK: ContextVar[int | None] = ContextVar("bayplan recording: task", default=None)
"""The number of the recorded work that runs; -1 in an attempt, and None in what isn't recorded."""
_IN_ATTEMPT = -1
_SHORTEST = 60.0
"""Seconds that a segment has at least: a checkpoint alone may be larger than a segment should be."""


class RecordedScheduler(NamedTuple):
    """The scheduler that is recorded, as far as a checkpoint needs it.

    `requests`: returns what encodes the answered provisioning requests as they are now.
    """

    runtime: Runtime
    random: random.Random
    rotation: Rotation
    requests: Callable[[], Callable[[], bytes]] = lambda: bytes


class DecisionRecorder:
    """Records one scheduler to a folder. Use it in the scheduler's thread, from before its start to its end.

    `setting`: how the scheduler is set up. `keep`: how long segments are, and how many are kept. `redaction`: what
    replaces names; None to write them. Raises RecordingError if the folder can't be used.
    """

    def __init__(
        self,
        folder: Path,
        setting: Setting,
        clock: Clock,
        keep: Keep | None = None,
        redaction: RecordingRedaction | None = None,
    ) -> None:
        self._clock = clock
        self._keep = keep or Keep()
        self._subject: RecordedScheduler | None = None
        self._kinds: set[Kind] = {NODE, POD}
        self._decisions = 0
        self._binding: dict[int, str] = {}
        """The pods of tasks that have not ended, by the number of the task: the binding cycles, and the evictions."""
        self._unfinished = 0
        """How many attempts gave way, and have not had their next turn. A checkpoint doesn't have them."""
        self._decision_of: dict[int, int] = {}
        """The numbers of the decisions that these tasks carry out."""
        self._segment_began = clock.monotonic()
        self._entries: list[RecordedEntry] = []
        self._waiting_bytes = 0
        self._times: list[float] = []
        self._compared: list[bool] = []
        """What plugins compared since the last entry, if names are replaced."""
        self._tasks = 0
        self._inside = 0
        self._on = True
        self._redacted = redaction is not None
        run = prepare_recording(folder, setting, clock.now(), clock.monotonic(), redaction)
        self._writer = FrameWriter(folder, run, self._keep, self._take, self._stopped, redaction)
        self._writer.start()

    @property
    def problem(self) -> str:
        """Why the recording has ended; "" while it goes on."""
        return self._writer.problem

    @property
    def written(self) -> int:
        """How many bytes were written."""
        return self._writer.written

    def close(self) -> None:
        """End the recording."""
        self.add(RecordingEnded([]))
        self._on = False
        self._writer.close()

    # Entries

    def add(self, entry: RecordedEntry) -> None:
        """Add an entry. What the clocks say from now on belongs to it."""
        if not self._on:
            return
        if self._compared:
            self._entries.append(Compared([], tuple(self._compared)))
            self._compared.clear()
        self._times = entry.times
        self._entries.append(entry)

    def _take(self) -> list[RecordedEntry]:
        """Return what is complete: all but the last entry, as long as the scheduler runs."""
        last = [] if not self._on else self._entries[-1:]
        complete = self._entries[: len(self._entries) - len(last)]
        del self._entries[: len(complete)]
        self._waiting_bytes = 0
        return complete

    def _stopped(self) -> None:
        self._on = False
        self._entries.clear()

    # Clocks

    def now(self) -> float:
        """The scheduler's clock for durations."""
        seconds = self._clock.monotonic()
        self._times.append(seconds)
        return seconds

    def date(self) -> datetime:
        """The date and time for plugins."""
        moment = self._clock.now()
        self._times.append(moment.timestamp())
        return moment

    def _as_recorded(self, outcome: bool) -> bool:
        self._compared.append(outcome)
        return outcome

    # Segments

    def records(self, subject: RecordedScheduler) -> None:
        """What checkpoints are made of."""
        self._subject = subject

    def _begin_segment(self, now: float) -> None:
        """Begin a segment, if one is due and the state can be written, or has not been for long."""
        keep, age = self._keep, now - self._segment_began
        full = self._writer.in_segment > keep.segment_bytes and age > min(_SHORTEST, keep.segment_seconds)
        due = full or age > keep.segment_seconds
        if self._subject is None or not due:
            return
        if (self._binding or self._unfinished) and age < keep.segment_seconds + keep.patience_seconds:
            return
        self._segment_began = now
        runtime, rng, rotation, requests = self._subject
        kinds = sorted(self._kinds, key=lambda kind: kind.resource)
        counts = now, self._decisions, self._tasks
        chance, memories = (rng, rotation.start), memories_of(runtime.profiles.values(), runtime.failures)
        state, queue = runtime.state, runtime.queue
        self.add(checkpoint(state, queue, kinds, counts, dict(self._binding), chance, requests(), memories))

    # What is wrapped

    def ports(self, ports: Ports) -> Ports:
        """The ports of the scheduler's executor."""
        return replace(
            ports,
            now=self.now,
            run=lambda what, pod, work: ports.run(what, pod, self._task(work, pod.uid)),
            binder=RecordedBinder(self, ports.binder),
            evictor=RecordedEvictor(self, ports.evictor),
            measures=RecordedMeasures(self, ports.measures),
        )

    def handle(self, handle: Any) -> None:
        """Wrap a handle, before plugins are made with it: its clocks, waits and tasks become entries."""
        start, activate, until = handle.start, handle.activate, handle.until

        def activated(pods: Iterable[PodInfo]) -> None:
            pods = list(pods)
            if _TASK.get() is None and not self._inside:
                self.add(Activated([], tuple(pod.uid for pod in pods)))
            activate(pods)

        async def awaited(done: Callable[[], bool], stores: Iterable[Any], seconds: float) -> bool:
            return bool(await self.reply(until(done, stores, seconds), encode))

        handle.now, handle.monotonic, handle.until = self.date, self.now, awaited
        if self._redacted:
            handle.as_recorded = self._as_recorded
        handle.activate = activated
        handle.start = lambda name, work: start(name, self._started(work))
        if handle.client is not None:
            handle.client = RecordedClient(self, handle.client)

    def waiting(self, make: Callable[[PodInfo, Mapping[str, float]], Any]) -> Callable[..., Any]:
        """What makes the pods that wait in Permit."""
        return lambda pod, waits: RecordedWait(self, make(pod, waits))

    def sink(self, kind: Kind, sink: Any) -> RecordedSink:
        """What a watch of a kind reports to."""
        self._kinds.add(kind)
        return RecordedSink(self, kind.kind, sink)

    def extenders(self, extenders: Extenders | None) -> Extenders | None:
        """The extenders."""
        return None if extenders is None else _RecordedExtenders(self, extenders)

    # What happens

    def changed(self, kind: str, key: str, raw: bytes | None) -> None:
        """An object was reported."""
        self.add(Changed([], kind, key, raw))
        if raw is not None:
            self._waiting_bytes += len(raw)
            if self._waiting_bytes > MOST_BYTES:
                self._writer.overrun()

    def asking(self, now: float) -> None:
        """The queue is about to be asked for a pod."""
        self._begin_segment(now)

    def popped(self, queued: QueuedPod | None, now: float, *, again: bool = False) -> None:
        """The queue was asked for a pod. `again`: for one whose attempt gave way."""
        self._unfinished -= again
        self.add(Popped([], now, "" if queued is None else queued.uid, again))

    def gave_way(self) -> None:
        """An attempt will be repeated."""
        self._unfinished += 1
        self.add(GaveWay([]))

    def planned(self, plan: Plan) -> None:
        """An attempt returned a plan."""
        self._decisions += 1
        decisions, placed, preemptions = summary_of(plan)
        self.add(PlanMade([], decisions, placed, preemptions))

    def requests_opened(self) -> None:
        """Provisioning requests are answered from now on."""
        self.add(RequestsOpened([]))

    def request_due(self, key: str) -> None:
        """A deadline of a provisioning request came."""
        self.add(RequestDue([], key))

    def handling(self, handle: Callable[..., None], *arguments: Any) -> None:
        """Handle what was just recorded: what plugins do meanwhile follows from it."""
        self._inside += 1
        try:
            handle(*arguments)
        finally:
            self._inside -= 1

    def attempting(self) -> None:
        """What plugins do in this task from now on follows from attempts."""
        _TASK.set(_IN_ATTEMPT)

    @property
    def task(self) -> int:
        """The number of the recorded work that runs; negative if none does."""
        number = _TASK.get()
        return _IN_ATTEMPT if number is None else number

    def decision_of(self, task: int) -> int:
        """The number of the decision that a task carries out, from 1; 0 if it carries none out."""
        return self._decision_of.get(task, 0)

    async def reply(
        self, request: Awaitable[Any], encoded: Callable[[Any], bytes | None], kind: Kind | None = None
    ) -> Any:
        """Wait for a plugin's request, and record how it ends. `kind`: that of the objects in the reply."""
        try:
            result = await request
        except asyncio.CancelledError:
            if self.task >= 0:  # who sent it may go on (see `unknown_writes`)
                self.add(Replied([], self.task, None, ("TransportError", _CANCELLED)))
            raise
        except Exception as error:
            if self.task >= 0:
                self.add(Replied([], self.task, None, (type(error).__name__, _arguments(error))))
            raise
        if self.task >= 0:
            self.add(Replied([], self.task, encoded(result), kind=kind.kind if kind is not None else ""))
        return result

    def _started(self, work: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
        number = self._next()
        return lambda: self._run(number, work())

    def _task(self, work: Coroutine[Any, Any, None], uid: str) -> Coroutine[Any, Any, None]:
        number = self._next()
        self._binding[number] = uid
        self._decision_of[number] = self._decisions
        return self._run(number, work)

    def _next(self) -> int:
        self._tasks += 1
        return self._tasks - 1

    async def _run(self, number: int, work: Awaitable[Any]) -> Any:
        _TASK.set(number)
        self.add(Began([], number))
        try:
            return await work
        finally:
            self._binding.pop(number, None)
            self._decision_of.pop(number, None)


class _RecordedExtenders:
    """Implements Extenders."""

    def __init__(self, recorder: DecisionRecorder, extenders: Extenders) -> None:
        self._recorder = recorder
        self._extenders = extenders

    @property
    def want_nodes(self) -> bool:
        return self._extenders.want_nodes

    def are_asked(self, pod: PodInfo) -> bool:
        return self._extenders.are_asked(pod)

    async def answer(self, question: Question) -> Answer:
        try:
            answer = await self._extenders.answer(question)
        except ExtenderError as error:
            self._recorder.add(Answered([], error=str(error)))
            raise
        self._recorder.add(_answered(answer))
        return answer

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        return await self._extenders.bind(pod, node_name)


def _answered(answer: Answer) -> Answered:
    if isinstance(answer, Filtered):
        rejected = {node: recorded_status(status) for node, status in answer.rejected.items()}
        return Answered([], feasible=tuple(answer.feasible), rejected=rejected)
    if isinstance(answer, Mapping):
        return Answered([], scores=dict(answer))
    return Answered(
        [],
        candidates=tuple((each.node_name, tuple(pod.uid for pod in each.victims), each.violations) for each in answer),
    )


_CANCELLED = msgspec.json.encode({"text": "the request was cancelled", "sent": True})


def _arguments(error: Exception) -> bytes:
    """What an error is made of again."""
    known = {name: getattr(error, name) for name in ("status", "reason", "message", "sent") if hasattr(error, name)}
    return msgspec.json.encode({"text": str(error), **known}, enc_hook=str)
