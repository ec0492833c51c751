"""What a request of an audit log makes of an object: what was stored, what was sent, and whether a delete removes it.

A deleted object is there until its grace period is over, which its kubelet says with a delete of its own, and until
its last finalizer is gone. What is known only as a request is completed here as the API server would.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

from bayplan.answers.history.documents import mapping
from bayplan.answers.history.following import TERMINATED
from bayplan.answers.history.sources.audit_files import AuditEvent
from bayplan.answers.history.sources.versions import version_of
from bayplan.core.api.defaults import set_defaults
from bayplan.core.api.kinds import NAMESPACE, POD, Kind
from bayplan.core.api.patch import apply_json_patch, apply_strategic_patch
from bayplan.core.api.status import StatusError
from bayplan.core.api.times import rfc3339

Document = dict[str, Any]

KUBELET = "system:node:"
"""What the user names of kubelets begin with."""
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_DEFAULT_GRACE = 30
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_METADATA_ONLY = "PartialObjectMetadata"
_ODD = (StatusError, TypeError, AttributeError, KeyError, ValueError, RecursionError)
"""What a request raises that no API server would have carried out as it is in the log."""


def stored(kind: Kind, event: AuditEvent, known: Document | None) -> Document | None:
    """The object as it was stored after a request, where the log has it: its response, but for other kinds of objects.

    `known`: the version before, for clients that wanted only the metadata of the response.
    """
    response = event.response
    if response is None or not isinstance(response.get("metadata"), dict) or not response["metadata"].get("name"):
        return None
    if response.get("kind") == _METADATA_ONLY and known is not None and uid_of(known) == uid_of(response):
        return {**known, "metadata": response["metadata"]}
    return response if response.get("kind", kind.kind) == kind.kind else None


def key_in(event: AuditEvent) -> str:
    """The key of the object that a request names."""
    return f"{event.namespace}/{event.name}" if event.namespace else event.name


def grace_in(event: AuditEvent) -> int | None:
    """The grace period that a delete asks for; that of a kubelet is none, also where the log doesn't have it."""
    options: Mapping[str, Any] = event.request if isinstance(event.request, dict) else {}
    if event.subresource == "eviction":
        options = mapping(options, "deleteOptions")
    grace = options.get("gracePeriodSeconds", event.parameters.get("gracePeriodSeconds"))
    if isinstance(grace, str) and grace.removeprefix("-").isdecimal():
        return int(grace)
    if isinstance(grace, int):
        return grace
    return 0 if event.request is None and event.user.startswith(KUBELET) else None


def listed(kind: Kind, response: Any) -> list[Document]:
    """The objects of a list, or the object itself."""
    if not isinstance(response, dict):
        return []
    items = response.get("items")
    return [
        item
        for item in (items if isinstance(items, list) else [response])
        if isinstance(item, dict)
        and isinstance(item.get("metadata"), dict)
        and item["metadata"].get("name")
        and item.get("kind", kind.kind) == kind.kind
    ]


def sent(event: AuditEvent) -> Document:
    """The object as it was sent, with the name and the namespace that the request has."""
    obj = event.request if isinstance(event.request, dict) else {}
    metadata = obj.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    if event.name:
        metadata.setdefault("name", event.name)
    if event.namespace:
        metadata["namespace"] = event.namespace
    if metadata.get("name"):
        metadata.setdefault("uid", f"{event.namespace}/{metadata['name']}/{event.time.isoformat()}")
    return {**obj, "metadata": metadata}


def patched(kind: Kind, known: Document, event: AuditEvent) -> Document | None:
    """The object after an update or a patch, if the log has only the request; None if it can't be applied."""
    request = event.request
    try:
        if event.subresource == "scale":
            replicas = (event.response or request)["spec"]["replicas"]
            return {**known, "spec": {**known["spec"], "replicas": replicas}}
        if event.verb == "update":
            full = sent(event)
            if event.subresource:
                return {**known, "status": full.get("status", {})}
            identity = {"uid": uid_of(known)} if known else {}
            return {**full, "metadata": {**full["metadata"], **identity}}
        if isinstance(request, list):
            return apply_json_patch(known, request)
        return apply_strategic_patch(kind, known, request)
    except _ODD:
        return None


