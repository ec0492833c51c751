"""The jobs of `benchmarks/when.py` and `benchmarks/when_truth.py`: their sizes, and how long they run.

A job is one pod. Its run time is drawn from the distribution of its kind, which is all that a forecast is told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bayplan.answers.insight.durations import run_time_of

Document = dict[str, Any]

CPU = 8
"""Of each node."""
ROUNDED = 0.1
"""Seconds to which starts are rounded."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """Jobs of one kind: the cpu that each asks for, and the seconds that half and nine of ten of them take at most."""

    name: str
    cpu: int
    p50: float
    p90: float


KINDS = (
    JobKind("lint", 1, 15, 40),
    JobKind("build", 2, 25, 60),
    JobKind("train", 4, 40, 90),
    JobKind("index", 2, 50, 75),
)


@dataclass(frozen=True, slots=True)
class Job:
    """A job, and how long it really runs."""

    name: str
    kind: JobKind
    runs: float

    @property
    def pod(self) -> Document:
        """The spec of its pod."""
        requests = {"cpu": str(self.kind.cpu), "memory": f"{self.kind.cpu}Gi"}
        return {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "job:1", "resources": {"requests": requests}}],
        }


def jobs(number: int, seed: int, scale: float = 1.0) -> list[Job]:
    """Return jobs of random kinds. `scale`: of all run times."""
    rng = random.Random(seed)
    found = []
    for each in range(number):
        kind = rng.choice(KINDS)
        runs = run_time_of({"p50": kind.p50, "p90": kind.p90}).at(rng.random())
        found.append(Job(f"{kind.name}-{each:05}", kind, runs * scale))
    return found


def told(scale: float = 1.0) -> Mapping[str, Any]:
    """Return what a forecast is told: the distribution of each kind."""
    return {f"job default/{kind.name}-*": {"p50": kind.p50 * scale, "p90": kind.p90 * scale} for kind in KINDS}


def truth(found: Sequence[Job]) -> Mapping[str, Any]:
    """Return how long each job really runs."""
    return {f"job default/{job.name}": job.runs for job in found}


def cluster(nodes: int, waiting: int, seed: int, now: datetime, scale: float = 1.0) -> tuple[list[Document], list[Job]]:
    """Return a full cluster at some moment, with jobs that run and jobs that wait, and these jobs."""
    rng = random.Random(seed)
    documents = [_node(number) for number in range(nodes)]
    running: list[Job] = []
    free = [float(CPU)] * nodes
    for job in jobs(nodes * CPU * 3, seed + 1, scale):
        fits = [number for number in range(nodes) if free[number] >= job.kind.cpu]
        age = rng.random() * 2 * job.kind.p50 * scale
        if not fits:
            break
        if job.runs > age:  # of those that began so long ago, this one still runs
            node = rng.choice(fits)
            free[node] -= job.kind.cpu
            running.append(Job(f"{job.kind.name}-r{len(running):05}", job.kind, job.runs))
            documents.append(_pod(running[-1], now - timedelta(seconds=age), f"node-{node:03}"))
    pending = jobs(waiting, seed + 2, scale)
    for place, job in enumerate(pending):
        documents.append(_pod(job, now - timedelta(seconds=60) + timedelta(milliseconds=place), ""))
    return documents, [*running, *pending]


def job_document(job: Job, annotations: Mapping[str, str]) -> Document:
    """Return a Job as a user creates it."""
    template = {"metadata": {"annotations": dict(annotations)}, "spec": job.pod}
    return {"metadata": {"name": job.name, "namespace": "default"}, "spec": {"template": template, "backoffLimit": 0}}


def _node(number: int) -> Document:
    name, room = f"node-{number:03}", {"cpu": str(CPU), "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "pool": f"pool-{number % 2}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": room, "capacity": room},
    }


def _pod(job: Job, began: datetime, node: str) -> Document:
    """The pod of a job: it runs since `began` if it has a node; else, it was created then."""
    time = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.name, "controller": True}
    metadata = {"name": f"{job.name}-0", "namespace": "default", "uid": job.name, "creationTimestamp": time}
    spec = {**job.pod, **({"nodeName": node} if node else {})}
    status = {"phase": "Running", "startTime": time} if node else {"phase": "Pending"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {"app": job.kind.name}, "ownerReferences": [owner]},
        "spec": spec,
        "status": status,
    }


def covered(pairs: Sequence[tuple[float | None, float | None, float]]) -> Iterator[bool]:
    """Yield for p10, p90 and the true start of each job whether that is between them, as far as they are rounded."""
    for p10, p90, true in pairs:
        yield p10 is not None and p10 - ROUNDED <= true and (p90 is None or true <= p90 + ROUNDED)
