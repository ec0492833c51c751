"""Why Kueue does not admit a workload: which quota of which queue and flavor lacks how much, who borrows, which check
says what, and its place in the queue.

Kueue's objects are read from the snapshot, in v1beta1 and v1beta2. Numbers are as Kueue reported them last: quota that
is reserved, in the status of each ClusterQueue, and shares. Kueue's own decisions are not simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from lightkube.models.core_v1 import Pod

from bayplan.answers.insight.answers import listed
from bayplan.answers.insight.questions.kueue_objects import (
    HOLDS,
    KueueObjects,
    QueuedObject,
    conditions_of,
    is_true,
    name_of,
)
from bayplan.answers.insight.questions.preemption_of_kueue import NEVER, QuotaPreemption
from bayplan.answers.insight.questions.quotas_of_kueue import CohortCycleError, Document, Lack, QuotaNode, lacks
from bayplan.answers.simulation.owners import references_in
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import kueue, requests
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import convert
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.cluster.pod_info import PodInfo

_SHOWN = 3
_READY = "Ready"
_NANOS = 10**9


UNREADABLE = (msgspec.MsgspecError, InvalidQuantity, AttributeError, TypeError, ValueError, KeyError, RecursionError)
"""What odd objects of Kueue raise."""


def why_not_admitted(snapshot: Snapshot, owners: Iterable[QueuedObject]) -> Iterator[str]:
    """Yield why the Workload of one of these objects isn't admitted; nothing if it is, or if Kueue knows none."""
    owners, objects = list(owners), KueueObjects(snapshot)
    yield from objects.unknown_versions()
    try:
        found = objects.workload_of(owners)
        if found is not None:
            yield from why_workload(objects, found)
        elif queued := next((each for each in owners if each.queue), None):
            yield from _without_workload(objects, queued)
    except UNREADABLE as error:
        yield f"an object of Kueue can't be read: {error}"


def gated_by_kueue(snapshot: Snapshot, pod: PodInfo) -> Iterator[str]:
    """Yield why the workload of a pod isn't admitted that has Kueue's scheduling gate; nothing for other pods."""
    if kueue.ADMISSION_GATE in pod.scheduling_gates:
        yield from why_not_admitted(snapshot, owners_of_pod(pod))


class AdmissionCauses:
    """Why Kueue does not admit the workloads of gated pods, in few words: many pods have the same cause."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._objects = KueueObjects(snapshot)
        self._known: dict[tuple[str, str], str] = {}
        """By the namespace and the name of a Workload."""

    def of(self, pod: PodInfo) -> str | None:
        """The cause of a pod with Kueue's gate as its only one; None for other pods, and if Kueue tells none."""
        if pod.scheduling_gates != (kueue.ADMISSION_GATE,):
            return None
        try:
            found = self._cause(owners_of_pod(pod))
        except UNREADABLE as error:
            return f"an object of Kueue can't be read: {error}"
        return f"not admitted by Kueue: {found}" if found else None

    def _cause(self, owners: list[QueuedObject]) -> str:
        workload = self._objects.workload_of(owners)
        if workload is None:
            queued = next((each for each in owners if each.queue), None)
            if queued is None or not self._objects.there:
                return ""
            problems = queue_problems(self._objects, queued.namespace, queued.queue)
            return next(problems, "Kueue has made no workload for it")
        key = name_of(workload)
        if key not in self._known:
            self._known[key] = _in_few_words(self._objects, workload)
        return self._known[key]


def _in_few_words(objects: KueueObjects, workload: Document) -> str:
    """Why a workload isn't admitted, without its name and its amounts; "" if it is admitted."""
    spec = workload.get("spec") or {}
    if is_true(workload, "Admitted") or is_true(workload, "Finished"):
        return ""
    if spec.get("active") is False:
        return "its workload is not active (spec.active: false)"
    if is_true(workload, "QuotaReserved"):
        waits = [f"{each.get('name')} is {each.get('state')}" for each in _open_checks(workload)]
        return f"it has its quota; admission check {' and '.join(waits)}" if waits else "it has its quota"
    namespace, _ = name_of(workload)
    if problem := next(queue_problems(objects, namespace, spec.get("queueName") or ""), ""):
        return problem
    queue = objects.waits_in(workload)
    try:
        node = objects.quota_tree(queue)
    except CohortCycleError as error:
        return f"{error}"
    found = [] if node is None else list(lacks(node, requested(spec)))
    if not found:
        return f"it waits for its turn in clusterqueue {queue}"
    what = dict.fromkeys(f"{lack.resource} in flavor {lack.flavor}" for lack in found)
    return f"clusterqueue {queue} has too little quota left of {' and '.join(what)}"


