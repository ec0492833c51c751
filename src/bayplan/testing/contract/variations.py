"""The same pod but for one field, for every field that a plugin may read; and objects that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.testing.contract.examples import Example, edited
from bayplan.testing.contract.random_examples import GPU, PREFERRED, RACK, REQUIRED, ZONE, RandomExamples
from bayplan.testing.documents import Document

_NODE_TERM = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
_POD_TERM = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}

_VALUES: Sequence[tuple[str, Any]] = (
    ("metadata.name", "another"),
    ("metadata.uid", "another"),
    ("metadata.namespace", "other"),
    ("metadata.namespace", "default"),
    ("metadata.labels", {}),
    ("metadata.labels", {"app": "a"}),
    ("metadata.labels", {"app": "b"}),
    ("metadata.annotations", {}),
    ("metadata.creationTimestamp", "2026-02-02T00:00:00Z"),
    (
        "metadata.ownerReferences",
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}],
    ),
    ("spec.nodeSelector", {}),
    ("spec.nodeSelector", {ZONE: "a"}),
    ("spec.nodeSelector", {RACK: "1"}),
    ("spec.affinity", {}),
    ("spec.affinity.nodeAffinity", {REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]}}),
    ("spec.affinity.nodeAffinity", {PREFERRED: [{"weight": 5, "preference": _NODE_TERM}]}),
    ("spec.affinity.podAffinity", {REQUIRED: [_POD_TERM]}),
    ("spec.affinity.podAffinity", {PREFERRED: [{"weight": 5, "podAffinityTerm": _POD_TERM}]}),
    ("spec.affinity.podAntiAffinity", {REQUIRED: [_POD_TERM]}),
    ("spec.tolerations", []),
    ("spec.tolerations", [{"operator": "Exists"}]),
    ("spec.tolerations", [{"key": "dedicated", "operator": "Exists", "effect": "PreferNoSchedule"}]),
    ("spec.priority", 0),
    ("spec.priority", 500),
    ("spec.priorityClassName", "high"),
    ("spec.preemptionPolicy", "Never"),
    ("spec.schedulerName", "another-scheduler"),
    ("spec.serviceAccountName", "robot"),
    ("spec.hostNetwork", True),
    ("spec.restartPolicy", "Never"),
    ("spec.runtimeClassName", "sandbox"),
    ("spec.terminationGracePeriodSeconds", 7),
    ("spec.overhead", {"cpu": "250m", "memory": "1Gi"}),
    ("spec.topologySpreadConstraints", []),
    (
        "spec.topologySpreadConstraints",
        [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],
    ),
    ("spec.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ("spec.volumes", [{"name": "v", "hostPath": {"path": "/data"}}]),
    ("spec.resourceClaims", [{"name": "gpu", "resourceClaimName": "gpu"}]),
    ("spec.nodeName", "n0"),
    ("spec.initContainers", [{"name": "first", "image": "registry.example/batch:2"}]),
    ("status.nominatedNodeName", "n0"),
)
_CONTAINER_VALUES: Sequence[tuple[str, Any]] = (
    ("image", "registry.example/batch:2"),
    ("image", "registry.example/web:1"),
    ("resources.requests", {}),
    ("resources.requests", {"cpu": "1"}),
    ("resources.requests", {"memory": "1Gi"}),
    ("resources.requests", {"cpu": "1", GPU: "1"}),
    ("resources.limits", {"cpu": "2"}),
    ("ports", []),
    ("ports", [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]),
    ("env", [{"name": "TIER", "value": "web"}]),
)


def pod_variations(example: Example) -> Iterator[tuple[str, Document]]:
    """Which field it is, and the pod that waits with another value there (or the same one)."""
    pod = example.pod
    for path, value in _VALUES:
        yield path, edited(pod, path.split("."), value)
    container, *others = pod["spec"]["containers"]
    for path, value in _CONTAINER_VALUES:
        changed = [edited(container, path.split("."), value), *others]
        yield f"spec.containers[].{path}", edited(pod, ["spec", "containers"], changed)
    maker = RandomExamples.like(example)
    for path in ("metadata.labels", "metadata.annotations", "spec.nodeSelector") if example.words else ():
        for _ in range(6):
            usual = {"app": "a"} if path == "metadata.labels" else {}
            yield path, edited(pod, path.split("."), {**usual, **maker.marks()})
    for word in example.words:
        if "/" in word:
            changed = [edited(container, ["resources", "requests"], {word: "1"}), *others]
            yield "spec.containers[].resources.requests", edited(pod, ["spec", "containers"], changed)


def own_changes(example: Example) -> Iterator[tuple[str, Document]]:
    """What may change of a pod while it waits, as the API server lets it."""
    pod, maker = example.pod, RandomExamples.like(example)
    for path in ("metadata.labels", "metadata.annotations"):
        for marks in ({}, maker.marks(), maker.marks(), {"app": "a"}, {"app": "b"}):
            yield path, edited(pod, path.split("."), marks)
    tolerations = [*(pod["spec"].get("tolerations") or ()), {"operator": "Exists"}]
    yield "spec.tolerations", edited(pod, ["spec", "tolerations"], tolerations)
    if pod["spec"].get("schedulingGates"):
        yield "spec.schedulingGates", edited(pod, ["spec", "schedulingGates"], [])
    container, *others = pod["spec"]["containers"]
    for requests in ({}, {"cpu": "100m", "memory": "1Mi"}):
        smaller = [edited(container, ["resources", "requests"], requests), *others]
        yield "spec.containers[].resources.requests", edited(pod, ["spec", "containers"], smaller)


def cluster_changes(example: Example) -> Iterator[tuple[str, Kind, Document | None, Document | None]]:
    """What may happen in the cluster: in words, the kind, the object before and after (None where it is not there)."""
    maker = RandomExamples.like(example)
    for kind, document in example.objects:
        name = document["metadata"]["name"]
        if kind is NODE:
            for path, values in _node_values(maker, document):
                for value in values:
                    yield f"node {name}: {path} changes", NODE, document, edited(document, path.split("."), value)
            yield f"node {name} goes", NODE, document, None
        elif kind is POD:
            yield f"pod {name} goes", POD, document, None
            for labels in ({}, {"app": "a"}, {"app": "b"}, maker.marks()):
                changed = edited(document, ["metadata", "labels"], labels)
                yield f"pod {name}: metadata.labels changes", POD, document, changed
        else:
            yield f"{kind.kind} {name} goes", kind, document, None
    for number in range(4):
        node = maker.node("comes")
        node["spec"] = {} if number % 2 else node["spec"]
        yield "a node comes", NODE, None, node
    here = [document["metadata"]["name"] for document in example.of(NODE)]
    for node_name in here[:2]:
        yield f"a pod comes to node {node_name}", POD, None, maker.bound("comes", node_name)


def _node_values(maker: RandomExamples, node: Document) -> Iterator[tuple[str, Sequence[Any]]]:
    labels = node["metadata"].get("labels") or {}
    other_labels = [{**labels, ZONE: "a"}, {**labels, ZONE: "b"}, {**labels, RACK: "2"}, {}]
    yield "metadata.labels", [*other_labels, *({**labels, **maker.marks()} for _ in range(3)), maker.marks()]
    yield "metadata.annotations", [{}, *(maker.marks() for _ in range(3))]
    yield "spec.taints", [[]]
    yield "spec.unschedulable", [False]
    yield "status.allocatable", [{"cpu": "64", "memory": "640Gi", "pods": "110", GPU: "8", **maker.plenty()}]
    yield "status.images", [[], [{"names": ["registry.example/web:1"], "sizeBytes": 2**30}]]
    yield "status.conditions", [[{"type": "Ready", "status": status}] for status in ("True", "False")]
