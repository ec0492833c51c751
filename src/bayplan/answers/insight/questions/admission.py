"""When Kueue could admit a workload: whose ends free the quota that it waits for.

The ends of admitted workloads are drawn as those of pods in a forecast. Those that wait in the same ClusterQueue before
it get freed quota first, in Kueue's order. What other ClusterQueues would take of it, and preemption, are not foreseen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bayplan.answers.insight.answers import Progress, Stopped
from bayplan.answers.insight.durations import ExpectedRunTimes
from bayplan.answers.insight.questions.forecast import NEVER, drawn_share
from bayplan.answers.insight.questions.kueue import UNREADABLE, owners_of_pod, place_in_queue, requested, why_workload
from bayplan.answers.insight.questions.kueue_objects import KueueObjects, QueuedObject, is_true, name_of
from bayplan.answers.insight.questions.quotas_of_kueue import (
    ChangingQuotas,
    CohortCycleError,
    Document,
    Usage,
    WaitingWorkload,
    shown,
    usage_of,
)
from bayplan.answers.insight.questions.starts import StartTimes
from bayplan.answers.simulation.rehearsal import age_of
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kueue import ADMISSION_GATE, NAMES, WORKLOADS
from bayplan.core.cluster.pod_info import PodInfo

_RUNS = 39
NOT_FORESEEN = StartTimes(None, None, None)


@dataclass(frozen=True, slots=True)
class QuotaFreed:
    """A workload whose end frees quota that is waited for, in this share of the runs.

    `frees`: what it frees, for people. `ends`: the seconds from now until then, in half of the runs. `source`: what
    says how long it runs.
    """

    workload: str
    share: float
    frees: str
    ends: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Admission:
    """Why a Workload of Kueue isn't admitted, and when its quota is free.

    `start`: when; None for never, as far as ends are known. `frees`: whose ends free what it needs.
    """

    workload: str
    reasons: tuple[str, ...]
    start: StartTimes
    frees: tuple[QuotaFreed, ...] = ()
    runs: int = 0
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class AskedWorkload:
    """A Workload of Kueue that is asked about and isn't admitted."""

    snapshot: Snapshot
    workload: Document

    @classmethod
    def of(cls, snapshot: Snapshot, owner: QueuedObject, pods: Sequence[PodInfo]) -> AskedWorkload | None:
        """Find it by itself, by what it is for, or by its gated pods; None if there is none, or it is admitted."""
        objects = KueueObjects(snapshot)
        try:
            found = _workload_of(objects, owner, pods) if objects.all(WORKLOADS) else None
            if found is None or is_true(found, "Admitted") or is_true(found, "Finished"):
                return None
        except UNREADABLE:
            return None
        return cls(snapshot, found)

    def foreseen(
        self, durations: ExpectedRunTimes, pods: Iterable[PodInfo], seed: int, runs: int | None, progress: Progress
    ) -> Admission:
        """Return why it isn't admitted, and when its quota is free. `pods`: those of the cluster."""
        try:
            return AdmissionForecast(self.snapshot, self.workload, durations, pods).ask(seed, runs, progress)
        except CohortCycleError:
            reasons = tuple(why_workload(KueueObjects(self.snapshot), self.workload))
        except UNREADABLE as error:
            reasons = (f"an object of Kueue can't be read: {error}",)
        return Admission("/".join(name_of(self.workload)), reasons, NOT_FORESEEN)


