"""Objects as an API server would have stored them, as far as scheduling is concerned."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from lightkube.models import core_v1, storage_v1

from bayplan.api.objects import convert
from bayplan.testing.scheduler_perf.templates import Template
from bayplan.testing.scheduler_perf.workloads import Operation

BASE_NODE: dict[str, Any] = {
    "metadata": {"generateName": "node-"},
    "status": {"capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"}},
}

BASE_POD = Template(
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


def node(document: Mapping[str, Any], number: int, labels: Mapping[str, str], more: Mapping[str, str]) -> core_v1.Node:
    """A node: with a name, the usual label, and its capacity as allocatable, `more` included."""
    metadata = dict(document.get("metadata") or {})
    name = metadata.get("name") or f"{metadata.get('generateName', 'node-')}{number}"
    own = {**(metadata.get("labels") or {}), "kubernetes.io/hostname": name, **labels}
    status = dict(document.get("status") or {})
    status["allocatable"] = {**(status.get("allocatable") or status.get("capacity") or {}), **more}
    metadata = {**metadata, "name": name, "labels": own}
    return convert(core_v1.Node, {**document, "metadata": metadata, "status": status})


def csi_node(name: str, limits: Mapping[str, Mapping[str, int]], migrated: list[str]) -> storage_v1.CSINode:
    """What is known of the CSI drivers of a node. `limits` by driver, `migrated` plugins of the tree by name."""
    metadata = {"name": name, "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}}
    drivers = [{"name": driver, "nodeID": name, "allocatable": limit} for driver, limit in limits.items()]
    return convert(storage_v1.CSINode, {"metadata": metadata, "spec": {"drivers": drivers}})


def node_labels(operation: Operation) -> Iterator[Mapping[str, str]]:
    """What a strategy labels one node after the other with."""
    if round_robin := operation.fields.get("labelNodePrepareStrategy"):
        return cycle([{round_robin["labelKey"]: value} for value in round_robin["labelValues"]])
    if unique := operation.fields.get("uniqueNodeLabelStrategy"):
        return iter(lambda: {unique["labelKey"]: str(uuid.uuid4())}, None)
    return cycle([{}])


def pod(document: Mapping[str, Any]) -> dict[str, Any]:
    """A pod that waits: what is limited is requested, and amounts are strings."""
    spec = dict(document.get("spec") or {})
    for name in ("containers", "initContainers"):
        containers = []
        for container in spec.get(name) or ():
            resources = container.get("resources") or {}
            limits = {each: str(amount) for each, amount in (resources.get("limits") or {}).items()}
            requests = limits | {each: str(amount) for each, amount in (resources.get("requests") or {}).items()}
            containers.append({**container, "resources": {**resources, "limits": limits, "requests": requests}})
        if containers:
            spec[name] = containers
    spec = {"schedulerName": "default-scheduler", "priority": 0, **spec}
    return {**document, "spec": spec, "status": {**(document.get("status") or {}), "phase": "Pending"}}
