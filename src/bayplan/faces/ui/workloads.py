"""The workloads of a cluster: how many pods each of them wants and has, and the pods of one.

A Deployment's ReplicaSets and a CronJob's Jobs are not workloads of their own. An odd object costs itself only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from bayplan.answers.insight.answers import Progress, QuestionError, plural, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.owners import WORKLOADS, kind_called, owned_by
from bayplan.answers.insight.questions.pending import PendingPods
from bayplan.answers.insight.questions.workload import is_run_of, wanted_pods
from bayplan.answers.insight.readiness import is_ready
from bayplan.answers.simulation.owners import references_in
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import CRON_JOB, DEPLOYMENT, POD, Kind
from bayplan.core.api.objects import UndecodableObject, decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.faces.ui.about import object_address
from bayplan.faces.ui.packing import packed
from bayplan.faces.ui.reports import PodRow, WorkloadKey, first_helps, pod_row, workload_key

EACH = 1000
"""Workloads or pods between two calls of `progress`."""


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A workload. `wanted`: how many pods it should have now; None if unknown. `missing`: how many don't exist.

    Pods that are being deleted don't count.
    """

    kind: str
    namespace: str
    name: str
    wanted: int | None
    ready: int
    placed: int
    pending: int
    missing: int


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A pod of a workload. `node`: "" if it is pending. `created`: as text; "" if unknown."""

    row: PodRow
    node: str
    ready: bool
    created: str


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """A workload, its pods (the pending ones first), and why others are pending or don't exist.

    `address`: the page with its YAML; "" if the cluster's objects have none. `entries`: as `packed` returns them.
    """

    row: WorkloadRow
    pending: PendingPods
    pods: tuple[MemberRow, ...]
    address: str
    entries: Mapping[str, str]


def workload_rows(insight: Insight, progress: Progress = silent) -> tuple[WorkloadRow, ...]:
    """Return all workloads: those that lack most pods first, then by namespace and name.

    What a Deployment or a CronJob owns is no workload of its own. Raises Stopped if `progress` does.
    """
    members: dict[WorkloadKey, list[PodInfo]] = {}
    for number, pod in enumerate(_pods(insight).values()):
        if not number % EACH:
            progress(plural(number, "pod"))
        key = workload_key(pod)
        if key is not None:
            members.setdefault(key, []).append(pod)
    wanted: dict[WorkloadKey, int | None] = dict.fromkeys(members)
    for kind in WORKLOADS:
        for number, (name, raw) in enumerate(insight.snapshot.of_kind(kind).items()):
            if not number % EACH:
                progress(plural(number, kind.singular))
            namespace, _, own = name.partition("/")
            if not _is_owned(own, raw):
                wanted[kind.singular, namespace, own] = _wanted(insight.snapshot, kind, name)
    rows = [_row(key, wanted[key], members.get(key, ())) for key in wanted]
    return tuple(sorted(rows, key=lambda row: (-row.pending - row.missing, row.namespace, row.name, row.kind)))


def workload_report(
    insight: Insight, namespace: str, kind: str, name: str, progress: Progress = silent
) -> WorkloadReport:
    """Report on a workload. Raises QuestionError if there is none, and Stopped if `progress` does."""
    known = kind_called(kind)
    key = f"{namespace}/{name}"
    if known in WORKLOADS:
        pending = insight.explain_owner(kind, name, namespace, progress=progress)
        members = owned_by(insight.snapshot, _pods(insight), known, namespace, name)
        wanted = _wanted(insight.snapshot, known, key)
        shown, address = known.singular, object_address(known, key) if key in insight.snapshot.of_kind(known) else ""
    else:  # pods of a controller that only they name
        shown, wanted, address = kind.lower(), None, ""
        owner = shown, namespace, name
        members = sorted((p for p in _pods(insight).values() if workload_key(p) == owner), key=lambda pod: pod.key)
        if not members:
            raise QuestionError(f"there is no {shown} {key} with pods in {insight.snapshot.source}")
        uids = {pod.uid for pod in members}
        pending = insight.explain_all(namespace, lambda pod: pod.uid in uids, free=False, progress=progress)
    rows = [
        MemberRow(
            pod_row(pod),
            pod.node_name,
            is_ready(pod),
            pod.creation_timestamp.isoformat() if pod.creation_timestamp else "",
        )
        for pod in sorted(members, key=lambda pod: (bool(pod.node_name), pod.key))
    ]
    entries = packed(insight, first_helps(pending))
    return WorkloadReport(_row((shown, namespace, name), wanted, members), pending, tuple(rows), address, entries)


def _pods(insight: Insight) -> Mapping[str, PodInfo]:
    pods: Mapping[str, PodInfo] = insight.world.state.objects[POD]
    return pods


def _row(key: WorkloadKey, wanted: int | None, pods: Iterable[PodInfo]) -> WorkloadRow:
    living = [pod for pod in pods if not pod.terminating]
    placed = sum(bool(pod.node_name) for pod in living)
    missing = 0 if wanted is None else max(wanted - len(living), 0)
    return WorkloadRow(*key, wanted, sum(map(is_ready, living)), placed, len(living) - placed, missing)


def _is_owned(name: str, raw: bytes) -> bool:
    """Whether a Deployment or the schedule of a CronJob made the object, so that its pods count there."""
    try:
        owners = references_in(raw)
    except msgspec.MsgspecError:
        return False
    return any(
        owner.controller
        and (owner.kind == DEPLOYMENT.kind or (owner.kind == CRON_JOB.kind and is_run_of(owner.name, name)))
        for owner in owners
    )


def _wanted(snapshot: Snapshot, kind: Kind, key: str) -> int | None:
    """How many pods a workload should have; None if that isn't known, as of an object that can't be decoded."""
    raw = snapshot.of_kind(kind).get(key)
    if raw is None:
        return None
    try:
        decode(kind.type, raw)
    except UndecodableObject:
        return None
    return wanted_pods(snapshot, kind, key)
