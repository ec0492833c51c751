"""Clusters with NodeResourceTopologies, and pods that want something of a zone, for the tests of the plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, custom_kind
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.plugin import CycleState
from bayplan.testing import ask_filter, ask_scores, make_node, make_pod
from bayplan.testing.documents import known, put
from bayplan_plugins.node_resource_topology.arguments import NodeResourceTopologyMatchArgs
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch
from bayplan_plugins.node_resource_topology.topologies import TOPOLOGIES

KIND = custom_kind(TOPOLOGIES)
POD_LEVEL, CONTAINER_LEVEL = "SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel"


def topology(
    name: str,
    zones: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]],
    policy: str = POD_LEVEL,
    attributes: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A NodeResourceTopology. A zone has `available`, and may have `allocatable`, `costs` and `attributes`.

    Zones without names are node-0, node-1 and so on.
    """
    named = zones if isinstance(zones, Mapping) else {f"node-{number}": zone for number, zone in enumerate(zones)}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, **({"annotations": dict(annotations)} if annotations else {})},
        **({"topologyPolicies": [policy]} if policy else {}),
        "attributes": _pairs(attributes),
        "zones": [_zone(each, zone) for each, zone in named.items()],
    }


def _zone(name: str, zone: Mapping[str, Any]) -> dict[str, Any]:
    total = {**zone["available"], **zone.get("allocatable", {})}
    resources = [
        {"name": each, "capacity": total[each], "allocatable": total[each], "available": amount}
        for each, amount in zone["available"].items()
    ]
    costs = [
        {"name": each if "-" in str(each) else f"node-{each}", "value": v} for each, v in zone.get("costs", {}).items()
    ]
    attributes = _pairs(zone.get("attributes"))
    return {"name": name, "type": "Node", "resources": resources, "costs": costs, "attributes": attributes}


def _pairs(values: Mapping[str, str] | None) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in (values or {}).items()]


def node_of(document: Mapping[str, Any], **more: str) -> Any:
    """A node that is large enough for all its zones, and has some resources more."""
    names = {each["name"] for zone in document["zones"] for each in zone["resources"]} - {"cpu", "memory"}
    return make_node(
        document["metadata"]["name"], cpu="1000", memory="1Ti", resources={**dict.fromkeys(names, "1000Gi"), **more}
    )


@dataclass(frozen=True, slots=True)
class NumaCluster:
    """A cluster, and the plugin that looks at it."""

    state: ClusterState
    plugin: NodeResourceTopologyMatch

    def reasons(self, asked: PodInfo, gone: Mapping[str, Iterable[PodInfo]] | None = None) -> dict[str, str]:
        """Why the plugin rejects a pod on each node, "" where it doesn't. `gone`: victims by node."""
        what_ifs = {node: PodChanges(removed=tuple(pods), returned=()) for node, pods in (gone or {}).items()}
        found = ask_filter(self.plugin, asked, self.state, what_ifs)
        if found is None:
            return {self.state.nodes.name(row): "" for row in range(len(self.state.nodes))}
        assert isinstance(found, dict)
        return found

    def reason(self, asked: PodInfo, node: str = "n") -> str:
        """Why the plugin rejects a pod on one node; "" if it doesn't."""
        return self.reasons(asked)[node]

    def scores(self, asked: PodInfo) -> dict[str, int]:
        """The score of each node."""
        found = ask_scores(self.plugin, asked, self.state)
        assert found is not None
        return found

    def left(self, resource: str, node: str = "n") -> list[int]:
        """What each zone of a node has left of a resource."""
        nodes = self.state.nodes
        row = nodes.position(node)
        assert row is not None
        available = self.plugin.cache.columns.view(nodes.at(np.array([row]))).available(resource)
        return [] if available is None else available[:, 0].tolist()

    def topology(self, document: Mapping[str, Any]) -> None:
        """Let the API server report a topology."""
        self.state.objects[KIND].set(document["metadata"]["name"], CustomObject(document))

    def pod(self, reported: PodInfo) -> None:
        """Let the API server report a pod."""
        self.state.objects[POD].set(reported.key, reported)
        if reported.node_name:
            self.state.set_pod(reported)

    def gone(self, reported: PodInfo) -> None:
        """Let the API server report that a pod is deleted."""
        self.state.objects[POD].remove(reported.key)
        self.state.remove_pod(reported.uid)

    def reserve(self, placed: PodInfo, node: str = "n") -> None:
        """Place a pod, up to its binding."""
        self.state.assume(placed, node)
        self.plugin.reserve(CycleState(), placed, node)

    def unreserve(self, placed: PodInfo, node: str = "n") -> None:
        """Give up the binding of a pod."""
        self.state.forget(placed.uid)
        self.plugin.unreserve(CycleState(), placed, node)


def numa(
    *documents: Mapping[str, Any], nodes: Iterable[Any] = (), objects: Iterable[Any] = (), **args: Any
) -> NumaCluster:
    """A cluster with topologies, and a large node for each of them. `args`: of the plugin."""
    found = list(nodes) or [node_of(document) for document in documents]
    state = ClusterState()
    for each in (*found, *[(TOPOLOGIES, dict(document)) for document in documents], *objects):
        put(state, *known(each))
    arguments = msgspec.convert(args, NodeResourceTopologyMatchArgs)
    assert not list(arguments.faults())
    return NumaCluster(state, NodeResourceTopologyMatch(OfflineHandle(state), arguments))


def pod(
    name: str = "p", *containers: Mapping[str, Any], init: Iterable[Mapping[str, Any]] = (), **fields: Any
) -> PodInfo:
    """A pod. A container has `all`, its requests and limits, or `requests` and `limits`; a sidecar is `always`."""
    spec = {
        "containers": [_container(f"c{at}", each) for at, each in enumerate(containers)],
        "initContainers": [_container(f"i{at}", each) for at, each in enumerate(init)],
        **fields.pop("spec", {}),
    }
    return make_pod(name, spec=spec, **fields)


def _container(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    requests, limits = given.get("requests", given.get("all")), given.get("limits", given.get("all"))
    resources = {key: dict(value) for key, value in (("requests", requests), ("limits", limits)) if value}
    always = {"restartPolicy": "Always"} if given.get("always") else {}
    return {"name": given.get("name", name), "image": "app", "resources": resources, **always}


def wanted(name: str = "p", **amounts: str) -> PodInfo:
    """A guaranteed pod of one container; of devices too, with `vendor__nic` for vendor/nic."""
    return pod(name, {"all": {each.replace("__", "/"): amount for each, amount in amounts.items()}})
