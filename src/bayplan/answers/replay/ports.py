"""The ports, the handle and the client of a replayed scheduler: what was outside is what the entries say.

The third implementation of `bayplan.core.executor.ports`, beside the service's and the simulation's. Nothing is sent
and nothing is measured; a coroutine waits until its entry says how it went on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec

from bayplan.answers.replay.tasks import ReplayedTask, ReplayedTasks
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.ports import Binding, Ports, Stopwatch
from bayplan.core.executor.silent_ports import NotMeasured, SilentPorts
from bayplan.core.framework.binding_runner import run_pre_bind
from bayplan.core.framework.extenders import Answer, ExtenderError, Filtered, Question
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.status import Code, Status
from bayplan.core.framework.waiting_pods import PodInPermit, PodsInPermit
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan, Preemption
from bayplan.running.client.errors import ApiError, TransportError
from bayplan.running.recording.entries import (
    Answered,
    Bound,
    Evicted,
    Permitted,
    PreBound,
    RecordedStatus,
    Replied,
)

SILENT = logging.Logger("bayplan.answers.replay", logging.CRITICAL + 1)  # noqa: LOG001 - no handler may have it


_FIRST_DATE = 1e9
"""Seconds since the epoch in 2001: larger than those of any monotonic clock, and smaller than any date that is read."""


class ReplayedClock:
    """What the clocks said. Where a replay reads a clock more often than the recorded scheduler, time stands still."""

    def __init__(self) -> None:
        self.exhausted = 0
        """How often a clock was read for which nothing is recorded."""
        self._seconds: Iterator[float] = iter(())
        self._dates: Iterator[float] = iter(())
        self._last = 0.0
        self._date = datetime.fromtimestamp(0, UTC)

    def entry(self, times: Sequence[float]) -> None:
        """Go on with the times of an entry. Tasks that run side by side may read the two clocks in another order."""
        self._seconds = iter([each for each in times if each < _FIRST_DATE])
        self._dates = iter([each for each in times if each >= _FIRST_DATE])

    def monotonic(self) -> float:
        """The seconds of the scheduler's clock."""
        value = self._next(self._seconds)
        if value is not None:
            self._last = value
        return self._last

    def now(self) -> datetime:
        """The date and time."""
        value = self._next(self._dates)
        if value is not None:
            self._date = datetime.fromtimestamp(value, UTC)
        return self._date

    def _next(self, times: Iterator[float]) -> float | None:
        value = next(times, None)
        self.exhausted += value is None
        return value


def status_of(recorded: RecordedStatus) -> Status:
    """A status that was recorded."""
    code, reasons, plugin = recorded
    return Status(Code(code), tuple(reasons), plugin)


class ReplayedWait(PodInPermit):
    """A pod that waits in Permit until an entry says that it does so no more."""

    def __init__(self, tasks: ReplayedTasks, pod: PodInfo, waits: Mapping[str, float]) -> None:
        super().__init__(pod, waits)
        self._tasks = tasks

    async def verdict(self) -> Status:
        """Wait for the entry."""
        entry: Permitted = await self._tasks.entry(Permitted)
        status = status_of(entry.status)
        self.decide(status)
        return status


