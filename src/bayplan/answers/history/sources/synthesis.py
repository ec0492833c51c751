"""Makes up a history from a snapshot alone: what its workloads would do over days. It is marked as synthetic.

- Pods of Deployments and ReplicaSets follow a day curve, on which the snapshot is one point.
- Pods of CronJobs arrive by their schedules, and those of other Jobs once a day, at a time of the day curve.
- Every workload is rolled out anew from time to time, as far as its pods are replaced one by one.
- Jobs run as long as their pods in the snapshot did, or for the time that is given.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bayplan.answers.history.following import TERMINATED, Following, HistoryChange, date_of, key_of, kind_of
from bayplan.answers.history.format import HistoryError, HistoryManifest
from bayplan.answers.history.sources.arrivals import Arrivals, at_begin
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.writing import write_history
from bayplan.answers.snapshots import Snapshot
from bayplan.answers.snapshots.usable import UsableObjects
from bayplan.core.api.kinds import CRON_JOB, JOB, NODE, POD
from bayplan.core.expansion.cron_schedule import InvalidSchedule, parse

_STEP = timedelta(minutes=10)
"""How often workloads are scaled along the day curve."""
_PEAK_HOUR = 14.0
_MOST_OF_A_JOB = 1000
"""The most pods of one run of a Job that arrive."""
_BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
"""The begin, where the snapshot has no time: a Monday."""


@dataclass(frozen=True, slots=True)
class Synthesis:
    """How a history is made up."""

    days: float = 7.0
    seed: int = 0
    swing: float = 0.4
    """By what share there are fewer replicas at night than at the peak of the day, 0 to 1."""
    job_seconds: float = 600.0
    """How long pods of Jobs run whose snapshot doesn't show it. Single runs vary by half of that."""
    rollout_days: float = 7.0
    """The average time between two rollouts of a workload; 0: none."""


def synthesize(snapshot: Snapshot, folder: Path, synthesis: Synthesis) -> tuple[HistoryManifest, list[str]]:
    """Write a synthetic history to a folder. Returns its manifest and the faults of the snapshot, one line each.

    It depends on the arguments only. `begin`: by default the midnight before the snapshot. Raises HistoryError.
    """
    usable = UsableObjects(())
    snapshot = usable.of(snapshot)
    begin = (snapshot.taken or _BEGIN).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    maker = _Maker(snapshot, synthesis, begin)
    for problem in usable.problems:
        maker.problems.add(problem)
    if not snapshot.of_kind(NODE) and not snapshot.of_kind(POD):
        raise HistoryError(f"{snapshot.source or 'the snapshot'} has no nodes and no pods: nothing can be made up")
    changes = [*at_begin(snapshot, maker.following, begin), *maker.changes()]
    manifest = write_history(
        folder,
        changes,
        source=f"synthesized from {snapshot.source or 'a snapshot'}",
        begin=begin,
        end=maker.end,
        synthetic=True,
        notes=[*maker.notes(), *maker.problems.lines()],
    )
    return manifest, list(maker.problems.lines())


@dataclass(slots=True)
class _Workload:
    """The pods of one controller."""

    key: str
    """Kind, namespace and name."""
    namespace: str
    owner: Mapping[str, Any]
    pods: list[dict[str, Any]]


