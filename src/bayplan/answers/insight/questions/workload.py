"""Why a workload has fewer pods than it asks for: what its controller and the API server say of the missing ones.

Pods that don't exist can't be asked about. Conditions, events and a try of the pod template tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.owners import owned_objects
from bayplan.answers.insight.questions.kueue import why_not_admitted
from bayplan.answers.insight.questions.kueue_objects import QueuedObject
from bayplan.answers.insight.questions.recorded_events import events_about
from bayplan.answers.insight.readiness import is_ready
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import manifests


FAILED_CREATE = "FailedCreate"
"""The reason of the events and conditions of controllers whose pods the API server refuses."""
_TRIAL = "bayplan-probe"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Missing:
    """The pods that a workload asks for (`wanted`), how many of them don't exist, and what is known of the reason."""

    wanted: int
    number: int
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as in docs/insight.md."""
        return {"pods": self.number, **fields_of(self, "number")}


def missing_pods(snapshot: Snapshot, kind: Kind, key: str, pods: Sequence[PodInfo], seed: int = 0) -> Missing | None:
    """Return the pods that a workload lacks; None if it lacks none, or isn't in the snapshot.

    `pods`: those that it has; terminated ones are not among them.
    """
    document = snapshot.document(kind, key)
    wanted = wanted_pods(snapshot, kind, key)
    living = [pod for pod in pods if not pod.terminating]
    if document is None or wanted is None or len(living) >= wanted:
        return None
    reasons = tuple(dict.fromkeys(_reasons(snapshot, kind, key, document, living, seed)))
    return Missing(wanted, wanted - len(living), reasons)


def wanted_pods(snapshot: Snapshot, kind: Kind, key: str) -> int | None:
    """How many pods there should be now; None if that isn't known. A CronJob wants what its jobs want."""
    document = snapshot.document(kind, key)
    if document is None:
        return None
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if kind in {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.REPLICATION_CONTROLLER, kinds.STATEFUL_SET}:
        return int(spec.get("replicas", 1) if spec.get("replicas") is not None else 1)
    if kind is kinds.DAEMON_SET:
        return status.get("desiredNumberScheduled")
    if kind is kinds.JOB:
        over = any(each.get("status") == "True" for each in status.get("conditions") or () if each["type"] in _OVER)
        left = (spec.get("completions") or spec.get("parallelism") or 1) - (status.get("succeeded") or 0)
        parallel = spec["parallelism"] if spec.get("parallelism") is not None else 1
        return 0 if over else max(min(parallel, left), 0)
    if kind is kinds.CRON_JOB:
        return sum(wanted_pods(snapshot, kinds.JOB, job) or 0 for job in _jobs(snapshot, key))
    return None


def is_run_of(cron_job: str, job: str) -> bool:
    """Whether the CronJob controller has given a job this name; both without namespaces.

    Pods tell of their CronJob only by the name of their job.
    """
    base, _, when = job.rpartition("-")
    return base == cron_job and when.isdecimal()


_OVER = {"Complete", "Failed"}


