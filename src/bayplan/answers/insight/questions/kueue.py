"""Why Kueue does not admit a workload: which quota of which queue and flavor lacks how much, who borrows, which check
says what, and its place in the queue.

Kueue's objects are read from the snapshot, in v1beta1 and v1beta2. Numbers are as Kueue reported them last: quota that
is reserved, in the status of each ClusterQueue, and shares. Kueue's own decisions are not simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.questions.quotas_of_kueue import CohortCycleError, Lack, QuotaNode, lacks, quota_tree
from bayplan.answers.simulation.owners import references_in
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import kueue, requests
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.objects import convert
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.cluster.pod_info import PodInfo

_SHOWN = 3
_HOLDS = {"Hold", "HoldAndDrain"}
_READY = "Ready"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueuedObject:
    """The object that a Workload is for, such as a Job: its kind, namespace, name and uid.

    `workload`: the name of the Workload, if the object tells it. `queue`: that of its LocalQueue, by its label.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    workload: str = ""
    queue: str = ""

    @classmethod
    def of(cls, kind: str, document: Document) -> QueuedObject:
        """The owner that an object is."""
        metadata = document.get("metadata") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        return cls(
            kind,
            metadata.get("namespace") or "default",
            metadata.get("name") or "",
            metadata.get("uid") or "",
            str(annotations.get(kueue.WORKLOAD_ANNOTATION) or ""),
            str(labels.get(kueue.QUEUE_LABEL) or ""),
        )


def why_not_admitted(snapshot: Snapshot, owners: Iterable[QueuedObject]) -> Iterator[str]:
    """Yield why the Workload of one of these objects isn't admitted; nothing if it is, or if Kueue knows none."""
    owners = list(owners)
    yield from _unknown_versions(snapshot)
    try:
        found = _workload_of(snapshot, owners)
        if found is not None:
            yield from _why(snapshot, found)
        elif queued := next((each for each in owners if each.queue), None):
            yield from _without_workload(snapshot, queued)
    except (msgspec.MsgspecError, InvalidQuantity, AttributeError, TypeError, ValueError, RecursionError) as error:
        yield f"an object of Kueue can't be read: {error}"


def gated_by_kueue(snapshot: Snapshot, pod: PodInfo) -> Iterator[str]:
    """Yield why the workload of a pod isn't admitted that has Kueue's scheduling gate; nothing for other pods."""
    if kueue.ADMISSION_GATE not in pod.scheduling_gates:
        return
    own = QueuedObject.of(POD.kind, msgspec.json.decode(pod.raw))
    owners = (QueuedObject(each.kind, pod.namespace, each.name, each.uid) for each in references_in(pod.raw))
    yield from why_not_admitted(snapshot, [own, *owners])


def _unknown_versions(snapshot: Snapshot) -> Iterator[str]:
    for kind, known in snapshot.documents.items():
        if kind.group == kueue.GROUP and kind.version not in kueue.VERSIONS:
            versions = " and ".join(sorted(kueue.VERSIONS))
            yield (
                f"{plural(len(known), 'object')} of {kind.plural} in {kueue.GROUP}/{kind.version} are not read: "
                f"{versions} are known"
            )


def _workload_of(snapshot: Snapshot, owners: Iterable[QueuedObject]) -> Document | None:
    for owner in owners:
        named = _named(snapshot, kueue.WORKLOADS, owner.workload, owner.namespace) if owner.workload else None
        if named is not None:
            return named
        for key in snapshot.of_kind(kueue.WORKLOADS):
            document = snapshot.document(kueue.WORKLOADS, key) or {}
            metadata = document.get("metadata") or {}
            if metadata.get("namespace", "default") != owner.namespace:
                continue
            for reference in metadata.get("ownerReferences") or ():
                same = (reference.get("kind"), reference.get("name")) == (owner.kind, owner.name)
                if same and owner.uid in {"", reference.get("uid", "")}:
                    return document
    return None


def _without_workload(snapshot: Snapshot, owner: QueuedObject) -> Iterator[str]:
    if snapshot.of_kind(kueue.CLUSTER_QUEUES) or snapshot.of_kind(kueue.LOCAL_QUEUES):
        yield f"Kueue has made no workload for {owner.kind.lower()} {owner.namespace}/{owner.name}: does Kueue run?"
        yield from _queue_problems(snapshot, owner.namespace, owner.queue)


