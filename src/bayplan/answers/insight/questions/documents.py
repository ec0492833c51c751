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
    """Return a pod as it was before it got its node; the names of its claims are kept. What stays is not decoded."""
    fields = _fields.decode(pod.raw)
    for name, gone in (("spec", "nodeName"), ("metadata", "deletionTimestamp")):
        part = _fields.decode(fields[name])
        if part.pop(gone, None) is not None:
            fields[name] = msgspec.Raw(encode(part))
    status = _fields.decode(fields["status"]) if fields.get("status", _NULL) != _NULL else {}
    claims = {name: status[name] for name in ("resourceClaimStatuses",) if name in status}
    fields["status"] = msgspec.Raw(encode({"phase": "Pending", **claims}))
    return PodInfo.from_raw(encode(fields))


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")


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
