"""Builders: nodes and pods in one line each, for tests of plugins.

cluster = make_cluster(make_node("a", cpu="4"), make_pod("web", cpu="1", node="a"))
decision = cluster.decide(make_pod("next", cpu="3"))
assert decision.node == "a"
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightkube.models import core_v1

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import ExtraPlugin
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.decision import Decision
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.testing.configured import configured_profiles
from bayplan.testing.documents import known, put

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
"""The default creation time."""


def make_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    resources: Mapping[str, str] | None = None,
) -> core_v1.Node:
    """A node. `taints` as kubectl takes them (`key=value:NoSchedule`), `images` name to bytes.

    `resources` are more that it has, as in `{"example.com/gpu": "2"}`.
    """
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **(resources or {})}
    document = {
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "creationTimestamp": CREATED.isoformat(),
        },
        "spec": {"taints": [_taint(taint) for taint in taints], "unschedulable": unschedulable},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        },
    }
    return convert(core_v1.Node, document)


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str | None = None,
    memory: str | None = None,
    node: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    tolerations: Sequence[Mapping[str, str]] = (),
    host_ports: Iterable[int] = (),
    image: str = "registry.example/pause:3",
    scheduler_name: str = "default-scheduler",
    spread: Sequence[Mapping[str, Any]] = (),
    terminating: bool = False,
    owner: tuple[str, str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    resources: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
) -> PodInfo:
    """A pod with one container, bound if `node` is given. `spec` and `status` take precedence over other arguments.

    `requests` are for any resources, as in `{"cpu": "500m", "example.com/gpu": "1"}`; `resources` sets requests and
    limits.
    `spread` are topology spread constraints, `owner` is apiVersion, kind and name of its controller.
    """
    named = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount is not None}
    limits = {key: amount for key, amount in (requests or {}).items() if _needs_limit(key)} | dict(resources or {})
    container = {
        "name": "main",
        "image": image,
        "resources": {
            "requests": {**named, **(requests or {}), **(resources or {})},
            **({"limits": limits} if limits else {}),
        },
        "ports": [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in host_ports],
    }
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "labels": dict(labels or {}),
            "creationTimestamp": CREATED.isoformat(),
            **({"deletionTimestamp": CREATED.isoformat()} if terminating else {}),
            **({"ownerReferences": [_owner(*owner)]} if owner is not None else {}),
        },
        "spec": {
            "containers": [container],
            "schedulerName": scheduler_name,
            "priority": priority,
            "tolerations": list(tolerations),
            **({"topologySpreadConstraints": list(spread)} if spread else {}),
            **({"nodeName": node} if node else {}),
            **({"nodeSelector": node_selector} if node_selector is not None else {}),
            **({"affinity": affinity} if affinity is not None else {}),
            **(spec or {}),
        },
        "status": {"phase": "Running" if node else "Pending", **(status or {})},
    }
    return PodInfo(convert(core_v1.Pod, document))


def make_namespace(name: str, **labels: str) -> core_v1.Namespace:
    """A namespace with these labels."""
    return convert(core_v1.Namespace, {"metadata": {"name": name, "labels": labels}})


def make_service(name: str, selector: Mapping[str, str] | None, namespace: str = "default") -> core_v1.Service:
    """A service that selects pods; None selects none."""
    metadata = {"name": name, "namespace": namespace}
    return convert(core_v1.Service, {"metadata": metadata, "spec": {"selector": selector, "ports": [{"port": 80}]}})


def pod_term(topology_key: str, labels: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A term of pod affinity: pods with these labels; `fields` are other fields of the PodAffinityTerm."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {"topologyKey": topology_key, **selector, **fields}


def pod_affinity(
    *required: Mapping[str, Any], anti: bool = False, preferred: Sequence[tuple[int, Mapping[str, Any]]] = ()
) -> dict[str, Any]:
    """`affinity` of a pod: near (or, if `anti`, away from) the pods of these terms. `preferred`: weight and term."""
    rules: dict[str, Any] = {}
    if required:
        rules["requiredDuringSchedulingIgnoredDuringExecution"] = list(required)
    if preferred:
        weighted = [{"weight": weight, "podAffinityTerm": term} for weight, term in preferred]
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = weighted
    return {"podAntiAffinity" if anti else "podAffinity": rules}


def spread_over(
    topology_key: str, labels: Mapping[str, str] | None = None, *, max_skew: int = 1, hard: bool = True, **fields: Any
) -> dict[str, Any]:
    """A topology spread constraint for pods with these labels; `fields` are its other fields."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    unsatisfiable = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"topologyKey": topology_key, "maxSkew": max_skew, "whenUnsatisfiable": unsatisfiable, **selector, **fields}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster in memory, and the profile that schedules its pods."""

    state: ClusterState
    profile: Profile

    def decide(self, pod: PodInfo, seed: int = 0) -> Decision:
        """Decide a pod without changing the cluster. The decision's `node` is None if no node is feasible."""
        return decide(self.profile, self.state, pod, random.Random(seed), explain=True)

    def place(self, pod: PodInfo, seed: int = 0) -> Decision:
        """Decide a pod, and assume it on the chosen node, if any."""
        decision = self.decide(pod, seed)
        if decision.node:
            self.state.assume(assumed_as(decision.cycle, pod, decision.node), decision.node)
        return decision


def make_cluster(
    *objects: Any,
    plugins: Sequence[ExtraPlugin] = (),
    configuration: str | Path | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> Cluster:
    """A cluster with these nodes, bound pods (PodInfo) and other objects; `plugins` decide after the default ones.

    Objects may also be documents; custom objects are `("plural.version.group", document)`.

    With `configuration`, a KubeSchedulerConfiguration file, its first profile decides; it may name `plugins`. Raises
    ConfigurationError and PluginLoadError. `gates`: the version of Kubernetes, and its feature gates.
    """
    state = ClusterState()
    for obj in objects:
        put(state, *known(obj))
    profiles = configured_profiles(OfflineHandle(state), plugins, configuration, gates=gates)
    return Cluster(state, next(iter(profiles.values())))


def _needs_limit(resource: str) -> bool:
    """Whether the API server requires a limit with a request: it does for huge pages and extended resources."""
    return resource.startswith("hugepages-") or "/" in resource


def _owner(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def _taint(text: str) -> dict[str, str]:
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