def pods_of_workload(snapshot: Snapshot, key: str, pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Return the pods of a Workload of Kueue, by `namespace/name`; none if there is no such Workload."""
    objects = KueueObjects(snapshot)
    namespace, _, name = key.partition("/")
    try:
        workload = objects.named(WORKLOADS, name, namespace)
        if workload is None:
            return []
        inside = [pod for pod in pods if pod.namespace == namespace]
        return [pod for pod in inside if objects.workload_of(owners_of_pod(pod)) is workload]
    except UNREADABLE:
        return []


def _workload_of(objects: KueueObjects, owner: QueuedObject, pods: Sequence[PodInfo]) -> Document | None:
    if owner.kind == NAMES[WORKLOADS]:
        return objects.named(WORKLOADS, owner.name, owner.namespace)
    if any(pod.node_name for pod in pods):
        return None
    gated = next((owners_of_pod(pod) for pod in pods if ADMISSION_GATE in pod.scheduling_gates), [])
    return objects.workload_of([owner, *gated])


@dataclass(frozen=True, slots=True)
class _Held:
    """An admitted workload: the quota that it holds in a ClusterQueue, and its pods."""

    key: str
    queue: str
    usage: Usage
    pods: list[PodInfo]

    def end(self, durations: ExpectedRunTimes, seed: int) -> float:
        """In how many seconds its last pod ends in a run; NEVER if that isn't known."""
        last = 0.0
        for pod in self.pods:
            known = durations.of(pod)
            if known is None or not pod.node_name:
                return NEVER
            age = age_of(pod, durations.now)
            last = max(last, known.run_time.at(drawn_share(seed, pod.uid, 0), age) - age)
        return last if self.pods else NEVER

    def source(self, durations: ExpectedRunTimes) -> str:
        """What says how long it runs."""
        found = [durations.of(pod) for pod in self.pods]
        return ", ".join(sorted({each.source for each in found if each is not None}))


class AdmissionForecast:
    """When the quota of a Workload that isn't admitted is free. `pods`: those of the cluster."""

    def __init__(
        self, snapshot: Snapshot, workload: Document, durations: ExpectedRunTimes, pods: Iterable[PodInfo]
    ) -> None:
        self._objects, self._workload, self._durations = KueueObjects(snapshot), workload, durations
        self._key = "/".join(name_of(workload))
        self._queue = self._objects.waits_in(workload)
        self._held = list(self._held_by(pods)) if self._queue else []
        before = place_in_queue(self._objects, workload, self._queue) if self._queue else []
        self._waiting: list[WaitingWorkload] = [
            ("/".join(name_of(each)), requested(each.get("spec") or {})) for each in (*before, workload)
        ]

    def _held_by(self, pods: Iterable[PodInfo]) -> Iterator[_Held]:
        of: defaultdict[str, list[PodInfo]] = defaultdict(list)
        for pod in pods:
            workload = self._objects.workload_of(owners_of_pod(pod))
            if workload is not None:
                of["/".join(name_of(workload))].append(pod)
        for workload in self._objects.all(WORKLOADS):
            admission = (workload.get("status") or {}).get("admission") or {}
            if admission and is_true(workload, "QuotaReserved") and not is_true(workload, "Finished"):
                key = "/".join(name_of(workload))
                yield _Held(key, str(admission.get("clusterQueue")), usage_of(admission), of[key])

    def ask(self, seed: int, runs: int | None, progress: Progress) -> Admission:
        """Return when its quota is free, from so many runs."""
        reasons = tuple(why_workload(self._objects, self._workload))
        never = NOT_FORESEEN
        if not self._queue or self._objects.stopped(self._workload):
            return Admission(self._key, reasons, never)
        times: list[float] = []
        needed: list[list[tuple[float, _Held]]] = []
        stopped = False
        try:
            for number in range(runs or _RUNS):
                progress(f"run {number + 1}: whose end frees quota")
                at, ended = self._run(seed + number)
                times.append(at)
                needed.append(ended)
        except Stopped:
            stopped = True
        if not times:
            return Admission(self._key, reasons, never, stopped=stopped)
        return Admission(self._key, reasons, StartTimes.of(times), self._frees(needed), len(times), stopped)

    def _run(self, seed: int) -> tuple[float, list[tuple[float, _Held]]]:
        node = self._objects.quota_tree(self._queue)
        assert node is not None
        quotas, waiting = ChangingQuotas(node), list(self._waiting)
        if quotas.admit(waiting, self._key):
            return 0.0, []
        ends = sorted(
            ((end, held) for held in self._held if (end := held.end(self._durations, seed)) != NEVER),
            key=lambda each: (each[0], each[1].key),
        )
        ended: list[tuple[float, _Held]] = []
        for end, held in ends:
            if not quotas.release(held.queue, held.usage):
                continue
            ended.append((end, held))
            if quotas.admit(waiting, self._key):
                return end, ended
        return NEVER, []

    def _frees(self, needed: Sequence[Sequence[tuple[float, _Held]]]) -> tuple[QuotaFreed, ...]:
        ends: defaultdict[str, list[float]] = defaultdict(list)
        held: dict[str, _Held] = {}
        for run in needed:
            for end, each in run:
                ends[each.key].append(end)
                held[each.key] = each
        return tuple(
            QuotaFreed(
                key,
                round(len(ends[key]) / len(needed), 4),
                ", ".join(
                    f"{shown(amount, name)} {name} in flavor {flavor}" for (flavor, name), amount in each.usage.items()
                ),
                StartTimes.of(ends[key]).p50,
                each.source(self._durations),
            )
            for key, each in sorted(held.items(), key=lambda item: (-len(ends[item[0]]), min(ends[item[0]]), item[0]))
        )
