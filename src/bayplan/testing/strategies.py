"""Hypothesis strategies for nodes, pods and small clusters whose objects share names, labels and fields. Public.

@given(clusters(words=["example.com/tier", "web"]), pods(words=["example.com/tier", "web"]))
def test_decisions(objects, pod):
    decision = make_cluster(*objects, plugins=[Tier]).decide(pod)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError:
    raise ModuleNotFoundError("check_contract needs Hypothesis: pip install 'bayplan[testing]'") from None
from lightkube.models import core_v1

from bayplan.core.api.kinds import NAMESPACE, NODE, POD, SERVICE, Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.testing.documents import Document, typed

ZONE, RACK, HOSTNAME = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
GPU = "example.com/gpu"
NODES = ("n0", "n1", "n2", "n3")
NUMBERS = ("0", "7", "40", "100", "-3", "1000", "2.5", "many")
"""Values of labels and annotations that plugins may parse as numbers."""

Objects = tuple[tuple[Kind, Document], ...]
Marks = Sequence[Mapping[str, str]]
"""The sets of labels or annotations of one example: few, so that pods and nodes match one another."""
Fields = Mapping[str, Sequence[Any]]
"""The values that a field may have, by its path: `spec.priority`, `spec.containers[].image` (of the first container).
Functions make the value from the marks of the example.
"""
Edit = tuple[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_IMAGES = ("registry.example/web:1", "registry.example/batch:2")
_CREATED = "2026-01-01T00:00:00Z"
POD_BASE: Document = {
    "metadata": {"namespace": "default", "name": "waiting", "uid": "waiting", "creationTimestamp": _CREATED},
    "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "main"}]},
    "status": {"phase": "Pending"},
}
NODE_BASE: Document = {"status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "4"}}}
"""The simplest pod and the simplest node."""


def nodes(words: Iterable[str] = ()) -> SearchStrategy[core_v1.Node]:
    """Return a strategy for nodes. `words`: label keys, label values and resource names that they may have."""
    return Documents(words).node.map(lambda document: typed(NODE, node_named(document, "n0")))


def pods(words: Iterable[str] = ()) -> SearchStrategy[PodInfo]:
    """Return a strategy for pending pods. `words`: label keys, label values and resource names that they may have."""
    return Documents(words).pending.map(lambda document: typed(POD, document))


def clusters(words: Iterable[str] = ()) -> SearchStrategy[list[Any]]:
    """Return a strategy for the objects of a cluster, as `make_cluster(*objects)` takes them.

    They are up to four nodes, called n0 to n3, pods on them, namespaces and a service. `words`: label keys, label
    values and resource names that they may have.
    """
    return Documents(words).cluster.map(lambda objects: [typed(kind, document) for kind, document in objects])


class Documents:
    """Strategies for objects as documents, and the fields that may vary in them."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        words = list(words)
        resources = [GPU, *(word for word in words if "/" in word)]
        zones = _unions([{}, {ZONE: "a"}, {ZONE: "b"}], [{}, {RACK: "1"}, {RACK: "2"}])
        marked = {"metadata.annotations": [_marked({}, number) for number in range(5)]}
        self.pod_labels: Fields = {"metadata.labels": _labels([{}, {"app": "a"}, {"app": "b"}])}
        self.node_labels: Fields = {"metadata.labels": _labels(zones)}
        self.pod_fields: Fields = {**marked, **_pod_fields(resources)}
        self.constraints = _constraints(["dedicated", *words])
        self.node_fields: Fields = {**marked, **_node_fields(["dedicated", *words], resources)}
        self.marks = _marks(words)
        gates = {"spec.schedulingGates": [[{"name": "example.com/gate"}]]}
        deleted = {"metadata.deletionTimestamp": [_CREATED]}
        pod = edits(self.pod_labels), *[_maybe(self.pod_fields)] * 3
        self.pending = self._documents(POD_BASE, *pod, *[_maybe({**self.constraints, **gates})] * 5)
        self.bound = self._documents(POD_BASE, *pod, _maybe({**self.constraints, **deleted}))
        self.node = self._documents(NODE_BASE, edits(self.node_labels), *[_maybe(self.node_fields)] * 3)
        self.cluster = self._clusters()

    def _documents(self, base: Document, *some: Sequence[Edit]) -> SearchStrategy[Document]:
        """Copies of `base`, to which one of each of some edits is made."""

        def document(marks: Marks, *some: Edit) -> Document:
            made = base
            for path, value in some:
                if path:
                    made = edited(made, path, resolved(value, marks))
            return made

        return st.builds(document, self.marks, *map(st.sampled_from, some))

    def _clusters(self) -> SearchStrategy[Objects]:
        """Every object is an element of a list, and no other depends on it, so that Hypothesis can leave it out."""
        nodes = st.lists(st.tuples(st.sampled_from(NODES), self.node), min_size=1, unique_by=lambda pair: pair[0])
        pods = st.lists(st.tuples(st.integers(0, 19), self.bound), max_size=6)

        def cluster(_: Marks, teams: Any, app: str, nodes: Any, pods: Any) -> Objects:
            places = (*[name for name, _ in nodes] * 4, *NODES)
            namespaces = [
                {"name": name, "labels": team} for name, team in zip(("default", "other"), teams, strict=False)
            ]
            service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": app}}}
            return (
                *((NAMESPACE, {"metadata": metadata}) for metadata in namespaces),
                *([(SERVICE, service)] if app else []),
                *((NODE, node_named(document, name)) for name, document in nodes),
                *(
                    (POD, bound_to(document, f"p{index}", places[number % len(places)]))
                    for index, (number, document) in enumerate(pods)
                ),
            )

        teams = st.lists(st.sampled_from([{}, {"team": "red"}, {"team": "blue"}]), max_size=2)
        return st.builds(cluster, self.marks, teams, st.sampled_from(["", "", "a", "b"]), nodes, pods)


