"""Runs a workload against the decision core: no queue, no API server, no other process.

A pod is decoded, decided and assumed, and what its plugins set aside is written, one pod after the other; that is what
is measured. Mirrors the operations of test/integration/scheduler_perf/executor.go.
"""

from __future__ import annotations

import fnmatch
import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from lightkube.models import core_v1

from bayplan.api import durations, kinds
from bayplan.api.objects import UndecodableObject, convert, encode
from bayplan.api.quantity import InvalidQuantity
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.config import KubeSchedulerProfile, build_profile, load_configuration
from bayplan.devices.claims import allocation_of
from bayplan.framework.binding_runner import run_pre_bind, run_pre_bind_pre_flight, run_reserve
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Profile
from bayplan.framework.status import Code
from bayplan.scheduling import Templates, decide
from bayplan.simulation.handle import OfflineHandle
from bayplan.simulation.writes import StoreClient, WouldWaitError, finished
from bayplan.testing.scheduler_perf import devices, stored
from bayplan.testing.scheduler_perf.templates import BenchmarkError, Template, Unsupported
from bayplan.testing.scheduler_perf.volumes import with_volume
from bayplan.testing.scheduler_perf.workloads import Operation, Workload


@dataclass(slots=True)
class Measurement:
    """What was measured. `finished`: seconds of all that was measured until a pod was done; `taken`: seconds a pod."""

    finished: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    scheduled: int = 0
    unschedulable: int = 0

    @property
    def seconds(self) -> float:
        """From the first pod to the last."""
        return self.finished[-1] if self.finished else 0.0

    def add(self, seconds: float, *, placed: bool) -> None:
        """One more pod was tried."""
        self.finished.append(self.seconds + seconds)
        self.taken.append(seconds)
        self.scheduled += placed
        self.unschedulable += not placed

    @property
    def average(self) -> float:
        """Pods scheduled a second, over all."""
        return self.scheduled / self.seconds if self.finished else 0.0

    def throughputs(self) -> list[float]:
        """Pods a second, sampled each second, or ten times where it took less than ten."""
        interval = min(1.0, self.seconds / 10)
        if not interval:
            return []
        counts, _ = np.histogram(self.finished, bins=np.arange(0.0, self.seconds + interval / 2, interval))
        return [float(count) / interval for count in counts]

    def latency(self, percentile: float) -> float:
        """Seconds that so many percent of the pods took at most."""
        return float(np.percentile(self.taken, percentile)) if self.taken else 0.0


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """As the scheduler's is after its first synchronisation."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def run_workload(workload: Workload, around: Callable[[Callable[[], None]], None] | None = None) -> Measurement:
    """Run all operations. `around` is called with what is measured, to run it (under a profiler).

    Raises Unsupported before anything runs, and BenchmarkError.
    """
    run = _Run(workload, around or (lambda measured: measured()))
    steps = [(run.step(operation), operation) for operation in workload.operations]
    for step, operation in steps:
        try:
            step(operation)
        except (InvalidQuantity, UndecodableObject) as error:
            raise BenchmarkError(f"{workload.name}: {operation.code}: {error}") from None
    return run.measurement


class _Run:
    """The cluster of one run, and the operations on it."""

    def __init__(self, workload: Workload, around: Callable[[Callable[[], None]], None]) -> None:
        self.measurement = Measurement()
        self._workload = workload
        self._around = around
        self._state = ClusterState()
        self._client = StoreClient(self._state.objects)
        self._profile = _profile(workload, _Handle(self._state, self._client))
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
            return self._create_nodes
        if operation.code == "createNamespaces":
            operation.require_only("prefix", "namespaceTemplatePath")
            return self._create_namespaces
        if operation.code == "createPods":
            volumes = ("persistentVolumeTemplatePath", "persistentVolumeClaimTemplatePath")
            waiting = ("collectMetrics", "skipWaitToCompletion", "steadyState", "duration")
            operation.require_only("podTemplatePath", "namespace", *volumes, *waiting)
            return self._create_pods
        if operation.code == "createPodSets":
            operation.require_only("namespacePrefix", "createPodsOp")
            for each in _pod_sets(operation):
                self.step(each)
            return self._create_pod_sets
        if operation.code == "createAny":
            operation.require_only("namespace", "templatePath")
            return self._create_any
        if operation.code == "createResourceDriver":
            operation.require_only("driverName", "nodes", "maxClaimsPerNode")
            return self._create_resource_driver
        if operation.code == "allocResourceClaims":
            operation.require_only("namespace")
            return self._allocate_claims
        if operation.code == "barrier":  # every pod has been tried by then
            return lambda _: None
        if operation.code in {"startCollectingMetrics", "stopCollectingMetrics"}:
            return self._collect
        raise Unsupported(operation.code)

    def _create_nodes(self, operation: Operation) -> None:
        template, labels = operation.template("nodeTemplatePath"), stored.node_labels(operation)
        strategy = operation.fields.get("nodeAllocatableStrategy") or {}
        more, limits = strategy.get("nodeAllocatable") or {}, strategy.get("csiNodeAllocatable")
        for index in range(operation.count()):
            document = template.document(index, operation.count()) if template else stored.BASE_NODE
            node = stored.node(document, self._nodes, next(labels), more)
            self._state.set_node(node)
            if limits and node.metadata is not None and node.metadata.name is not None:
                csi_node = stored.csi_node(node.metadata.name, limits, strategy.get("migratedPlugins") or [])
                self._state.objects[kinds.CSI_NODE].set(node.metadata.name, csi_node)
            self._nodes += 1

    def _create_resource_driver(self, operation: Operation) -> None:
        nodes = self._state.nodes
        for name in [nodes.name(position) for position in range(len(nodes))]:
            if fnmatch.fnmatchcase(name, str(operation.fields["nodes"])):
                number = operation.number("maxClaimsPerNode")
                devices.publish(self._state.objects, str(operation.fields["driverName"]), name, number)

    def _allocate_claims(self, operation: Operation) -> None:
        """Allocate claims that no pod uses, each on a node that has room for it."""
        claims = self._state.objects[kinds.RESOURCE_CLAIM]
        wanted = operation.fields.get("namespace")
        for number, (key, claim) in enumerate(tuple(claims.items())):
            if wanted in (None, claim.metadata.namespace) and allocation_of(claim) is None:
                pod = PodInfo.from_raw(devices.pod_for(claim, number))
                if not self._place(pod):
                    raise BenchmarkError(f"{self._workload.name}: no room for claim {key}")
                self._state.remove_pod(pod.uid)
                allocated = claims[key]
                allocated.status.reservedFor = None
                claims.set(key, allocated)

    def _create_namespaces(self, operation: Operation) -> None:
        template = operation.template("namespaceTemplatePath")
        for index in range(operation.count()):
            document = template.document(index, operation.count()) if template else {}
            name = f"{operation.fields.get('prefix', '')}-{index}"
            metadata = {**(document.get("metadata") or {}), "name": name}
            namespace = convert(core_v1.Namespace, {**document, "metadata": metadata})
            self._state.objects[kinds.NAMESPACE].set(name, namespace)

    def _create_pods(self, operation: Operation) -> None:
        template = operation.template("podTemplatePath") or self._workload.default_pod_template or stored.BASE_POD
        namespace = operation.fields.get("namespace") or f"namespace-{self._pods}"
        if not operation.fields.get("collectMetrics") and not self._collecting:
            for raw in self._raw_pods(operation, template, namespace):
                self._place(PodInfo.from_raw(raw))
            return
        if operation.fields.get("steadyState"):
            seconds = durations.parse(str(operation.fields["duration"]))
            self._around(lambda: self._measure_steadily(operation, template, namespace, seconds))
        else:
            raws = list(self._raw_pods(operation, template, namespace))
            with _frozen_heap():
                self._around(lambda: self._measure(raws))

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

    def _measure_steadily(self, operation: Operation, template: Template, namespace: str, seconds: float) -> None:
        """Place pods, delete them and begin again, until so much time went into placing them."""
        measurement, until = self.measurement, self.measurement.seconds + seconds
        with _frozen_heap():
            while measurement.seconds < until and not measurement.unschedulable:
                raws = list(self._raw_pods(operation, template, namespace))
                self._measure(raws)
                for raw in raws:
                    self._delete(PodInfo.from_raw(raw))

    def _measure(self, raws: list[bytes]) -> None:
        measurement = self.measurement
        for raw in raws:
            began = time.perf_counter()
            placed = self._place(PodInfo.from_raw(raw))
            measurement.add(time.perf_counter() - began, placed=placed)

    def _place(self, pod: PodInfo) -> bool:
        profile, state = self._profile, self._state
        decision = decide(profile, state, pod, self._rng, templates=self._templates)
        if not decision.node:
            return False
        assumed = state.assume(pod, decision.node)
        status = run_reserve(profile, decision.cycle, assumed, decision.node)
        if not status.rejected and run_pre_bind_pre_flight(profile, decision.cycle, assumed, decision.node):
            try:
                status = finished(run_pre_bind(profile, decision.cycle, assumed, decision.node))
            except WouldWaitError as error:
                raise Unsupported(str(error)) from None
        if status.code is not Code.SUCCESS:
            raise BenchmarkError(f"{self._workload.name}: pod {pod.key} on node {decision.node}: {status.message}")
        return True

    def _delete(self, pod: PodInfo) -> None:
        """Delete a pod, and the claims that were made for it."""
        self._state.remove_pod(pod.uid)
        objects = self._state.objects
        for kind, key in self._client.made.pop(pod.uid, ()):
            objects[kind].remove(key)
        for status in (pod.object.status and pod.object.status.resourceClaimStatuses) or ():
            objects[kinds.RESOURCE_CLAIM].remove(f"{pod.namespace}/{status.resourceClaimName}")

    def _collect(self, operation: Operation) -> None:
        self._collecting = operation.code == "startCollectingMetrics"

    def _raw_pods(self, operation: Operation, template: Template, namespace: str) -> Iterator[bytes]:
        """Pods as they arrive, with the claims and volumes that they use."""
        count = operation.count()
        volume = operation.template("persistentVolumeTemplatePath")
        claim = operation.template("persistentVolumeClaimTemplatePath")
        document = template.document(0, count)
        for index in range(count):
            if template.varies:
                document = template.document(index, count)
            metadata = dict(document.get("metadata") or {})
            name = f"{metadata.pop('generateName', 'pod-')}{self._pods}"
            metadata = {"name": name, "namespace": namespace, "uid": f"uid-{self._pods}", **metadata}
            self._pods += 1
            pod = devices.with_claims(stored.pod({**document, "metadata": metadata}), self._state.objects)
            if volume is not None and claim is not None:
                pod = with_volume(pod, index, count, volume, claim, self._state.objects)
            yield encode(pod)


_KINDS = {(kind.api_version, kind.kind): kind for kind in kinds.KINDS if kind not in {kinds.NODE, kinds.POD}}
_KINDS |= {  # these have the same fields
    ("resource.k8s.io/v1beta2", name): kind
    for (version, name), kind in _KINDS.items()
    if version == "resource.k8s.io/v1"
}


def _pod_sets(operation: Operation) -> Iterator[Operation]:
    """The createPods operations that one createPodSets stands for: one a namespace."""
    fields = operation.fields.get("createPodsOp") or {}
    for index in range(operation.count()):
        namespace = f"{operation.fields.get('namespacePrefix', '')}-{index}"
        yield replace(operation, code="createPods", fields={**fields, "namespace": namespace})


class _Handle(OfflineHandle):
    """The scheduler's side, with a client."""

    client: Any

    def __init__(self, state: ClusterState, client: StoreClient) -> None:
        super().__init__(state)
        self.client = client


def _profile(workload: Workload, handle: Handle) -> Profile:
    config = KubeSchedulerProfile(schedulerName="default-scheduler")
    if workload.scheduler_config is not None:
        config = load_configuration(workload.scheduler_config).profiles[0]
    return build_profile(config, handle)
