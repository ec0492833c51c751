"""Findings about Kueue's queues: workloads of the manifests that it would never admit, or not yet, and what they lack.

Kueue admits a Job, say, as a whole, and each pod of a Deployment alone. The quota that is free is what Kueue reported
last. The workloads of the manifests take it in their order; those that Kueue has admitted already keep theirs. Not
foreseen are preemption, pods that are admitted as a group, and what the labels and taints of flavors exclude.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from bayplan.answers.insight.answers import first_line, listed, plural
from bayplan.answers.insight.checking.fields import replicas_at
from bayplan.answers.insight.checking.findings import Finding, Given, GivenObjects
from bayplan.answers.insight.questions.kueue import UNREADABLE, lack_text, never_text, queue_problems
from bayplan.answers.insight.questions.kueue_objects import KueueObjects, is_true, name_of
from bayplan.answers.insight.questions.quotas_of_kueue import (
    ChangingQuotas,
    CohortCycleError,
    Lack,
    QuotaNode,
    Usage,
    lacks,
    quota_tree,
    uncovered,
    usage_of,
)
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import kueue
from bayplan.core.api.field_errors import join
from bayplan.core.api.kinds import CRON_JOB, DEPLOYMENT, POD
from bayplan.core.api.objects import convert
from bayplan.core.api.requests import pod_requests
from bayplan.core.api.suggestions import did_you_mean

Document = Mapping[str, Any]
PodsOf = Callable[[Document], Sequence[Document]]
"""The pods that an object would have."""

_NEVER, _WAITS = "kueue-never-admits", "kueue-waits"
_LABEL = join("metadata.labels", kueue.QUEUE_LABEL)
_NANOS = 10**9
_RAISE = "request less, or raise the nominalQuota of flavor {} in clusterqueue {} by {} {}"


class Queues:
    """The queues of a cluster that has the manifests, and what their workloads ask of them."""

    def __init__(self, snapshot: Snapshot, given: GivenObjects, pods_of: PodsOf) -> None:
        self._snapshot, self._given, self._pods_of = snapshot, given, pods_of
        self._objects = KueueObjects(snapshot)
        self._nodes: dict[str, QuotaNode] = {}
        """ClusterQueues by name. Those of one tree share its nodes."""

    def findings(self) -> Iterator[Finding]:
        """Yield what Kueue would not admit. A cluster without queues yields nothing."""
        if not self._objects.there:
            return
        queued = [each for each in self._given if self._queue_of(each)]
        for given in sorted(queued, key=lambda each: each not in self._held):
            try:
                yield from self._of(given, self._queue_of(given))
            except CohortCycleError as error:
                yield given.finding(_NEVER, str(error), "let no cohort be above itself", _LABEL)
            except UNREADABLE as error:
                message = f"an object of Kueue can't be read: {first_line(str(error))}"
                yield given.finding(_WAITS, message, "kubectl get clusterqueues,cohorts -o yaml shows it", _LABEL)

    def _queue_of(self, given: Given) -> str:
        """The LocalQueue that an object names; "" if it names none. A CronJob's Jobs come later."""
        document = self._snapshot.document(given.kind, given.key) or {}
        try:
            labels = (document.get("metadata") or {}).get("labels") or {}
            return "" if given.kind is CRON_JOB else str(labels.get(kueue.QUEUE_LABEL) or "")
        except UNREADABLE:
            return ""

    def _of(self, given: Given, name: str) -> Iterator[Finding]:
        namespace = given.key.partition("/")[0]
        problems = list(queue_problems(self._objects, namespace, name))
        queue = self._objects.cluster_queue_of(namespace, name)
        if queue is None:
            keys = (key.partition("/") for key in self._snapshot.of_kind(kueue.LOCAL_QUEUES))
            hint = did_you_mean(name, sorted(key for place, _, key in keys if place == namespace))
            step = "name a localqueue of its namespace, or create what is missing"
            yield given.finding(_NEVER, f"{problems[0]}{hint}", step, _LABEL)
            return
        for problem in problems:
            step = f"kubectl describe clusterqueue {queue['metadata']['name']} says what it waits for"
            yield given.finding(_WAITS, problem, step, _LABEL)
        parts = list(self._parts(given))
        lacking = uncovered(queue, sum(map(Counter, parts), Counter()))
        if lacking:
            what, whose = listed(lacking), queue["metadata"]["name"]
            message = f"clusterqueue {whose} has no quota of {what}, so that Kueue admits nothing that requests it"
            yield given.finding(_NEVER, message, f"add {what} to coveredResources of clusterqueue {whose}", _LABEL)
        else:
            yield from self._of_parts(given, queue["metadata"]["name"], parts)

    def _of_parts(self, given: Given, queue: str, parts: Sequence[Mapping[str, int]]) -> Iterator[Finding]:
        """What is lacking for parts of an object. Kueue admits each part as a whole; those that fit take quota."""
        node, emptied = self._node(queue), self._emptied(queue)
        never = [found for part in parts if (found := list(lacks(emptied, part)))]
        if never:
            message = "; ".join(map(never_text, never[0]))
            yield given.finding(_NEVER, _of_all(len(never), parts, message), _step(never[0]), replicas_at(given.kind))
            return
        waiting = []
        for part in parts:
            usage = ChangingQuotas(node).assigned(part)
            if usage is None:
                waiting.append(part)
            else:
                node.taken.update(usage)
        if waiting:
            found = list(lacks(node, waiting[0]))
            message = "; ".join(map(lack_text, found)) or f"no flavor of clusterqueue {queue} has enough of everything"
            step = f"wait until workloads of clusterqueue {queue} end, {_step(found)}" if found else _step(found)
            yield given.finding(_WAITS, _of_all(len(waiting), parts, message), step, replicas_at(given.kind))

    def _parts(self, given: Given) -> Iterator[Mapping[str, int]]:
        """What an object requests, in the parts that Kueue admits as a whole."""
        document = self._snapshot.document(given.kind, given.key) or {}
        header = {"apiVersion": given.kind.api_version, "kind": given.named[0]}
        requested = [_requested(pod) for pod in self._pods_of({**_started(document), **header})]
        if given.kind is DEPLOYMENT:
            yield from requested
        elif requested:
            yield sum(requested, Counter())

    # Quotas

    def _node(self, queue: str) -> QuotaNode:
        if queue not in self._nodes:
            node = self._objects.quota_tree(queue)
            assert node is not None
            self._nodes.update((each.name, each) for each in node.root().all() if each.kind == node.kind)
            for held in self._held.values():
                for name, usage in held:
                    ChangingQuotas(node).release(name, usage)
        return self._nodes[queue]

    def _emptied(self, queue: str) -> QuotaNode:
        """A ClusterQueue in a tree where nothing is used."""
        found = [{**each, "status": {}} for each in self._objects.all(kueue.CLUSTER_QUEUES)]
        node = quota_tree(found, self._objects.all(kueue.COHORTS), queue)
        assert node is not None
        return node

    @cached_property
    def _held(self) -> Mapping[Given, Sequence[tuple[str, Usage]]]:
        """The quota that objects of the manifests hold already, with the ClusterQueues."""
        found: dict[Given, list[tuple[str, Usage]]] = {}
        for workload in self._objects.all(kueue.WORKLOADS):
            try:
                admission = (workload.get("status") or {}).get("admission") or {}
                given = self._owner(workload) if admission and not is_true(workload, "Finished") else None
                if given is not None:
                    found.setdefault(given, []).append((str(admission.get("clusterQueue")), usage_of(admission)))
            except UNREADABLE:
                continue
        return found

    def _owner(self, workload: Document) -> Given | None:
        """The object of the manifests that a Workload is for, itself or by its pods."""
        namespace, _ = name_of(workload)
        for reference in workload["metadata"].get("ownerReferences") or ():
            kind, name = str(reference.get("kind")), str(reference.get("name"))
            given = self._given.of_pod(f"{namespace}/{name}") if kind == POD.kind else self._given.named(kind, name)
            if given is not None and given.key.partition("/")[0] == namespace:
                return given
        return None


def _started(document: Document) -> Document:
    """An object as it is when Kueue has started it: workloads that it queues are suspended."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    policy = spec.get("runPolicy")
    started = {**spec, "suspend": False} if "suspend" in spec else spec
    if isinstance(policy, dict) and "suspend" in policy:
        started = {**started, "runPolicy": {**policy, "suspend": False}}
    return {**document, "spec": started}


def _requested(pod: Document) -> Counter[str]:
    """What a pod requests of a quota, in billionths of units: it counts as one of the pods, too."""
    return Counter({**pod_requests(convert(POD.type, dict(pod))), "pods": _NANOS})


def _of_all(number: int, parts: Sequence[object], message: str) -> str:
    return message if len(parts) == 1 else f"{number} of {plural(len(parts), 'pod')}: {message}"


def _step(found: Sequence[Lack]) -> str:
    if not found:
        return "split it, or give one flavor more of all that it requests"
    least = min(found, key=lambda each: each.missing)
    return _RAISE.format(least.flavor, least.queue, least.shown(least.missing), least.resource)