def completed(pod: Document, classes: Mapping[str, Document]) -> tuple[Document, str]:
    """A pod as it was sent, with defaults and its priority. Returns the name of a class that isn't known, too.

    `classes`: the PriorityClasses that exist.
    """
    spec = dict(pod["spec"]) if isinstance(pod.get("spec"), dict) else {}
    name = str(spec.get("priorityClassName") or "")
    found = classes.get(name) if name else _default_class(classes)
    if found is not None:
        spec.setdefault("priorityClassName", found["metadata"]["name"])
        spec.setdefault("priority", found.get("value", 0))
        spec.setdefault("preemptionPolicy", found.get("preemptionPolicy") or "PreemptLowerPriority")
    elif name in _SYSTEM_CLASSES:
        spec.setdefault("priority", _SYSTEM_CLASSES[name])
    unknown = name if name and "priority" not in spec else ""
    given = {**pod, "spec": spec}
    try:
        filled = deepcopy(given)
        set_defaults("core_v1.Pod", filled)
    except _ODD:
        return given, unknown
    return filled, unknown


def _default_class(classes: Mapping[str, Document]) -> Document | None:
    defaults = (each for each in classes.values() if each.get("globalDefault") is True)
    return min(defaults, key=lambda each: each.get("value") or 0, default=None)


def on_node(obj: Document, node: str) -> Document:
    """A pod after its binding."""
    spec = obj.get("spec")
    return {**obj, "spec": {**(spec if isinstance(spec, dict) else {}), "nodeName": node}}


def with_what_lasts(obj: Document, known: Document) -> Document:
    """A version with the node and the deletion that an object is known to have, which none ever loses.

    The version may be one that was stored before a binding, or an eviction, whose reply has no version.
    """
    node = mapping(known, "spec").get("nodeName")
    if node and "spec" in obj and not mapping(obj, "spec").get("nodeName"):
        obj = on_node(obj, node)
    metadata = known["metadata"]
    if "deletionTimestamp" in metadata and "deletionTimestamp" not in obj["metadata"]:
        deletion = {field: metadata[field] for field in _DELETION if field in metadata}
        obj = {**obj, "metadata": {**obj["metadata"], **deletion}}
    return obj


def after_delete(kind: Kind, obj: Document, grace: int | None, time: datetime, *, bound: bool) -> Document:
    """An object after a delete, if the log has only the request. `is_removed` says whether it is still there.

    `grace`: as the request has it. `bound`: whether a pod has a node, although its spec may not say so.
    """
    metadata = obj["metadata"]
    seconds = 0
    if kind is POD and bound and mapping(obj, "status").get("phase") not in TERMINATED:
        own = mapping(obj, "spec").get("terminationGracePeriodSeconds")
        seconds = grace if grace is not None else own if isinstance(own, int) else _DEFAULT_GRACE
        seconds = max(seconds, 1) if seconds else 0
        if "deletionTimestamp" in metadata:  # it can only become shorter
            seconds = min(seconds, _grace_of(metadata))
    at = rfc3339(time + timedelta(seconds=seconds))
    return {**obj, "metadata": {**metadata, "deletionTimestamp": at, "deletionGracePeriodSeconds": seconds}}


def without_grace(obj: Document) -> Document:
    """A pod after a delete without a grace period, which waits for no kubelet, whatever its response says."""
    return {**obj, "metadata": {**obj["metadata"], "deletionGracePeriodSeconds": 0}}


def is_removed(kind: Kind, obj: Document) -> bool:
    """Whether this is the last version of an object: its deletion waits neither for a kubelet nor for a finalizer."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or _grace_of(metadata) or metadata.get("finalizers"):
        return False
    return not (kind is NAMESPACE and mapping(obj, "spec").get("finalizers"))


def is_older(obj: Document, known: Document) -> bool:
    """Whether a version was stored before another one of the same kind."""
    one, other = version_of(obj), version_of(known)
    return one is not None and other is not None and one < other


def _grace_of(metadata: Mapping[str, Any]) -> int:
    seconds = metadata.get("deletionGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else 0


def uid_of(obj: Mapping[str, Any]) -> str:
    """The uid; "" if there is none."""
    return str(mapping(obj, "metadata").get("uid") or "")