class _Maker:
    """Makes up what happens from a begin on."""

    def __init__(self, snapshot: Snapshot, synthesis: Synthesis, begin: datetime) -> None:
        self.following = Following()
        self.problems = Problems()
        self.end = begin + timedelta(days=synthesis.days)
        self._begin = begin
        self._taken = snapshot.taken or begin
        self._snapshot = snapshot
        self._synthesis = synthesis
        self._arrivals = Arrivals(snapshot, self.following, synthesis.seed)
        self._guessed = self._jobs = self._fixed = self._without_schedule = 0
        self._durations = _durations(snapshot)

    def changes(self) -> Iterator[HistoryChange]:
        """What happens, workload by workload."""
        cron_jobs = dict(_documents(self._snapshot, CRON_JOB))
        of_cron_jobs: dict[str, str] = {}
        runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for key, job in _documents(self._snapshot, JOB):
            if cron_job := _cron_job_of(key, job):
                of_cron_jobs[key] = cron_job
                runs[cron_job].append(job)
        for workload in self._workloads():
            kind, name = workload.owner["kind"], f"{workload.namespace}/{workload.owner['name']}"
            if kind in {"ReplicaSet", "ReplicationController", "StatefulSet"}:
                yield from self._replicas(workload, scales=kind != "StatefulSet")
            elif kind == "Job":
                yield from self._running_out(workload)
                if name not in of_cron_jobs:
                    yield from self._daily(workload)
            else:
                self._fixed += len(workload.pods)
        for key, document in sorted(cron_jobs.items()):
            yield from self._cron(key, document.get("spec") or {})
        for key, jobs in sorted(runs.items()):
            if key not in cron_jobs:
                self._without_schedule += 1
                yield from self._cron(key, _guessed(jobs))

    def _workloads(self) -> Iterator[_Workload]:
        found: dict[str, _Workload] = {}
        for key, pod in _documents(self._snapshot, POD):
            owner = next((each for each in _owners(pod) if each.get("controller")), None)
            if owner is None or (pod.get("status") or {}).get("phase") in TERMINATED:
                continue
            namespace = key.rpartition("/")[0]
            name = f"{owner.get('kind')} {namespace}/{owner.get('name')}"
            found.setdefault(name, _Workload(name, namespace, owner, [])).pods.append(pod)
        for name in sorted(found):
            yield found[name]

    def _random(self, key: str) -> random.Random:
        """The random numbers of one workload, so that others don't change them."""
        return random.Random(f"{self._synthesis.seed} {key}")

    def _level(self, time: datetime) -> float:
        """The height of the day curve: 1 at its peak."""
        hour = time.hour + time.minute / 60
        wave = (1 + math.cos((hour - _PEAK_HOUR) / 24 * 2 * math.pi)) / 2
        weekend = 0.5 if time.weekday() >= 5 else 1.0
        return 1 - self._synthesis.swing * (1 - wave * weekend)

    def _replicas(self, workload: _Workload, *, scales: bool) -> Iterator[HistoryChange]:
        """Replicas that are scaled along the day curve, and replaced by rollouts."""
        if not self._template(workload):
            return
        rng = self._random(workload.key)
        living = [key_of(pod) for pod in workload.pods]
        number = 0
        whole = len(living) / self._level(self._taken)
        rollout = self._next_rollout(rng, self._begin)
        time = self._begin + _STEP
        while time < self.end:
            target = max(1, round(whole * self._level(time))) if scales else len(living)
            if target != len(living):
                yield from self._scaled(workload, target, time)
            while len(living) > target:
                gone = living.pop(rng.randrange(len(living)))
                yield from self.following.removed(POD, gone, time + _jitter(rng))
            while len(living) < target:
                number += 1
                name = self._name(workload, number)
                living.append(f"{workload.namespace}/{name}")
                yield from self._arrives(workload, name, time + _jitter(rng))
            if rollout is not None and time >= rollout:
                yield from self._roll_out(workload, living, time, number)
                number += len(living)
                rollout = self._next_rollout(rng, time)
            time += _STEP

    def _scaled(self, workload: _Workload, replicas: int, time: datetime) -> Iterator[HistoryChange]:
        """The controller of pods, and its own one, such as a Deployment, have another number of replicas."""
        owner: Mapping[str, Any] = workload.owner
        for _ in range(2):
            kind = kind_of(str(owner.get("apiVersion")), str(owner.get("kind")))
            key = f"{workload.namespace}/{owner.get('name')}"
            document = self._snapshot.document(kind, key) if kind is not None else None
            if kind is None or document is None:
                return
            spec = {**(document.get("spec") or {}), "replicas": replicas}
            yield from self.following.put(kind, {**document, "spec": spec}, time)
            owner = next((each for each in _owners(document) if each.get("controller")), {})

    def _roll_out(self, workload: _Workload, living: list[str], time: datetime, number: int) -> Iterator[HistoryChange]:
        """Replace all pods one after the other, before the next step."""
        apart = min(5.0, 200 / len(living))
        for index, old in enumerate(living):
            at = time + timedelta(seconds=300 + apart * index)
            if at >= self.end:
                return
            name = self._name(workload, number + index + 1, old)
            yield from self.following.removed(POD, old, at)
            yield from self._arrives(workload, name, at + timedelta(seconds=1))
            living[index] = f"{workload.namespace}/{name}"

    def _name(self, workload: _Workload, number: int, replaced: str = "") -> str:
        """The name of a new pod: that of the pod that it replaces, in a StatefulSet."""
        if workload.owner["kind"] == "StatefulSet":
            return replaced.rpartition("/")[2]
        return f"{workload.owner['name']}-s{number}"

    def _next_rollout(self, rng: random.Random, after: datetime) -> datetime | None:
        days = self._synthesis.rollout_days
        return after + timedelta(days=rng.expovariate(1 / days)) if days > 0 else None

    def _template(self, workload: _Workload) -> bool:
        """Make the pods that new ones are copied from: one, or each of a StatefulSet, because it has its own claims."""
        pods = workload.pods if workload.owner["kind"] == "StatefulSet" else workload.pods[:1]
        for pod in pods:
            metadata = {
                each: value for each, value in pod["metadata"].items() if each in {"labels", "annotations", "namespace"}
            }
            spec = {each: value for each, value in pod["spec"].items() if each != "nodeName"}
            refused = self._arrivals.pod(
                self._copied(workload, pod["metadata"]["name"]), {"metadata": metadata, "spec": spec}
            )
            if refused:
                self.problems.add(f"new pods would be refused: {refused}: left out", workload.key)
                return False
        return True

    def _copied(self, workload: _Workload, name: str) -> str:
        return f"{workload.key} {name}" if workload.owner["kind"] == "StatefulSet" else workload.key

    def _arrives(
        self, workload: _Workload, name: str, time: datetime, runs: float | None = None
    ) -> Iterator[HistoryChange]:
        key = self._copied(workload, name)
        yield from self._arrivals.arrive(key, workload.namespace, name, time, runs, dict(workload.owner))

    def _running_out(self, workload: _Workload) -> Iterator[HistoryChange]:
        """The pods of Jobs that run at the start end some time."""
        rng = self._random(f"{workload.key} at the begin")
        seconds = self._job_seconds(f"{workload.namespace}/{workload.owner['name']}")
        for pod in workload.pods:
            if pod["spec"].get("nodeName"):
                end = self._begin + timedelta(seconds=rng.uniform(0, seconds))
                if end < self.end:
                    yield from self.following.removed(POD, key_of(pod), end, "Succeeded")

    def _daily(self, workload: _Workload) -> Iterator[HistoryChange]:
        """A Job of its own comes again once a day, rather by day than by night."""
        if not self._template(workload):
            return
        rng = self._random(workload.key)
        seconds = self._job_seconds(f"{workload.namespace}/{workload.owner['name']}")
        day = 0
        while (midnight := self._begin + timedelta(days=day)) < self.end:
            time = midnight + timedelta(hours=rng.gauss(_PEAK_HOUR, 4) % 24)
            day += 1
            for index in range(len(workload.pods)):
                if time < self.end:
                    name = f"{workload.owner['name']}-d{day}-{index}"
                    yield from self._arrives(workload, name, time + _jitter(rng, 5), _varied(rng, seconds))

    def _cron(self, key: str, spec: dict[str, Any]) -> Iterator[HistoryChange]:
        """The pods of a CronJob with this spec arrive by its schedule."""
        namespace, _, name = key.rpartition("/")
        job = (spec.get("jobTemplate") or {}).get("spec") or {}
        template = job.get("template") or {}
        if spec.get("suspend"):
            return
        try:
            schedule = parse(str(spec.get("schedule")), spec.get("timeZone"))
        except InvalidSchedule as error:
            self.problems.add(f"a CronJob has no valid schedule ({error}): left out", key)
            return
        metadata = {**(template.get("metadata") or {}), "namespace": namespace}
        refused = self._arrivals.pod(f"CronJob {key}", {"metadata": metadata, "spec": template.get("spec") or {}})
        if refused:
            self.problems.add(f"new pods would be refused: {refused}: left out", f"CronJob {key}")
            return
        rng = self._random(f"CronJob {key}")
        seconds = self._job_seconds(key)
        pods = min(int(job.get("parallelism") or 1), int(job.get("completions") or job.get("parallelism") or 1))
        due = schedule.after(self._begin)
        while due is not None and due < self.end:
            run = f"{name}-{int(due.timestamp()) // 60}"
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": run, "uid": run}
            for index in range(min(pods, _MOST_OF_A_JOB)):
                yield from self._arrivals.arrive(
                    f"CronJob {key}", namespace, f"{run}-{index}", due, _varied(rng, seconds), owner
                )
            due = schedule.after(due)

    def _job_seconds(self, key: str) -> float:
        """How long the pods of a Job or a CronJob run: as its Jobs in the snapshot, or as it is guessed."""
        self._jobs += 1
        durations = self._durations.get(key)
        if durations:
            return median(durations)
        self._guessed += 1
        return self._synthesis.job_seconds

    def notes(self) -> Iterator[str]:
        """What is made up."""
        yield f"arrivals are made up from a snapshot, with seed {self._synthesis.seed}: they are no measurements"
        if self._guessed:
            yield (
                f"the durations of {self._guessed:,} of {self._jobs:,} jobs are a guess of "
                f"{self._synthesis.job_seconds:,.0f} s: no finished Job in the snapshot shows them"
            )
        if self._without_schedule:
            yield (
                f"the schedules of {self._without_schedule:,} CronJobs are a guess from their Jobs: "
                "the snapshot has no CronJobs"
            )
        if self._fixed:
            yield f"{self._fixed:,} pods of DaemonSets, of other controllers and of nodes stay as they are"


