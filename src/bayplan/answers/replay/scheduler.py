"""ReplayedScheduler: the scheduler of a recording: the same queue, attempts and executor, which the entries drive.

`pop`, `attempt` and `take` do what the entries say, one by one. Coroutines are stepped by hand (`tasks.py`), so nothing
depends on an event loop's order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bayplan.answers.replay.ports import (
    SILENT,
    ReplayedClock,
    ReplayedExtenders,
    ReplayedHandle,
    ReplayedPorts,
    status_of,
)
from bayplan.answers.replay.reported_objects import ReportedObjects
from bayplan.answers.replay.restoring import RestoredQueue, restore_queue, restore_state
from bayplan.answers.replay.tasks import ReplayedTask, ReplayedTasks
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.giving_way import TimeSlice, Unfinished
from bayplan.core.executor.handlers import Receiver
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.ports import Binding
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.extenders import EXTENDER
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.profile import Profile
from bayplan.core.queue import QueuedPod, QueueProfile, RetryTimes
from bayplan.core.scheduling import Plan
from bayplan.foundations.collector import collector_paused
from bayplan.foundations.failures import Failures
from bayplan.running.provisioning.desk import Desk
from bayplan.running.provisioning.options import ProvisioningOptions
from bayplan.running.recording import entries
from bayplan.running.recording.entries import AnyEntry, Changed, Checkpoint, Setting
from bayplan.running.recording.frames import RecordingError
from bayplan.running.recording.memories import restore_memories

BuildProfiles = Callable[[Handle], Mapping[str, Profile]]
AreAsked = Callable[[PodInfo], bool]


class ReplayedScheduler:
    """A scheduler that was recorded, as it was when an entry was taken in. `kubernetes`: the version it decides as.

    `are_asked`: whether extenders were asked about a pod; None if there were none. `planned` is called with each plan
    before it has effects.
    """

    def __init__(
        self,
        setting: Setting,
        build_profiles: BuildProfiles,
        planned: Callable[[Plan], None],
        are_asked: AreAsked | None = None,
    ) -> None:
        self.state = ClusterState()
        self.clock = ReplayedClock()
        self.tasks = ReplayedTasks()
        self.handle = handle = ReplayedHandle(self.state, self.clock, self.tasks, self._activate)
        self.kubernetes = setting.kubernetes
        self._desk = Desk(ProvisioningOptions(setting.answers), SILENT) if setting.answers else None
        self.profiles = (build_profiles if self._desk is None else self._desk.profiles(build_profiles))(handle)
        any_event = () if are_asked is None else (EXTENDER,)
        self.failures = Failures()
        self.queue = RestoredQueue(
            {name: QueueProfile.of(profile, any_event=any_event) for name, profile in self.profiles.items()},
            self.state.nominations,
            times=RetryTimes(setting.initial_backoff, setting.max_backoff, setting.unschedulable_timeout),
            own=own_volumes(self.state.objects),
            failures=self.failures,
        )
        ports = ReplayedPorts(self.state, self.clock, self.tasks, planned).ports()
        self.runtime = runtime = Runtime(
            self.profiles,
            self.state,
            self.queue,
            handle.waiting_pods,
            Intake(lambda: None),
            ports if self._desk is None else self._desk.ports(ports),
            self.failures,
        )
        extenders = None if are_asked is None else ReplayedExtenders(self.state, self.tasks, are_asked)
        self.restored = False
        """Whether it began with a checkpoint: then the recording says whose turn it is."""
        self._binding: dict[int, str] = {}
        """The pods that were being bound at the checkpoint, by the number of the task."""
        self._executor = Executor(runtime)
        self._random = random.Random(setting.seed)
        self._attempts = AttemptDriver(runtime, self._random, extenders)
        if self._desk is not None:
            self._desk.connect(runtime)
            self._attempts.lending = self._desk.lending
        self._unfinished = Unfinished(TimeSlice(lambda: 0.0))
        self._objects = ReportedObjects(Receiver.of(runtime), handle.watched)
        self._attempt: ReplayedTask | None = None

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that the scheduler watched, nodes and pods included."""
        return sorted(self._objects.kinds.values(), key=lambda kind: kind.resource)

    # Entries

    @property
    def attempting(self) -> bool:
        """Whether an attempt waits for an answer of extenders."""
        return self._attempt is not None and not self._attempt.ended

    def restore(self, checkpoint: Checkpoint) -> list[str]:
        """Begin with a checkpoint. Returns what plugins begin without, one line each."""
        with collector_paused():
            restore_state(checkpoint, self.state, self._objects.kinds, self._objects.decode)
            self._restore_requests(checkpoint)
            restore_queue(checkpoint, self.queue, self.state)
        state = checkpoint.random
        self._random.setstate((state[0], tuple(state[1]), state[2]))
        self._attempts.rotation.start = checkpoint.rotation
        self.tasks.begin_at(checkpoint.tasks)
        self._binding = dict(checkpoint.binding)
        self.restored = True
        return restore_memories(checkpoint.memories, self.profiles)

    def _restore_requests(self, checkpoint: Checkpoint) -> None:
        if self._desk is not None and checkpoint.requests:
            try:
                self._desk.restore(checkpoint.requests)
            except ValueError as error:
                raise RecordingError(str(error)) from None

    def pop(self, entry: entries.Popped) -> QueuedPod | None:
        """Ask the queue for a pod, as the recorded scheduler did. Begin its attempt with `attempt`."""
        self.clock.entry(entry.times)
        if entry.again:
            return self._unfinished.resume(entry.uid or self._unfinished.gone(self._exists), self.queue, entry.at)
        if not self.restored:
            return self.queue.pop(entry.at)
        return self.queue.turn_of(entry.uid, entry.at)

    def _exists(self, pod: PodInfo) -> bool:
        stored: PodInfo | None = self.state.objects[POD].get(pod.key)
        return stored is not None and stored.uid == pod.uid

    def attempt(self, queued: QueuedPod) -> None:
        """Attempt the unit of a pod, and carry its plan out."""
        self._attempt = ReplayedTask(self.tasks, self._executor.schedule(queued, self._attempts))
        self._attempt.step()
        if self._attempt.error is not None:
            raise self._attempt.error

    def give_way(self, queued: QueuedPod) -> None:
        """Let an attempt be repeated later."""
        self._unfinished.add(queued, self.queue.unit.values())

    def take(self, entry: AnyEntry) -> None:
        """Take any other entry in."""
        self.clock.entry(entry.times)
        if isinstance(entry, Changed):
            self._objects.take(entry)
        elif isinstance(entry, entries.Began):
            self._step(entry.task)
        elif isinstance(entry, entries.Replied):
            self._deliver(entry, inner=True)
        elif isinstance(entry, entries.Permitted | entries.PreBound | entries.Bound | entries.Evicted):
            self._deliver(entry)
        elif isinstance(entry, entries.Answered):
            if self._attempt is not None:
                self._attempt.deliver(entries.Answered, entry)
        elif isinstance(entry, entries.RequestsOpened | entries.RequestDue):
            self._answer(entry)
        elif isinstance(entry, entries.Activated):
            found = (self.queue.get(uid) for uid in entry.uids)
            self._activate([queued.pod for queued in found if queued is not None])

    def close(self) -> None:
        """End what goes on."""
        if self._attempt is not None:
            self._attempt.close()
        self.tasks.close()

    def _step(self, number: int) -> None:
        task = self.tasks.get(number)
        if task is not None:
            task.step()
            self.tasks.drop_ended(number)

    def _deliver(self, entry: Any, *, inner: bool = False) -> None:
        task = self.tasks.get(entry.task)
        if task is None:
            self._end_binding(entry)
            return
        to = task.inner if inner and task.inner is not None else task
        to.deliver(type(entry), entry)
        self.tasks.drop_ended(entry.task)

    def _end_binding(self, entry: Any) -> None:
        """End the binding of a pod that was being bound at the checkpoint, if the entry says how it ended."""
        ended = (entries.Permitted, entries.PreBound, entries.Bound)
        if not isinstance(entry, ended) or not (entry.status[0] or isinstance(entry, entries.Bound)):
            return
        pod = self.state.pod(self._binding.pop(entry.task, ""))
        profile = None if pod is None else self.profiles.get(pod.scheduler_name)
        if pod is not None and profile is not None:
            queued = QueuedPod(self.state.objects[POD].get(pod.key, pod), self.clock.monotonic())
            binding = Binding(queued, pod, pod.node_name, profile, CycleState())
            self._executor.binding_ended(binding, status_of(entry.status))

    def _answer(self, entry: entries.RequestsOpened | entries.RequestDue) -> None:
        if self._desk is None:
            return
        if isinstance(entry, entries.RequestDue):
            self._desk.due(entry.key)
        else:
            self._desk.open()

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self.queue.activate(pods, self.clock.monotonic())
