"""Runs a workload against the decision core: no queue, no API server, no other process.

A pod is decoded, decided and assumed, one after the other; that is what is measured. Mirrors the operations of
test/integration/scheduler_perf/executor.go.
"""

from __future__ import annotations

import gc
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

import numpy as np
from lightkube.models import core_v1

from bayplan.api import kinds
from bayplan.api.objects import convert, encode
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.config import KubeSchedulerProfile, build_profile, load_configuration
from bayplan.framework.profile import Profile
from bayplan.scheduling import Templates, decide
from bayplan.testing.offline import OfflineHandle
from bayplan.testing.scheduler_perf.workloads import BenchmarkError, Operation, Template, Unsupported, Workload


@dataclass(slots=True)
class Measurement:
    """What was measured. `finished`: when every pod was done, seconds on a monotonic clock; `taken`: seconds a pod."""

    started: float = 0.0
    finished: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    scheduled: int = 0
    unschedulable: int = 0

    @property
    def seconds(self) -> float:
        """From the first pod to the last."""
        return self.finished[-1] - self.started if self.finished else 0.0

    @property
    def average(self) -> float:
        """Pods scheduled a second, over all."""
        return self.scheduled / self.seconds if self.finished else 0.0

    def throughputs(self) -> list[float]:
        """Pods a second, sampled each second, or ten times where it took less than ten."""
        interval = min(1.0, self.seconds / 10)
        if not interval:
            return []
        counts, _ = np.histogram(
            self.finished, bins=np.arange(self.started, self.finished[-1] + interval / 2, interval)
        )
        return [float(count) / interval for count in counts]

    def latency(self, percentile: float) -> float:
        """Seconds that so many percent of the pods took at most."""
        return float(np.percentile(self.taken, percentile)) if self.taken else 0.0


def run_workload(workload: Workload, around: Callable[[Callable[[], None]], None] | None = None) -> Measurement:
    """Run all operations. `around` is called with what is measured, to run it (under a profiler).

    Raises Unsupported before anything runs, and BenchmarkError.
    """
    run = _Run(workload, around or (lambda measured: measured()))
    steps = [(run.step(operation), operation) for operation in workload.operations]
    for step, operation in steps:
        step(operation)
    return run.measurement


class _Run:
    """The cluster of one run, and the operations on it."""

    def __init__(self, workload: Workload, around: Callable[[Callable[[], None]], None]) -> None:
        self.measurement = Measurement()
        self._workload = workload
        self._around = around
        self._state = ClusterState()
        self._profile = _profile(workload, self._state)
        self._templates = Templates(self._profile)
        self._rng = random.Random(0)
        self._nodes = 0
        self._pods = 0
        self._collecting = False

    def step(self, operation: Operation) -> Callable[[Operation], None]:
        """What carries an operation out. Raises Unsupported."""
        if operation.code == "createNodes":
            strategies = ("labelNodePrepareStrategy", "uniqueNodeLabelStrategy", "nodeAllocatableStrategy")
            operation.require_only("nodeTemplatePath", *strategies)
            if (operation.fields.get("nodeAllocatableStrategy") or {}).keys() - {"nodeAllocatable"}:
                raise Unsupported("createNodes with CSI nodes")
            return self._create_nodes
        if operation.code == "createNamespaces":
            operation.require_only("prefix", "namespaceTemplatePath")
            return self._create_namespaces
        if operation.code == "createPods":
            operation.require_only("podTemplatePath", "namespace", "collectMetrics", "skipWaitToCompletion")
            return self._create_pods
        if operation.code == "createPodSets":
            operation.require_only("namespacePrefix", "createPodsOp")
            for each in _pod_sets(operation):
                self.step(each)
            return self._create_pod_sets
        if operation.code == "createAny":
            operation.require_only("namespace", "templatePath")
            return self._create_any
        if operation.code == "barrier":  # every pod has been tried by then
            return lambda _: None
        if operation.code in {"startCollectingMetrics", "stopCollectingMetrics"}:
            return self._collect
        raise Unsupported(operation.code)

    def _create_nodes(self, operation: Operation) -> None:
        template = operation.template("nodeTemplatePath")
        labels = _node_labels(operation)
        more = (operation.fields.get("nodeAllocatableStrategy") or {}).get("nodeAllocatable") or {}
        for index in range(operation.count()):
            document = template.document(index, operation.count()) if template else _BASE_NODE
            self._state.set_node(_node(document, self._nodes, next(labels), more))
            self._nodes += 1

    def _create_namespaces(self, operation: Operation) -> None:
        template = operation.template("namespaceTemplatePath")
        for index in range(operation.count()):
            document = template.document(index, operation.count()) if template else {}
            name = f"{operation.fields.get('prefix', '')}-{index}"
            metadata = {**(document.get("metadata") or {}), "name": name}
            namespace = convert(core_v1.Namespace, {**document, "metadata": metadata})
            self._state.objects[kinds.NAMESPACE].set(name, namespace)

    def _create_pods(self, operation: Operation) -> None:
        template = operation.template("podTemplatePath") or self._workload.default_pod_template
        if template is None:
            raise BenchmarkError(f"{self._workload.name}: createPods without a pod template")
        namespace = operation.fields.get("namespace") or f"namespace-{self._pods}"
        raws = list(self._raw_pods(template, operation.count(), namespace))
        if operation.fields.get("collectMetrics") or self._collecting:
            gc.collect()
            gc.freeze()  # as the scheduler does after its first synchronisation
            try:
                self._around(lambda: self._measure(raws))
            finally:
                gc.unfreeze()
        else:
            for raw in raws:
                self._place(raw)

    def _create_pod_sets(self, operation: Operation) -> None:
        for each in _pod_sets(operation):
            self._create_pods(each)

    def _create_any(self, operation: Operation) -> None:
        template = operation.template("templatePath")
        if template is None:
            raise BenchmarkError(f"{self._workload.name}: createAny without a template")
        number = operation.count() if "count" in operation.fields else 1
        for index in range(number):
            document = template.document(index, number)
            kind = _KINDS.get((str(document.get("apiVersion")), str(document.get("kind"))))
            if kind is None:
                raise Unsupported(f"createAny with {document.get('kind')}")
            metadata = dict(document.get("metadata") or {})
            metadata.setdefault("name", f"{metadata.pop('generateName', '')}{index}")
            key = metadata["name"]
            if kind.namespaced:
                metadata["namespace"] = operation.fields.get("namespace") or "default"
                key = f"{metadata['namespace']}/{key}"
            self._state.objects[kind].set(key, convert(kind.type, {**document, "metadata": metadata}))

    def _measure(self, raws: list[bytes]) -> None:
        measurement = self.measurement
        last = time.perf_counter()
        measurement.started = measurement.started or last
        for raw in raws:
            placed = self._place(raw)
            now = time.perf_counter()
            measurement.finished.append(now)
            measurement.taken.append(now - last)
            measurement.scheduled += placed
            measurement.unschedulable += not placed
            last = now

    def _place(self, raw: bytes) -> bool:
        pod = PodInfo.from_raw(raw)
        decision = decide(self._profile, self._state, pod, self._rng, templates=self._templates)
        if decision.node:
            self._state.assume(pod, decision.node)
        return bool(decision.node)

    def _collect(self, operation: Operation) -> None:
        self._collecting = operation.code == "startCollectingMetrics"

    def _raw_pods(self, template: Template, count: int, namespace: str) -> Iterator[bytes]:
        document = template.document(0, count)
        for index in range(count):
            if template.varies:
                document = template.document(index, count)
            metadata = dict(document.get("metadata") or {})
            name = f"{metadata.pop('generateName', 'pod-')}{self._pods}"
            metadata = {"name": name, "namespace": namespace, "uid": f"uid-{self._pods}", **metadata}
            self._pods += 1
            yield encode(_defaulted({**document, "metadata": metadata}))