def edits(fields: Fields) -> list[Edit]:
    """Return all paths with all values, every path equally often."""
    width = max(len(values) for values in fields.values())
    return [(path, values[number % len(values)]) for number in range(width) for path, values in fields.items()]


def _maybe(fields: Fields) -> list[Edit]:
    """Edits, and as an alternative none, as often as two of the fields."""
    some = edits(fields)
    return [("", None)] * (2 * len(some) // len(fields)) + some


def resolved(value: Any, marks: Marks) -> Any:
    """Return the value that a field has in an example with these marks."""
    return value(marks) if callable(value) else value


def at(document: Any, path: str) -> Any:
    """Return the value at a path; None where there is none."""
    for name in path.split("."):
        document = (document or {}).get(name.removesuffix("[]"))
        document = document[0] if document and name.endswith("[]") else document
    return document


def edited(document: Document, path: str, value: Any) -> dict[str, Any]:
    """Return a copy of a document with another value at a path."""
    name, _, rest = path.partition(".")
    if not rest:
        return {**document, name: value}
    if name.endswith("[]"):
        first, *others = document[name[:-2]]
        return {**document, name[:-2]: [edited(first, rest, value), *others]}
    return {**document, name: edited(document.get(name) or {}, rest, value)}


def named(document: Document, name: str) -> dict[str, Any]:
    """Return a copy of a document with a name and a uid."""
    return {**document, "metadata": {**document.get("metadata", {}), "name": name, "uid": name}}


def node_named(document: Document, name: str) -> dict[str, Any]:
    """Return a copy of a node with a name, which is its hostname, too."""
    return edited(named(document, name), "metadata.labels", {HOSTNAME: name, **(at(document, "metadata.labels") or {})})


def bound_to(document: Document, name: str, node: str) -> dict[str, Any]:
    """Return a copy of a pod with a name, on a node."""
    return edited(edited(named(document, name), "spec.nodeName", node), "status.phase", "Running")


def _marks(words: Sequence[str]) -> SearchStrategy[Marks]:
    """The same marks wherever they are drawn in one example. The first are none."""
    if not words:
        return st.just([{}])
    qualified = [word for word in words if "/" in word] or words
    plain = st.sampled_from([word for word in words if "/" not in word] or ["yes"])
    keys = st.lists(st.sampled_from(qualified) | st.sampled_from(words), min_size=1, max_size=2)
    values = plain | plain | st.sampled_from(NUMBERS)
    sets = keys.flatmap(lambda keys: st.lists(st.dictionaries(st.sampled_from(keys), values, min_size=1), max_size=4))
    return st.shared(sets.map(lambda sets: [{}, *sets]), key="marks")


def _marked(labels: Mapping[str, str], number: int) -> Callable[[Marks], Mapping[str, str]]:
    return lambda marks: {**labels, **marks[number % len(marks)]}


def _labels(usual: Sequence[Mapping[str, str]]) -> Sequence[Callable[[Marks], Mapping[str, str]]]:
    return [_marked(labels, number) for number in range(5) for labels in usual]


def _unions(*choices: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """Every combination of one of each choice, in one mapping."""
    return [{key: value for part in parts for key, value in part.items()} for parts in product(*choices)]


def _pod_fields(resources: Sequence[str]) -> Fields:
    requests = _unions(
        [{"cpu": "100m"}, {"cpu": "1"}, {"cpu": "3"}, {}],
        [{}, {"memory": "1Gi"}, {"memory": "3Gi"}],
        [{}, {}, *({resource: "1"} for resource in resources)],
    )
    return {
        "metadata.namespace": ["other"],
        "spec.priority": [10, 1000],
        "spec.containers[].resources.requests": requests,
        "spec.containers[].ports": [[{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]],
    }


def _constraints(keys: Sequence[str]) -> Fields:
    expressions = [
        *({"key": ZONE, "operator": operator, "values": ["a"]} for operator in ("In", "NotIn")),
        *({"key": key, "operator": "Exists"} for key in (RACK, *keys[:3])),
    ]
    node_terms = [{"matchExpressions": [expression]} for expression in expressions]
    pod_terms = [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
        for key, app in product([ZONE, RACK, HOSTNAME], "ab")
    ]
    pod_affinity = [
        *({_REQUIRED: [term]} for term in pod_terms),
        *({_PREFERRED: [{"weight": 5, "podAffinityTerm": term}]} for term in pod_terms),
    ]
    return {
        "spec.nodeSelector": [{ZONE: "a"}, {RACK: "2"}, *(_marked({}, number) for number in (1, 2))],
        "spec.affinity.nodeAffinity": [
            *({_REQUIRED: {"nodeSelectorTerms": [term]}} for term in node_terms),
            *({_PREFERRED: [{"weight": 5, "preference": term}]} for term in node_terms),
        ],
        "spec.affinity.podAffinity": pod_affinity,
        "spec.affinity.podAntiAffinity": pod_affinity,
        "spec.topologySpreadConstraints": [
            [{**term, "maxSkew": skew, "whenUnsatisfiable": action}]
            for skew, action, term in product((1, 2), ("DoNotSchedule", "ScheduleAnyway"), pod_terms)
        ],
        "spec.tolerations": [
            [{"operator": "Exists"}],
            [{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}],
            *([{"key": key, "operator": "Exists"}] for key in keys),
        ],
        "spec.containers[].image": _IMAGES,
    }


def _node_fields(keys: Sequence[str], resources: Sequence[str]) -> Fields:
    taints = product(("NoSchedule", "PreferNoSchedule", "NoExecute"), keys)
    allocatable = _unions(
        [{"cpu": cpu, "pods": "4"} for cpu in ("1", "64")],
        [{"memory": memory} for memory in ("2Gi", "640Gi")],
        [{}, *({resource: "2"} for resource in resources), dict.fromkeys(resources, "8")],
    )
    return {
        "spec.taints": [[{"key": key, "value": "db", "effect": effect}] for effect, key in taints],
        "spec.unschedulable": [True],
        "status.allocatable": allocatable,
        "status.images": [[{"names": [image], "sizeBytes": 500 * 2**20}] for image in _IMAGES],
        "status.conditions": [[{"type": "Ready", "status": ready}] for ready in ("True", "False")],
    }


RARE_POD_FIELDS: Fields = {
    "metadata.name": ["another"],
    "metadata.uid": ["another"],
    "metadata.creationTimestamp": ["2026-02-02T00:00:00Z"],
    "metadata.ownerReferences": [
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}]
    ],
    "spec.priorityClassName": ["high"],
    "spec.preemptionPolicy": ["Never"],
    "spec.schedulerName": ["another-scheduler"],
    "spec.serviceAccountName": ["robot"],
    "spec.hostNetwork": [True],
    "spec.restartPolicy": ["Never"],
    "spec.runtimeClassName": ["sandbox"],
    "spec.terminationGracePeriodSeconds": [7],
    "spec.overhead": [{"cpu": "250m", "memory": "1Gi"}],
    "spec.volumes": [
        [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        [{"name": "v", "hostPath": {"path": "/data"}}],
    ],
    "spec.resourceClaims": [[{"name": "gpu", "resourceClaimName": "gpu"}]],
    "spec.nodeName": ["n0"],
    "spec.initContainers": [[{"name": "first", "image": _IMAGES[1]}]],
    "spec.containers[].resources.limits": [{"cpu": "2"}],
    "spec.containers[].env": [[{"name": "TIER", "value": "web"}]],
    "status.nominatedNodeName": ["n0"],
}
"""Fields that few pods have. Random pods have none of them."""