class ReplayedPorts(SilentPorts, NotMeasured):
    """Implements the ports of executor.ports. `planned` is called with each plan, before it is carried out."""

    def __init__(
        self, state: ClusterState, clock: ReplayedClock, tasks: ReplayedTasks, planned: Callable[[Plan], None]
    ) -> None:
        self._state = state
        self._clock = clock
        self._tasks = tasks
        self._planned = planned
        self._pre_binding: set[str] = set()

    def ports(self) -> Ports:
        """The ports of an executor."""
        return Ports(
            now=self._clock.monotonic,
            wake=lambda: None,
            run=self._run,
            assumptions=self._state,
            binder=self,
            evictor=self,
            statuses=self,
            recorder=self,
            measures=self,
            log=SILENT,
        )

    def _run(self, what: str, pod: PodInfo, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(work)

    # Binding

    async def pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
        """Run PreBind with the replies that were recorded. How it ended is what was recorded, too."""
        task, uid = self._tasks.current, binding.pod.uid
        assert task is not None
        self._pre_binding.add(uid)
        task.inner = ReplayedTask(self._tasks, run_pre_bind(plugins, binding.cycle, binding.pod, binding.node_name))
        task.inner.step()
        entry: PreBound = await self._tasks.entry(PreBound)
        task.inner.close()
        task.inner = None
        self._pre_binding.discard(uid)
        return status_of(entry.status)

    async def bind(self, binding: Binding) -> Status:
        """Wait for the outcome."""
        entry: Bound = await self._tasks.entry(Bound)
        return status_of(entry.status)

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        """Whether the pod is in PreBind. The entry says how that ends."""
        return uid in self._pre_binding

    async def evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Wait for the outcome."""
        entry: Evicted = await self._tasks.entry(Evicted)
        return entry.success

    def attempted(self, plan: Plan, pods: Mapping[str, QueuedPod], times: Stopwatch | None) -> None:
        """Report the plan."""
        self._planned(plan)


class ReplayedHandle(OfflineHandle):
    """The handle of plugins. `activated` is called with pods that they activate."""

    def __init__(
        self,
        state: ClusterState,
        clock: ReplayedClock,
        tasks: ReplayedTasks,
        activated: Callable[[Iterable[PodInfo]], None],
    ) -> None:
        super().__init__(state)
        self.client: Any = ReplayedClient(tasks)
        self.waiting_pods: Any = PodsInPermit(lambda pod, waits: ReplayedWait(tasks, pod, waits))
        self.outcomes: Callable[[], bool | None] | None = None
        """For redacted recordings: gets the outcome of the next comparison of names, None if there is none."""
        self._clock = clock
        self._tasks = tasks
        self._activated = activated

    def now(self) -> datetime:
        """The date and time that was recorded."""
        return self._clock.now()

    def monotonic(self) -> float:
        """The seconds that were recorded."""
        return self._clock.monotonic()

    def as_recorded(self, outcome: bool) -> bool:
        """The recorded outcome, if names were replaced."""
        recorded = None if self.outcomes is None else self.outcomes()
        return outcome if recorded is None else recorded

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods to the active queue."""
        self._activated(pods)

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Add work, which begins when the recorded one did."""

        async def started() -> None:
            await work()

        self._tasks.add(started())

    async def until(self, done: Callable[[], bool], stores: Iterable[Any], seconds: float) -> bool:
        """Wait until the recorded wait ended."""
        return bool(msgspec.json.decode(await _reply(self._tasks)))


class ReplayedClient:
    """The client of plugins: each request has the reply that was recorded."""

    def __init__(self, tasks: ReplayedTasks) -> None:
        self._tasks = tasks

    async def get(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """The recorded object."""
        return decode(kind.type, await _reply(self._tasks))

    create = update = patch = get

    async def list(self, kind: Kind, *arguments: Any, **options: Any) -> Any:
        """The recorded page."""
        make = options.get("decode") or (lambda raw: decode(kind.type, raw))
        items = msgspec.json.decode(await _reply(self._tasks), type=list[msgspec.Raw])
        return SimpleNamespace(items=[make(bytes(each)) for each in items])

    async def delete(self, *arguments: Any, **options: Any) -> None:
        """Wait for the recorded reply, and raise the error that it had."""
        await _reply(self._tasks)


async def _reply(tasks: ReplayedTasks) -> bytes:
    entry: Replied = await tasks.entry(Replied)
    if entry.error is not None:
        raise _error(*entry.error)
    return entry.raw or b""


def _error(name: str, arguments: bytes) -> Exception:
    """An error like the recorded one, as far as its kind is known."""
    known = msgspec.json.decode(arguments)
    if "status" in known:
        return ApiError(known["status"], known.get("reason", ""), known.get("message", ""))
    if "sent" in known:
        return TransportError(known["text"], sent=known["sent"])
    return RuntimeError(f"{name}: {known['text']}")


class ReplayedExtenders:
    """Implements Extenders: what they answered is recorded; which pods they are asked about isn't."""

    def __init__(self, state: ClusterState, tasks: ReplayedTasks, are_asked: Callable[[PodInfo], bool]) -> None:
        self.want_nodes = False
        self.are_asked = are_asked
        self._state = state
        self._tasks = tasks

    async def answer(self, question: Question) -> Answer:
        """The recorded answer. Raises ExtenderError."""
        entry: Answered = await self._tasks.entry(Answered)
        if entry.error is not None:
            raise ExtenderError(entry.error)
        if entry.feasible is not None:
            return Filtered(entry.feasible, {node: status_of(status) for node, status in entry.rejected.items()})
        if entry.scores is not None:
            return entry.scores
        return tuple(
            Candidate(node, tuple(pod for uid in uids if (pod := self._state.pod(uid)) is not None), violations)
            for node, uids, violations in entry.candidates or ()
        )

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Never called: the outcome of a binding is recorded."""
        return False
