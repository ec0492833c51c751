"""Objects as an API server would store them, as far as scheduling is concerned, and the client that plugins write with.

A document is a new object as a client sends it, or as this module has stored it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayplan.benchmarking.place import Document
from bayplan.benchmarking.templates import Unsupported
from bayplan.core.api import kinds
from bayplan.core.api.kinds import NAMESPACE, NODE, POD, Kind
from bayplan.core.api.objects import convert, encode
from bayplan.core.api.times import rfc3339

_GRACE_SECONDS = 30
"""The default grace period of pods."""


def key_of(namespace: str | None, name: str) -> str:
    """The key of an object in its store."""
    return f"{namespace}/{name}" if namespace else name


def stored(kind: Kind, document: Document, namespace: str | None, number: int) -> Document:
    """A new or replaced object. `number` becomes its version, and a part of a generated name."""
    metadata = dict(document.get("metadata") or {})
    name = metadata.get("name") or f"{metadata.get('generateName', '')}{number}"
    own: dict[str, Any] = {"name": name, "uid": f"{kind.singular}-{name}", "resourceVersion": str(number)}
    if kind.namespaced:
        own |= {"namespace": namespace, "uid": f"{kind.singular}-{namespace}-{name}"}
    labels = {NODE: {"kubernetes.io/hostname": name}, NAMESPACE: {"kubernetes.io/metadata.name": name}}.get(kind)
    if labels is not None:
        own["labels"] = {**(metadata.get("labels") or {}), **labels}
    document = {**document, "metadata": metadata | own}
    if kind is POD:
        return document | {"spec": _pod_spec(document.get("spec") or {}), "status": {"phase": "Pending"}}
    if kind is NODE:
        status = document.get("status") or {}
        capacity = status.get("capacity") or {}
        return document | {
            "status": status | {"capacity": capacity, "allocatable": status.get("allocatable") or capacity}
        }
    return document


def replaced_pod(old: Document, new: Document, node: str, subresource: str | None, number: int) -> Document:
    """A pod after a client has replaced it, or after it was resized."""
    identity = {name: old["metadata"][name] for name in ("name", "namespace", "uid")}
    identity["resourceVersion"] = str(number)
    spec = _pod_spec(new["spec"])
    if subresource == "resize":
        metadata = old["metadata"] | identity
        pairs = zip(old["spec"]["containers"], spec["containers"], strict=True)
        spec = old["spec"] | {"containers": [{**was, "resources": now["resources"]} for was, now in pairs]}
    elif subresource is None:
        metadata = (new.get("metadata") or {}) | identity
    else:
        raise Unsupported(f"the subresource {subresource} of pods")
    return {**old, "metadata": metadata, "spec": spec | ({"nodeName": node} if node else {})}


def stays(pod: Document, node: str, *, at_once: bool) -> bool:
    """Whether a pod that is deleted stays for now: for its finalizers, or for a kubelet to stop it."""
    grace = 0 if at_once else pod["spec"].get("terminationGracePeriodSeconds", _GRACE_SECONDS)
    return bool(pod["metadata"].get("finalizers") or (node and grace))


def terminating(pod: Document, node: str, now: datetime, number: int) -> Document:
    """A pod that is being deleted."""
    metadata = pod["metadata"] | {"deletionTimestamp": rfc3339(now), "resourceVersion": str(number)}
    return {**pod, "metadata": metadata, "spec": pod["spec"] | ({"nodeName": node} if node else {})}


def claim_for(pod: Document, name: str, template: Any) -> Any:
    """The ResourceClaim of a pod, made from a template."""
    metadata = pod["metadata"]
    made = f"{metadata['name']}-{name}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    own = {"name": made, "namespace": metadata["namespace"], "uid": made, "ownerReferences": [owner]}
    claim = convert(kinds.RESOURCE_CLAIM.type, {"metadata": own})
    claim.spec = template.spec.spec
    return claim


def user_of(claim: Any, number: int) -> bytes:
    """A pod that uses a claim and nothing else, as JSON."""
    metadata = {"name": f"user-{number}", "namespace": claim.metadata.namespace, "uid": f"user-{number}"}
    references = [{"name": "claim", "resourceClaimName": claim.metadata.name}]
    return encode({"metadata": metadata, "spec": {"containers": [{"name": "c"}], "resourceClaims": references}})


def _pod_spec(spec: Mapping[str, Any]) -> Document:
    """A spec with its defaults: limits are also requested."""
    completed = {"schedulerName": "default-scheduler", "priority": 0, **spec}
    for field in ("containers", "initContainers"):
        if spec.get(field):
            completed[field] = [
                {**container, "resources": _resources(container.get("resources") or {})} for container in spec[field]
            ]
    return completed


def _resources(resources: Mapping[str, Any]) -> Document:
    limits = resources.get("limits") or {}
    return {**resources, "limits": limits, "requests": limits | (resources.get("requests") or {})}
