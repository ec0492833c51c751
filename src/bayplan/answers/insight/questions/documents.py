"""Pods and nodes as documents, and the changes of them that several questions make."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.core.api.objects import encode
from bayplan.core.api.well_known_labels import HOSTNAME
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.lasting_taints import is_of_a_moment
from bayplan.core.framework.remedies import is_daemon


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


def copy_of_node(node: NodeInfo, name: str = "") -> list[dict[str, Any]]:
    """Return a new, healthy node like another one, and the pods of DaemonSets that run on it.

    `name`: by default that of the node with `-new`. Devices and CSI drivers are not copied.
    """
    name = name or f"{node.name}-new"
    document = node_document(node)
    labels = {**(document["metadata"].get("labels") or {}), HOSTNAME: name}
    document["metadata"] = {"name": name, "uid": f"new-{name}", "labels": labels}
    taints = [taint for taint in document["spec"].get("taints") or () if not is_of_a_moment(taint["key"])]
    document["spec"] = {"taints": taints}
    daemons = []
    for pod in node.pods:
        if is_daemon(pod):
            daemon = pod_document(pod)
            daemon["metadata"] = {**daemon["metadata"], "name": f"{pod.name}-{name}", "uid": f"{pod.uid}-{name}"}
            daemon["spec"] = {**daemon["spec"], "nodeName": name}
            daemons.append(daemon)
    return [document, *daemons]
