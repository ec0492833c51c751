"""What a recorder puts around ports, clients and watches: each does the same, and notes how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.binding import CANCELLED
from bayplan.core.executor.ports import Binder, Binding, Evictor, Measures, Stopwatch
from bayplan.core.framework.status import Status
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan, Preemption
from bayplan.running.recording.checkpoints import raw_of
from bayplan.running.recording.entries import Bound, Evicted, Permitted, PreBound, RecordedEntry, RecordedStatus


class EntryRecorder(Protocol):
    """Notes what happens."""

    @property
    def task(self) -> int:
        """The number of the recorded work that runs; negative if none does."""

    def add(self, entry: RecordedEntry) -> None:
        """Note an entry."""

    def changed(self, kind: str, key: str, raw: bytes | None) -> None:
        """Note a new version of an object; None if it was deleted."""

    def handling(self, handle: Callable[..., None], *arguments: Any) -> None:
        """Handle a change, and note what that does."""

    def planned(self, plan: Plan) -> None:
        """Note a plan that is about to be carried out."""

    def decision_of(self, task: int) -> int:
        """The number of the decision that a task carries out, from 1; 0 if it carries none out."""

    async def reply(
        self, request: Awaitable[Any], encoded: Callable[[Any], bytes | None], kind: Kind | None = None
    ) -> Any:
        """Wait for a plugin's request, and note how it ends. `kind`: that of the objects in the reply."""


class RecordedSink:
    """What a watch reports to. `sink`: a handler of objects of the kind."""

    def __init__(self, recorder: EntryRecorder, kind: str, sink: Any) -> None:
        self._recorder = recorder
        self._kind = kind
        self._sink = sink

    def put(self, key: str, new: Any) -> None:
        """An object was created or has changed."""
        self._recorder.changed(self._kind, key, raw_of(new))
        self._recorder.handling(self._sink.put, key, new)

    def removed(self, key: str) -> None:
        """An object was deleted."""
        self._recorder.changed(self._kind, key, None)
        self._recorder.handling(self._sink.removed, key)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A version can't be decoded: it changes nothing, so that it isn't recorded."""
        self._sink.undecodable(raw, error)


class RecordedBinder:
    """Implements bayplan.core.executor.ports.Binder."""

    def __init__(self, recorder: EntryRecorder, binder: Binder) -> None:
        self._recorder = recorder
        self._binder = binder
        self.cancel_pre_bind = binder.cancel_pre_bind
        self.survives_cancellation = binder.survives_cancellation

    async def pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
        """Run PreBind plugins."""
        try:
            status = await self._binder.pre_bind(binding, plugins)
        except (Exception, asyncio.CancelledError) as error:
            self._recorder.add(PreBound([], self._recorder.task, _failed(error)))
            raise
        self._recorder.add(PreBound([], self._recorder.task, recorded_status(status)))
        return status

    async def bind(self, binding: Binding) -> Status:
        """Bind the pod."""
        try:
            status = await self._binder.bind(binding)
        except (Exception, asyncio.CancelledError) as error:
            self._recorder.add(Bound([], self._recorder.task, _failed(error)))
            raise
        self._recorder.add(Bound([], self._recorder.task, recorded_status(status)))
        return status


def recorded_status(status: Status) -> RecordedStatus:
    """A status as it is recorded."""
    return int(status.code), status.reasons, status.plugin


def _failed(error: BaseException) -> RecordedStatus:
    """What a binding cycle makes of an exception."""
    cancelled = isinstance(error, asyncio.CancelledError)
    return 1, (CANCELLED if cancelled else str(error),), ""


class RecordedEvictor:
    """Implements bayplan.core.executor.ports.Evictor."""

    def __init__(self, recorder: EntryRecorder, evictor: Evictor) -> None:
        self._recorder = recorder
        self._evictor = evictor

    async def evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Delete victims."""
        success = await self._evictor.evict(preemption, victims)
        task, uids = self._recorder.task, tuple(victim.uid for victim in victims)
        self._recorder.add(Evicted([], task, success, self._recorder.decision_of(task), preemption.pod.uid, uids))
        return success


class RecordedMeasures:
    """Implements bayplan.core.executor.ports.Measures."""

    def __init__(self, recorder: EntryRecorder, measures: Measures) -> None:
        self._recorder = recorder
        self._attempted = measures.attempted
        self.now = measures.now
        self.stopwatch = measures.stopwatch
        self.ended = measures.ended
        self.failed = measures.failed
        self.permit_waited = measures.permit_waited
        self.evicted = measures.evicted
        self.handled = measures.handled

    def attempted(self, plan: Plan, pods: Mapping[str, QueuedPod], times: Stopwatch | None) -> None:
        """Record an attempt."""
        self._recorder.planned(plan)
        self._attempted(plan, pods, times)


class RecordedWait:
    """A pod that waits in Permit. `waiting`: a PodInPermit with a verdict to wait for."""

    def __init__(self, recorder: EntryRecorder, waiting: Any) -> None:
        self._recorder = recorder
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._waiting, name)

    async def verdict(self) -> Status:
        """Wait until the pod is allowed or rejected."""
        status: Status = await self._waiting.verdict()
        self._recorder.add(Permitted([], self._recorder.task, recorded_status(status)))
        return status


class RecordedClient:
    """The client of plugins. Replies are recorded in binding cycles and in work that plugins start.

    `bind`: its outcome is recorded by the binder.
    """

    def __init__(self, recorder: EntryRecorder, client: Any) -> None:
        self._recorder = recorder
        self._client = client
        self.bind = client.bind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """Read an object."""
        return await self._recorder.reply(self._client.get(kind, *arguments, **options), encode, kind)

    async def list(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """List objects."""
        return await self._recorder.reply(self._client.list(kind, *arguments, **options), _encode_page, kind)

    async def create(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """Create an object."""
        return await self._recorder.reply(self._client.create(kind, *arguments, **options), encode, kind)

    async def update(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """Replace an object."""
        return await self._recorder.reply(self._client.update(kind, *arguments, **options), encode, kind)

    async def patch(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """Change parts of an object."""
        return await self._recorder.reply(self._client.patch(kind, *arguments, **options), encode, kind)

    async def delete(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """Delete an object."""
        return await self._recorder.reply(self._client.delete(kind, *arguments, **options), lambda _: None, kind)


def _encode_page(page: Any) -> bytes:
    items = [each.raw if isinstance(each, PodInfo) else encode(each) for each in page.items]
    return msgspec.json.encode([msgspec.Raw(each) for each in items])