def _durations(snapshot: Snapshot) -> Mapping[str, list[float]]:
    """The seconds that finished Jobs have run, by the key of the Job and of its CronJob."""
    found: dict[str, list[float]] = defaultdict(list)
    for key, job in _documents(snapshot, JOB):
        status = job.get("status") or {}
        began, ended = date_of(status.get("startTime")), date_of(status.get("completionTime"))
        if began is not None and ended is not None and ended > began:
            for each in filter(None, (key, _cron_job_of(key, job))):
                found[each].append((ended - began).total_seconds())
    return found


def _owners(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The owner references of an object, without those that name nothing."""
    found = document["metadata"].get("ownerReferences")
    known = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [each for each in known if isinstance(each.get("kind"), str) and isinstance(each.get("name"), str)]


def _cron_job_of(key: str, job: dict[str, Any]) -> str:
    """The key of the CronJob that a Job is from; "" if it isn't from one."""
    for owner in _owners(job):
        if owner.get("kind") == "CronJob":
            return f"{key.rpartition('/')[0]}/{owner.get('name')}"
    return ""


def _guessed(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """The spec of a CronJob that is known by its Jobs only: as often as they were created, or daily if there is one."""
    times = sorted(time for job in jobs if (time := date_of(job["metadata"].get("creationTimestamp"))) is not None)
    gaps = [(later - time).total_seconds() for time, later in pairwise(times)]
    every = max(60, round(median(gaps))) if gaps else 86400
    return {"schedule": f"@every {every}s", "jobTemplate": {"spec": jobs[-1].get("spec") or {}}}


def _documents(snapshot: Snapshot, kind: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in sorted(snapshot.of_kind(kind)):
        document = snapshot.document(kind, key)
        assert document is not None
        yield key, document


def _jitter(rng: random.Random, seconds: float = 60.0) -> timedelta:
    return timedelta(milliseconds=round(rng.uniform(0, seconds) * 1000))


def _varied(rng: random.Random, seconds: float) -> float:
    """A duration around an average, to the millisecond."""
    return round(seconds * rng.uniform(0.5, 1.5), 3)
