"""Rejects ResourceSlices for nodes that don't declare the features that their devices need.

Mirrors Kubernetes' plugin/pkg/admission/nodedeclaredfeatures, for slices.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import NodeSelector

from bayplan.core.api.kinds import NODE, RESOURCE_SLICE
from bayplan.core.api.objects import convert
from bayplan.core.api.selectors import parse_node_selector
from bayplan.core.api.status import forbidden
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.validation.attributes import OVERHEAD_OF_DEVICES

FEATURE = "DRANodeAllocatableResources"
"""What nodes declare that count resources which devices provide or need. Also a feature gate."""
NEEDED = frozenset({FEATURE, "NodeDeclaredFeatures", OVERHEAD_OF_DEVICES})
"""The gates and changes of Kubernetes without which there is no such rule."""


def check_declared_features(
    storage: RestStorage, resource: Resource, new: Object, _old: Object | None, _subresource: str
) -> None:
    """Rejects a new or changed slice with devices that provide or need resources of nodes that lack FEATURE.

    Raises 403.
    """
    if resource.kind.resource != RESOURCE_SLICE.resource:
        return
    spec, name = new["spec"], new["metadata"].get("name", "")
    for device in spec.get("devices", ()):
        if device.get("nodeAllocatableResources"):
            problem = _problem(storage, device, device if spec.get("perDeviceNodeSelection") else spec)
            if problem:
                raise forbidden(resource.kind, name, problem)


def _problem(storage: RestStorage, device: Object, place: Object) -> str:
    """What is wrong with the nodes of a device, "" if nothing is. `place`: what says which nodes these are."""
    entries = storage.store.collection(NODE.resource).objects
    nodes: Iterable[Object]
    if place.get("nodeName"):
        entry = entries.get(place["nodeName"])
        if entry is None:
            return f'node "{place["nodeName"]}" not found for device "{device["name"]}"'
        nodes = [entry.load()]
    elif place.get("nodeSelector") is not None:
        selector = parse_node_selector(convert(NodeSelector, place["nodeSelector"]))
        nodes = (
            node
            for node in (each.load() for each in entries.values())
            if selector.matches(node["metadata"].get("labels", {}), node["metadata"]["name"])
        )
    elif place.get("allNodes"):
        nodes = (each.load() for each in entries.values())
    else:
        return f'device "{device["name"]}" in ResourceSlice has NodeAllocatableResources but does not map to any nodes'
    for node in nodes:
        if FEATURE not in node.get("status", {}).get("declaredFeatures", ()):
            return f'node "{node["metadata"]["name"]}" does not support {FEATURE} feature'
    return ""