def _why(snapshot: Snapshot, workload: Document) -> Iterator[str]:
    metadata, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    namespace, name = metadata.get("namespace", "default"), metadata["name"]
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    if _is_true(conditions, "Admitted") or _is_true(conditions, "Finished"):
        return
    if spec.get("active") is False:
        yield f"workload {namespace}/{name} is not active (spec.active: false), so Kueue doesn't admit it"
        return
    if _is_true(conditions, "QuotaReserved"):
        yield from _checks(snapshot, workload)
        return
    problems = list(_queue_problems(snapshot, namespace, spec.get("queueName") or ""))
    yield from problems
    queue = _cluster_queue_of(snapshot, namespace, spec.get("queueName") or "")
    if queue is not None:
        if not problems:
            yield from _quota_problems(snapshot, queue["metadata"]["name"], _requested(spec))
        yield from _place_in_queue(snapshot, workload, queue["metadata"]["name"])
    said = (conditions.get("QuotaReserved") or {}).get("message")
    if said:
        yield f"Kueue says of workload {namespace}/{name}: {said}"


def _queue_problems(snapshot: Snapshot, namespace: str, name: str) -> Iterator[str]:
    local = _named(snapshot, kueue.LOCAL_QUEUES, name, namespace)
    if local is None:
        yield f"there is no localqueue {namespace}/{name}"
        return
    if (local.get("spec") or {}).get("stopPolicy") in _HOLDS:
        yield f"localqueue {namespace}/{name} is stopped (stopPolicy: {local['spec']['stopPolicy']})"
    wanted = (local.get("spec") or {}).get("clusterQueue") or ""
    queue = _named(snapshot, kueue.CLUSTER_QUEUES, wanted)
    if queue is None:
        yield f"there is no clusterqueue {wanted}, which localqueue {namespace}/{name} names"
        return
    if (queue.get("spec") or {}).get("stopPolicy") in _HOLDS:
        yield f"clusterqueue {wanted} is stopped (stopPolicy: {queue['spec']['stopPolicy']})"
    for condition in (queue.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Active" and condition.get("status") == "False":
            yield f"clusterqueue {wanted} is not active: {condition.get('message') or condition.get('reason')}"


def _quota_problems(snapshot: Snapshot, queue: str, requested: Mapping[str, int]) -> Iterator[str]:
    queues, cohorts = _all(snapshot, kueue.CLUSTER_QUEUES), _all(snapshot, kueue.COHORTS)
    try:
        node = quota_tree(queues, cohorts, queue)
    except CohortCycleError as error:
        yield f"Kueue admits nothing in clusterqueue {queue}: {error}"
        return
    if node is not None:
        yield from map(_lack_text, lacks(node, requested))
        yield from _fair_sharing(snapshot, node)


def _fair_sharing(snapshot: Snapshot, queue: QuotaNode) -> Iterator[str]:
    """Which ClusterQueues come first by fair sharing, at each level of the tree, if Kueue reports shares."""
    waiting = {found for each in _all(snapshot, kueue.WORKLOADS) if (found := _waits_in(snapshot, each))}
    node: QuotaNode | None = queue
    while node is not None and node.parent is not None:
        own = _share_of(node)
        first = [
            f"{each} ({share})"
            for each in node.parent.children
            if each is not node
            and own is not None
            and (share := _share_of(each)) is not None
            and share < own
            and any(one.name in waiting for one in each.all() if one.kind == queue.kind)
        ]
        if first:
            yield f"by fair sharing, workloads of {listed(first, _SHOWN)} come first: {node} has a share of {own}"
        node = node.parent


def _share_of(node: QuotaNode) -> int | None:
    """What a ClusterQueue or cohort borrows, in relation to what can be lent and to its weight, as Kueue reports it."""
    share = ((node.document.get("status") or {}).get("fairSharing") or {}).get("weightedShare")
    return share if isinstance(share, int) else None


def _lack_text(lack: Lack) -> str:
    text = (
        f"clusterqueue {lack.queue}, flavor {lack.flavor}: {lack.shown(lack.requested)} {lack.resource} requested, "
        f"{lack.shown(lack.free)} of the quota of {lack.shown(lack.nominal)} free"
    )
    if lack.borrowable:
        text += f" and {lack.shown(lack.borrowable)} to borrow in cohort {lack.cohort}"
    text += f": {lack.shown(lack.missing)} more needed"
    if lack.borrowers:
        who = ", ".join(f"{name} borrows {lack.shown(amount)}" for name, amount in lack.borrowers)
        text += f"; in its cohort, {who}"
    if lack.limit:
        text += f"; the borrowingLimit of {lack.limit} lets it have no more"
    if lack.keepers:
        text += "; not lent: " + ", ".join(f"{lack.shown(amount)} of {name}" for name, amount in lack.keepers)
    return text


def _place_in_queue(snapshot: Snapshot, workload: Document, queue: str) -> Iterator[str]:
    """The workload's place among those that wait for quota of the same ClusterQueue: by priority, then by age."""

    def order(each: Document) -> tuple[int, str, str]:
        metadata = each["metadata"]
        return (
            -((each.get("spec") or {}).get("priority") or 0),
            metadata.get("creationTimestamp") or "",
            metadata["name"],
        )

    before = sorted((each for each in _all(snapshot, kueue.WORKLOADS) if _waits_in(snapshot, each) == queue), key=order)
    names = [f"{each['metadata'].get('namespace', 'default')}/{each['metadata']['name']}" for each in before]
    own = f"{workload['metadata'].get('namespace', 'default')}/{workload['metadata']['name']}"
    if own not in names:
        return
    place = names.index(own)
    first = f"; before it: {listed(names[:place], _SHOWN)}" if place else ""
    yield f"workload {own} is number {place + 1} of {len(names)} that wait in clusterqueue {queue}{first}"


def _waits_in(snapshot: Snapshot, workload: Document) -> str:
    """The ClusterQueue in which a workload waits for quota; "" if it doesn't."""
    conditions = {one.get("type"): one for one in (workload.get("status") or {}).get("conditions") or ()}
    spec = workload.get("spec") or {}
    if spec.get("active") is False or any(_is_true(conditions, one) for one in ("QuotaReserved", "Finished")):
        return ""
    found = _cluster_queue_of(snapshot, workload["metadata"].get("namespace", "default"), spec.get("queueName") or "")
    return "" if found is None else str(found["metadata"]["name"])


def _checks(snapshot: Snapshot, workload: Document) -> Iterator[str]:
    """What the admission checks of a workload say that has its quota."""
    name = f"{workload['metadata'].get('namespace', 'default')}/{workload['metadata']['name']}"
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check.get("state") == _READY:
            continue
        said = check.get("message") or "no message"
        yield f"workload {name} has its quota; admission check {check.get('name')} is {check.get('state')}: {said}"
        definition = _named(snapshot, kueue.ADMISSION_CHECKS, check.get("name") or "")
        for condition in ((definition or {}).get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Active" and condition.get("status") == "False":
                yield f"admission check {check.get('name')} is not active: {condition.get('message')}"


def _requested(spec: Document) -> dict[str, int]:
    """What all pods of a workload request, in billionths of units."""
    total: dict[str, int] = {}
    for pod_set in spec.get("podSets") or ():
        template = pod_set.get("template") or {}
        pod = convert(Pod, {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}})
        for name, amount in requests.pod_requests(pod).items():
            total[name] = total.get(name, 0) + amount * (pod_set.get("count") or 0)
    return total


def _cluster_queue_of(snapshot: Snapshot, namespace: str, local: str) -> Document | None:
    found = _named(snapshot, kueue.LOCAL_QUEUES, local, namespace)
    wanted = ((found or {}).get("spec") or {}).get("clusterQueue")
    return _named(snapshot, kueue.CLUSTER_QUEUES, wanted) if wanted else None


def _named(snapshot: Snapshot, kind: Kind, name: str, namespace: str = "") -> Document | None:
    if namespace:
        return snapshot.document(kind, f"{namespace}/{name}")
    # An object without a namespace that was written by hand counts as one of the namespace "default".
    return snapshot.document(kind, name) or snapshot.document(kind, f"default/{name}")


def _all(snapshot: Snapshot, kind: Kind) -> list[Document]:
    return [snapshot.document(kind, key) or {} for key in snapshot.of_kind(kind)]


def _is_true(conditions: Mapping[str, Any], type_: str) -> bool:
    return (conditions.get(type_) or {}).get("status") == "True"