def owners_of_pod(pod: PodInfo) -> list[QueuedObject]:
    """What the Workload of a pod may be for."""
    own = QueuedObject.of(POD.kind, msgspec.json.decode(pod.raw))
    references = references_in(pod.raw)
    return [own, *(QueuedObject(each.kind, pod.namespace, each.name, each.uid, queue=own.queue) for each in references)]


def _without_workload(objects: KueueObjects, owner: QueuedObject) -> Iterator[str]:
    if objects.there:
        yield f"Kueue has made no workload for {owner.kind.lower()} {owner.namespace}/{owner.name}: does Kueue run?"
        yield from queue_problems(objects, owner.namespace, owner.queue)


def why_workload(objects: KueueObjects, workload: Document) -> Iterator[str]:
    """Yield why a Workload isn't admitted; nothing if it is."""
    spec, (namespace, name) = workload.get("spec") or {}, name_of(workload)
    if is_true(workload, "Admitted") or is_true(workload, "Finished"):
        return
    if spec.get("active") is False:
        yield f"workload {namespace}/{name} is not active (spec.active: false), so Kueue doesn't admit it"
        return
    if is_true(workload, "QuotaReserved"):
        yield from _checks(objects, workload)
        return
    problems = list(queue_problems(objects, namespace, spec.get("queueName") or ""))
    yield from problems
    queue = objects.cluster_queue_of(namespace, spec.get("queueName") or "")
    if queue is not None:
        if not problems:
            yield from _quota_problems(objects, queue["metadata"]["name"], workload)
        if objects.waits_in(workload):
            yield _place_text(objects, workload, queue["metadata"]["name"])
    said = (conditions_of(workload).get("QuotaReserved") or {}).get("message")
    if said:
        yield f"Kueue says of workload {namespace}/{name}: {said}"


