"""Pods and nodes as documents, and the changes of them that several questions make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api import quantity
from bayplan.api.objects import encode
from bayplan.api.quantity import InvalidQuantity
from bayplan.api.requests import CPU
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.devcluster.apiserver.quantities import format_quantity

_LIFECYCLE = "node.kubernetes.io/"
"""The prefix of taints that tell of a node's condition."""


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as a quantity. `amount`: millicores of cpu, base units of other resources."""
    return format_quantity(amount * (10**6 if resource == CPU else 10**9), binary=_is_binary(resource))


def pod_document(pod: PodInfo) -> dict[str, Any]:
    """Return a pod as a document with `apiVersion` and `kind`."""
    return {**msgspec.json.decode(pod.raw), "apiVersion": "v1", "kind": "Pod"}


def node_document(node: NodeInfo) -> dict[str, Any]:
    """Return a node as a document with `apiVersion`, `kind` and `spec`."""
    document = {"spec": {}, **msgspec.json.decode(encode(node.object)), "apiVersion": "v1", "kind": "Node"}
    document["spec"] = document["spec"] or {}
    return document


def pending_copy(pod: PodInfo) -> PodInfo:
    """Return a pod as it was before it got its node; the names of its claims are kept."""
    return PodInfo.from_raw(encode(pending_document(pod)))


def pending_document(pod: PodInfo) -> dict[str, Any]:
    """Return what `pending_copy` does as a document."""
    document = pod_document(pod)
    document["spec"].pop("nodeName", None)
    document["metadata"].pop("deletionTimestamp", None)
    claims = (document.get("status") or {}).get("resourceClaimStatuses")
    document["status"] = {"phase": "Pending", **({"resourceClaimStatuses": claims} if claims else {})}
    return document


def is_daemon(pod: PodInfo) -> bool:
    """Return whether a pod belongs to a DaemonSet."""
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.ownerReferences or ())


def copy_of_node(node: NodeInfo, name: str = "") -> list[dict[str, Any]]:
    """Return a new, healthy node like another one, and the pods of DaemonSets that run on it.

    `name`: by default that of the node with `-new`. Devices and CSI drivers are not copied.
    """
    name = name or f"{node.name}-new"
    document = node_document(node)
    labels = {**(document["metadata"].get("labels") or {}), "kubernetes.io/hostname": name}
    document["metadata"] = {"name": name, "uid": f"new-{name}", "labels": labels}
    taints = [taint for taint in document["spec"].get("taints") or () if not taint["key"].startswith(_LIFECYCLE)]
    document["spec"] = {"taints": taints}
    daemons = []
    for pod in node.pods:
        if is_daemon(pod):
            daemon = pod_document(pod)
            daemon["metadata"] = {**daemon["metadata"], "name": f"{pod.name}-{name}", "uid": f"{pod.uid}-{name}"}
            daemon["spec"] = {**daemon["spec"], "nodeName": name}
            daemons.append(daemon)
    return [document, *daemons]


def reduce_requests(spec: dict[str, Any], lacking: Mapping[str, int]) -> bool:
    """Lower a pod's requests by these amounts (millicores of cpu, base units of other resources).

    Each amount is taken from the container that requests most of the resource, with its limit where both must be equal.
    Returns whether every request stays above zero; if not, the spec is of no use.
    """
    containers = [spec] if (spec.get("resources") or {}).get("requests") else spec.get("containers") or []
    for resource, amount in lacking.items():
        nanos = amount * (10**6 if resource == CPU else 10**9)
        largest = max(containers, key=lambda each: _request(each, resource), default=None)
        left = -1 if largest is None else _request(largest, resource) - nanos
        if largest is None or left <= 0:
            return False
        text = format_quantity(left, binary=_is_binary(resource))
        resources = largest["resources"]
        resources["requests"] = {**resources["requests"], resource: text}
        if ("/" in resource or resource.startswith("hugepages-")) and resource in (resources.get("limits") or {}):
            resources["limits"] = {**resources["limits"], resource: text}
    return True


def _is_binary(resource: str) -> bool:
    """Whether amounts are written with suffixes such as Mi."""
    return resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")


def _request(container: Mapping[str, Any], resource: str) -> int:
    text = ((container.get("resources") or {}).get("requests") or {}).get(resource)
    try:
        return quantity.parse(text) if text is not None else 0
    except InvalidQuantity:
        return 0