_KINDS = {(kind.api_version, kind.kind): kind for kind in kinds.KINDS if kind not in {kinds.NODE, kinds.POD}}
_BASE_NODE: dict[str, Any] = {
    "metadata": {"generateName": "node-"},
    "status": {"capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"}},
}


def _pod_sets(operation: Operation) -> Iterator[Operation]:
    """The createPods operations that one createPodSets stands for: one a namespace."""
    fields = operation.fields.get("createPodsOp") or {}
    for index in range(operation.count()):
        namespace = f"{operation.fields.get('namespacePrefix', '')}-{index}"
        yield replace(operation, code="createPods", fields={**fields, "namespace": namespace})


def _node(document: Mapping[str, Any], number: int, labels: Mapping[str, str], more: Mapping[str, str]) -> core_v1.Node:
    """A node as an API server would store it: with a name, the usual label, and its capacity as allocatable."""
    metadata = dict(document.get("metadata") or {})
    name = metadata.get("name") or f"{metadata.get('generateName', 'node-')}{number}"
    own = {**(metadata.get("labels") or {}), "kubernetes.io/hostname": name, **labels}
    status = dict(document.get("status") or {})
    status["allocatable"] = {**(status.get("allocatable") or status.get("capacity") or {}), **more}
    metadata = {**metadata, "name": name, "labels": own}
    return convert(core_v1.Node, {**document, "metadata": metadata, "status": status})


def _node_labels(operation: Operation) -> Iterator[Mapping[str, str]]:
    """What a strategy labels one node after the other with."""
    if round_robin := operation.fields.get("labelNodePrepareStrategy"):
        return cycle([{round_robin["labelKey"]: value} for value in round_robin["labelValues"]])
    if unique := operation.fields.get("uniqueNodeLabelStrategy"):
        return iter(lambda: {unique["labelKey"]: str(uuid.uuid4())}, None)
    return cycle([{}])


def _defaulted(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod as an API server would store it, as far as scheduling is concerned: what is limited is requested."""
    spec = dict(pod.get("spec") or {})
    for name in ("containers", "initContainers"):
        containers = []
        for container in spec.get(name) or ():
            resources = container.get("resources") or {}
            requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
            containers.append({**container, "resources": {**resources, "requests": requests}})
        if containers:
            spec[name] = containers
    return {
        **pod,
        "spec": {"schedulerName": "default-scheduler", "priority": 0, **spec},
        "status": {"phase": "Pending"},
    }


def _profile(workload: Workload, state: ClusterState) -> Profile:
    config = KubeSchedulerProfile(schedulerName="default-scheduler")
    if workload.scheduler_config is not None:
        config = load_configuration(workload.scheduler_config).profiles[0]
    return build_profile(config, OfflineHandle(state))