def _reasons(
    snapshot: Snapshot, kind: Kind, key: str, document: Document, pods: Sequence[PodInfo], seed: int
) -> Iterator[str]:
    if kind is kinds.CRON_JOB:
        for job in _jobs(snapshot, key):
            own = [pod for pod in pods if (kinds.JOB.kind, job.partition("/")[2]) in owners_of(pod)]
            missing = missing_pods(snapshot, kinds.JOB, job, own, seed)
            yield from missing.reasons if missing is not None else ()
        return
    makers = [(kind, key, document)]
    if kind is kinds.DEPLOYMENT:
        sets = _replica_sets(snapshot, key)
        makers = [(kinds.REPLICA_SET, f"{key.partition('/')[0]}/{each['metadata']['name']}", each) for each in sets]
    said = list(_said(snapshot, makers))
    yield from said
    spec, status = document.get("spec") or {}, document.get("status") or {}
    seen, latest = status.get("observedGeneration"), document["metadata"].get("generation")
    if latest is not None and seen is not None and latest != seen:
        yield f"the controller of the {kind.singular} has seen version {seen} of it, and the latest one is {latest}"
    elif kind is kinds.DEPLOYMENT and not makers:
        yield "no ReplicaSet was made for it: is the deployment controller running?"
    if kind is kinds.JOB and spec.get("suspend"):
        yield "the job is suspended"
        yield from why_not_admitted(snapshot, [QueuedObject.of(kind.kind, document)])
    if kind is kinds.STATEFUL_SET and spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady":
        waiting = next((pod for pod in sorted(pods, key=_ordinal) if not is_ready(pod)), None)
        if waiting is not None:
            yield f"pod {waiting.key} isn't Ready: the next one is created after it (podManagementPolicy: OrderedReady)"
    if not said and spec.get("template"):
        refusal = _refusal(snapshot, key.partition("/")[0], spec["template"], seed)
        if refusal:
            yield f"a pod of its template would be refused now: {refusal}"


def _replica_sets(snapshot: Snapshot, deployment: str) -> list[dict[str, Any]]:
    """The ReplicaSets of a Deployment that should have pods, the newest first."""
    found = [snapshot.document(kinds.REPLICA_SET, key) or {} for key in _owned(snapshot, kinds.REPLICA_SET, deployment)]
    found.sort(key=lambda each: each["metadata"].get("creationTimestamp") or "", reverse=True)
    return [each for each in found if (each.get("spec") or {}).get("replicas") != 0] or found[:1]


def _jobs(snapshot: Snapshot, cron_job: str) -> Iterator[str]:
    """The keys of the jobs that the schedule of a CronJob has made."""
    name = cron_job.partition("/")[2]
    return (key for key in _owned(snapshot, kinds.JOB, cron_job) if is_run_of(name, key.partition("/")[2]))


def _owned(snapshot: Snapshot, kind: Kind, owner: str) -> Iterator[str]:
    """The keys of the objects of a kind that a Deployment or a CronJob owns."""
    own = kinds.DEPLOYMENT if kind is kinds.REPLICA_SET else kinds.CRON_JOB
    return owned_objects(snapshot, kind, own, owner)


def _said(snapshot: Snapshot, makers: Sequence[tuple[Kind, str, Document]]) -> Iterator[str]:
    """What controllers say: their conditions, and their events where the snapshot has these."""
    for kind, key, document in makers:
        texts = [
            each.get("message") or each.get("reason") or ""
            for each in (document.get("status") or {}).get("conditions") or ()
            if each.get("type") == "ReplicaFailure" and each.get("status") == "True"
        ]
        texts = texts or [each.text for each in events_about(snapshot, kind, key, FAILED_CREATE)][-1:]
        yield from (f"{kind.singular} {key}: {_without_trace(text)}" for text in texts)


def _without_trace(message: str) -> str:
    """An event's message without what the recorder and the controllers put before the API server's words."""
    return re.sub(r"^(\(combined from similar events\): )?(Error creating: )?", "", message)


def _refusal(snapshot: Snapshot, namespace: str, template: Document, seed: int) -> str:
    """What the API server would say to a pod of a template now; "" if it would take it."""
    spec = dict(template.get("spec") or {})
    if not snapshot.of_kind(kinds.PRIORITY_CLASS):  # they were not read
        spec.pop("priorityClassName", None)
    labels = (template.get("metadata") or {}).get("labels") or {}
    metadata = {"name": _TRIAL, "namespace": namespace, "labels": labels}
    try:
        manifests.Manifests(snapshot, seed).expand(
            [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]
        )
    except QuestionError as error:
        return str(error).partition("): ")[2] or str(error)
    return ""


def _ordinal(pod: PodInfo) -> tuple[int, str]:
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0, pod.name