def queue_problems(objects: KueueObjects, namespace: str, name: str) -> Iterator[str]:
    """Yield why nothing is admitted in a LocalQueue, whatever quota is free."""
    local = objects.named(kueue.LOCAL_QUEUES, name, namespace)
    if local is None:
        yield f"there is no localqueue {namespace}/{name}"
        return
    if (local.get("spec") or {}).get("stopPolicy") in HOLDS:
        yield f"localqueue {namespace}/{name} is stopped (stopPolicy: {local['spec']['stopPolicy']})"
    wanted = (local.get("spec") or {}).get("clusterQueue") or ""
    queue = objects.named(kueue.CLUSTER_QUEUES, wanted)
    if queue is None:
        yield f"there is no clusterqueue {wanted}, which localqueue {namespace}/{name} names"
        return
    if (queue.get("spec") or {}).get("stopPolicy") in HOLDS:
        yield f"clusterqueue {wanted} is stopped (stopPolicy: {queue['spec']['stopPolicy']})"
    for condition in (queue.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Active" and condition.get("status") == "False":
            yield f"clusterqueue {wanted} is not active: {condition.get('message') or condition.get('reason')}"


def _quota_problems(objects: KueueObjects, queue: str, workload: Document) -> Iterator[str]:
    wanted = requested(workload.get("spec") or {})
    try:
        node = objects.quota_tree(queue)
    except CohortCycleError as error:
        yield f"Kueue admits nothing in clusterqueue {queue}: {error}"
        return
    if node is None:
        return
    found = list(lacks(node, wanted))
    yield from map(lack_text, found)
    if found:
        yield from _preemption(QuotaPreemption(objects, node, workload, wanted), found)
    yield from _fair_sharing(objects, node)


def _preemption(preemption: QuotaPreemption, found: Iterable[Lack]) -> Iterator[str]:
    """Which workloads Kueue preempts for one that lacks so much, or why it preempts none."""
    policies, queue = preemption.policies, preemption.queue
    said = [f"{name}: {policy}" for name, policy in policies.items()]
    if set(policies.values()) == {NEVER}:
        if any(lack.borrowers for lack in found):
            yield f"Kueue preempts no workload for it: {queue} has {', '.join(said)}"
    elif queue.parent is not None and any(_share_of(node) is not None for node in queue.root().all()):
        yield "which workloads Kueue would preempt for it by fair sharing is not computed"
    elif victims := preemption.victims():
        named = [f"workload {each.workload} of clusterqueue {each.queue} ({each.why.value})" for each in victims]
        yield f"when it has its turn, Kueue preempts {listed(named, _SHOWN)} for it"
    else:
        yield f"Kueue preempts no workload for it: those that {queue} may preempt hold too little ({', '.join(said)})"


def _fair_sharing(objects: KueueObjects, queue: QuotaNode) -> Iterator[str]:
    """Which ClusterQueues come first by fair sharing, at each level of the tree, if Kueue reports shares."""
    waiting = {found for each in objects.all(kueue.WORKLOADS) if (found := objects.waits_in(each))}
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


def lack_text(lack: Lack) -> str:
    """What a flavor lacks, for people."""
    text = f"{_requested_of(lack)}, {lack.shown(lack.free)} of the quota of {lack.shown(lack.nominal)} free"
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


def never_text(lack: Lack) -> str:
    """What a flavor lacks for an object that is never admitted, for people."""
    text = f"{_requested_of(lack)}, and its whole quota is {lack.shown(lack.nominal)}"
    if lack.borrowable:
        text += f", with {lack.shown(lack.borrowable)} to borrow in cohort {lack.cohort}"
    return f"{text}: {lack.shown(lack.missing)} too many"


def _requested_of(lack: Lack) -> str:
    return f"clusterqueue {lack.queue}, flavor {lack.flavor}: {lack.shown(lack.requested)} {lack.resource} requested"


def place_in_queue(objects: KueueObjects, workload: Document, queue: str) -> list[Document]:
    """Return the workloads that wait for quota of a ClusterQueue before this one: by priority, then by age."""

    def order(each: Document) -> tuple[int, str, str]:
        metadata = each["metadata"]
        return (
            -((each.get("spec") or {}).get("priority") or 0),
            metadata.get("creationTimestamp") or "",
            metadata["name"],
        )

    waiting = sorted((each for each in objects.all(kueue.WORKLOADS) if objects.waits_in(each) == queue), key=order)
    own = [name_of(each) for each in waiting].index(name_of(workload))
    return waiting[:own]


def _place_text(objects: KueueObjects, workload: Document, queue: str) -> str:
    before = ["/".join(name_of(each)) for each in place_in_queue(objects, workload, queue)]
    number = sum(objects.waits_in(each) == queue for each in objects.all(kueue.WORKLOADS))
    first = f"; before it: {listed(before, _SHOWN)}" if before else ""
    own = "/".join(name_of(workload))
    return f"workload {own} is number {len(before) + 1} of {number} that wait in clusterqueue {queue}{first}"


def _checks(objects: KueueObjects, workload: Document) -> Iterator[str]:
    """What the admission checks of a workload say that has its quota."""
    name = f"{workload['metadata'].get('namespace', 'default')}/{workload['metadata']['name']}"
    for check in _open_checks(workload):
        said = check.get("message") or "no message"
        yield f"workload {name} has its quota; admission check {check.get('name')} is {check.get('state')}: {said}"
        definition = objects.named(kueue.ADMISSION_CHECKS, check.get("name") or "")
        for condition in ((definition or {}).get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Active" and condition.get("status") == "False":
                yield f"admission check {check.get('name')} is not active: {condition.get('message')}"


def _open_checks(workload: Document) -> list[Document]:
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return [check for check in checks if check.get("state") != _READY]


def requested(spec: Document) -> dict[str, int]:
    """What all pods of a workload request, in billionths of units. Each counts as one of the `pods`, too."""
    total = {"pods": 0}
    for pod_set in spec.get("podSets") or ():
        total["pods"] += _NANOS * (pod_set.get("count") or 0)
        template = pod_set.get("template") or {}
        pod = convert(Pod, {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}})
        for name, amount in requests.pod_requests(pod).items():
            total[name] = total.get(name, 0) + amount * (pod_set.get("count") or 0)
    return total
