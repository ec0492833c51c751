"""Objects as the benchmark's client creates them: nodes, pods, volumes, and the slices of a device driver.

Mirrors test/integration/scheduler_perf/{util,node_util,dra}.go and test/utils/runners.go.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import kind_named
from bayplan.benchmarking.templates import BenchmarkError, ObjectTemplate, Unsupported
from bayplan.benchmarking.workloads import Operation
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind

Document = dict[str, Any]

BASE_POD = ObjectTemplate(
    Path("the pod of workloads that name none"),
    """
metadata: {generateName: pod-}
spec:
  containers:
  - name: pause
    image: registry.k8s.io/pause:3.10.1
    ports: [{containerPort: 80}]
    resources: {requests: {cpu: 100m, memory: 500Mi}, limits: {cpu: 100m, memory: 500Mi}}
""",
)


def base_node(prefix: str) -> Document:
    """The node of workloads that name none."""
    status = {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"generateName": prefix}, "status": status}


def node(document: Mapping[str, Any], labels: Mapping[str, str], more: Mapping[str, str]) -> Document:
    """A node with the labels of a strategy, and with its capacity as allocatable, `more` included."""
    metadata = dict(document.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    status = dict(document.get("status") or {})
    status["allocatable"] = {**(status.get("allocatable") or status.get("capacity") or {}), **more}
    return {**document, "metadata": metadata, "status": status}


def node_labels(operation: Operation) -> Iterator[Mapping[str, str]]:
    """The labels that a strategy gives to one node after the other."""
    if round_robin := operation.fields.get("labelNodePrepareStrategy"):
        return cycle([{round_robin["labelKey"]: value} for value in round_robin["labelValues"]])
    if unique := operation.fields.get("uniqueNodeLabelStrategy"):
        return iter(lambda: {unique["labelKey"]: str(uuid.uuid4())}, None)
    return cycle([{}])


def csi_node(name: str, limits: Mapping[str, Mapping[str, int]], migrated: list[str]) -> Document:
    """The CSI drivers of a node. `limits` by driver, `migrated`: the in-tree plugins that CSI drivers replace."""
    metadata = {"name": name, "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}}
    drivers = [{"name": driver, "nodeID": name, "allocatable": limit} for driver, limit in limits.items()]
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def with_volume(
    pod: Document, number: int, volume: Document, claim: Document, namespace: str
) -> tuple[Document, Document, Document]:
    """A pod with a volume of its own; the volume, and the claim that is bound to it."""
    claim_name, volume_name = f"pvc-{number}", f"{namespace}-pv-{number}"
    spec = dict(volume["spec"])
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": volume_name}
    elif "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": volume_name}
    spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name}
    volume = {**volume, "metadata": {"name": volume_name}, "spec": spec, "status": {"phase": "Bound"}}
    metadata = {**(claim.get("metadata") or {}), "name": claim_name}
    claim = {**claim, "metadata": metadata, "spec": {**claim["spec"], "volumeName": volume_name}}
    claim["status"] = {"phase": "Bound"}
    volumes = [{"name": "vol", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {**pod, "spec": {**pod["spec"], "volumes": volumes}}, volume, claim


def resource_slice(driver: str, node_name: str, number: int) -> Document:
    """The slice that a driver publishes for a node with `number` devices."""
    devices = [
        {
            "name": f"instance-{index}",
            "attributes": {
                "model": {"string": "A100"},
                "family": {"string": "GPU"},
                "driverVersion": {"version": "1.2.3"},
                "dra.example.com/numa": {"int": index},
            },
            "capacity": {"memory": {"value": "1Gi"}},
        }
        for index in range(number)
    ]
    pool = {"name": node_name, "generation": 0, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node_name, "pool": pool, "devices": devices}
    return {"metadata": {"name": node_name}, "spec": spec}


def kind_of(document: Mapping[str, Any], namespace: str | None) -> Kind:
    """The kind of a template's object, which may be a custom one.

    Raises Unsupported for one of Kubernetes that Bayplan doesn't know, and BenchmarkError.
    """
    version, name = str(document.get("apiVersion")), str(document.get("kind"))
    kind = _KINDS.get((version, name))
    if kind is None:
        return _custom(version, name, namespace)
    if kind.namespaced != (namespace is not None):
        problem = "needs a namespace" if kind.namespaced else f"is cluster-scoped, but namespace is {namespace}"
        raise BenchmarkError(f"{name} {problem}")
    return kind


def _custom(version: str, name: str, namespace: str | None) -> Kind:
    """A custom kind, as plugins name it. A namespace, or none, tells which of the two it has."""
    group = version.rpartition("/")[0]
    if group in _GROUPS:
        raise Unsupported(f"objects of kind {name} ({version})")
    try:
        return replace(kind_named(version, name), namespaced=namespace is not None)
    except SnapshotError as error:
        raise BenchmarkError(str(error)) from None


def is_ignored(document: Mapping[str, Any]) -> bool:
    """Whether no component reads an object, because its API and the gate behind it are off by default."""
    return (document.get("apiVersion"), document.get("kind")) in _IGNORED


_IGNORED = {("resource.k8s.io/v1alpha3", "DeviceTaintRule")}  # the gate DRADeviceTaintRules
_GROUPS = {kind.group for kind in kinds.KINDS}
_KINDS = {(kind.api_version, kind.kind): kind for kind in kinds.KINDS}
_KINDS |= {  # these have the same fields
    (f"resource.k8s.io/{version}", name): kind
    for (group_version, name), kind in tuple(_KINDS.items())
    if group_version == "resource.k8s.io/v1"
    for version in ("v1beta2", "v1beta1")
}
