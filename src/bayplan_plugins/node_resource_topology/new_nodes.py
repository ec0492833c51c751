"""The topology of a new node like another one, for questions about new nodes: nothing is in use there yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.plugin import ObjectStore, PodInfo
from bayplan_plugins.node_resource_topology.cache import TopologyCache
from bayplan_plugins.node_resource_topology.topologies import FINGERPRINT, FINGERPRINT_ANNOTATION, read


def topology_like(
    topologies: ObjectStore, cache: TopologyCache, node: str
) -> Callable[[str, Sequence[PodInfo]], Iterable[Mapping[str, Any]]] | None:
    """Return what makes the topology of a new node like one that exists; None where that has none that can be used."""
    found = topologies.get(node) or topologies.get(f"default/{node}")
    topology = None if found is None else read(found)
    if topology is None or topology.problem:
        return None
    raw = msgspec.json.encode(dict(found))

    def make(name: str, pods: Sequence[PodInfo]) -> Iterable[Mapping[str, Any]]:
        document = msgspec.json.decode(raw)
        old, counted = document["metadata"], cache.fingerprint_of(topology, pods)
        annotations = old.get("annotations") or {}
        if FINGERPRINT_ANNOTATION in annotations:
            annotations[FINGERPRINT_ANNOTATION] = counted
        namespace = {"namespace": old["namespace"]} if old.get("namespace") else {}
        document["metadata"] = {"name": name, "uid": f"topology-{name}", "annotations": annotations, **namespace}
        for attribute in document.get("attributes") or ():
            if attribute["name"] == FINGERPRINT:
                attribute["value"] = counted
        for zone in document["zones"]:
            for resource in zone.get("resources") or ():
                resource["available"] = resource.get("allocatable", resource["available"])
        yield document

    return make
