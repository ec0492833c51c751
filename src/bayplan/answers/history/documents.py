"""Objects as a history stores them: the part that replicas share, and the identity that each of them has.

Pods of one workload have one document, which a row refers to by its key. So a million pods take little more than a
million rows. `identified` puts both together again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from bayplan.answers.history.format import HistoryDocument
from bayplan.core.api.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_QUOTA,
    STATEFUL_SET,
    Kind,
    name_of,
)
from bayplan.core.api.times import rfc3339
from bayplan.core.api.well_known_labels import LAST_APPLIED, ZONE

_IDENTITY = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "selfLink",
    "managedFields",
)
"""The fields of metadata that a document is stored without. `identified` restores the first four."""
_TOKEN = re.compile(r"kube-api-access-[a-z0-9]{5}")
"""The volume that the ServiceAccount admission plugin adds to every pod, with a name of its own in each."""
_TOKEN_NAME = "kube-api-access"  # noqa: S105 - the name of a volume
_OF_ITS_NODE = (ZONE, "topology.kubernetes.io/region")
"""The labels of a pod that the API server copies from the node when it binds the pod."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_WITH_STATUS_OF_PODS = frozenset(
    {
        CRON_JOB,
        DAEMON_SET,
        DEPLOYMENT,
        JOB,
        REPLICA_SET,
        REPLICATION_CONTROLLER,
        RESOURCE_QUOTA,
        STATEFUL_SET,
    }
)
"""The kinds whose status changes with every pod, and says nothing that the pods don't say."""
DEEPEST = 100
"""The deepest nesting of a document: Python and other readers go no deeper than some hundreds."""
_HEARTBEAT = ("lastHeartbeatTime", "lastTransitionTime")
_UNUSED_STATUS = ("nodeInfo", "addresses", "daemonEndpoints", "volumesInUse", "volumesAttached", "config")
"""The fields of a node's status that no decision depends on. Some of them change all the time."""


def document_of(kind: Kind, obj: Mapping[str, Any]) -> HistoryDocument:
    """What is stored of an object: without its identity, a pod without node and status, a node without heartbeats."""
    metadata = {field: value for field, value in mapping(obj, "metadata").items() if field not in _IDENTITY}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    stored = {**obj, "apiVersion": kind.api_version, "kind": kind_name(kind, obj), "metadata": metadata}
    if kind is POD:
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "generateName"):
            metadata.pop(field, None)
        if isinstance(labels := metadata.pop("labels", None), dict):
            own = {key: value for key, value in labels.items() if key not in _OF_ITS_NODE}
            metadata |= {"labels": own} if own else {}
        stored.pop("status", None)
        stored["spec"] = _pod_spec(mapping(obj, "spec"))
    elif kind in _WITH_STATUS_OF_PODS:
        stored.pop("status", None)
    elif kind is NODE:
        stored["status"] = _node_status(mapping(obj, "status"))
    raw = _sorted.encode(stored)
    return HistoryDocument(blake2b(raw, digest_size=16).hexdigest(), raw.decode())


_sorted = msgspec.json.Encoder(order="sorted")


def kind_name(kind: Kind, obj: Mapping[str, Any]) -> str:
    """The `kind` of an object: lists of built-in kinds don't say it, and objects of other kinds do."""
    return kind.kind if kind.model else str(obj.get("kind") or name_of(kind))


def mapping(obj: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return a field that is an object; {} if it is missing, or anything else."""
    value = obj.get(field)
    return value if isinstance(value, dict) else {}


def _pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    spec = {field: value for field, value in spec.items() if field != "nodeName"}
    if isinstance(spec.get("volumes"), list):
        spec["volumes"] = [_with_token_name(volume) for volume in spec["volumes"]]
    for field in _CONTAINERS:
        if isinstance(spec.get(field), list):
            spec[field] = [
                {**container, "volumeMounts": [_with_token_name(mount) for mount in container["volumeMounts"]]}
                if isinstance(container, dict) and isinstance(container.get("volumeMounts"), list)
                else container
                for container in spec[field]
            ]
    return spec


def _with_token_name(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("name"), str) and _TOKEN.fullmatch(value["name"]):
        return {**value, "name": _TOKEN_NAME}
    return value


def _node_status(status: Mapping[str, Any]) -> dict[str, Any]:
    status = {field: value for field, value in status.items() if field not in _UNUSED_STATUS}
    if isinstance(status.get("conditions"), list):
        status["conditions"] = [
            {field: value for field, value in condition.items() if field not in _HEARTBEAT}
            for condition in status["conditions"]
            if isinstance(condition, dict)
        ]
    return status


def document_problem(raw: str) -> str:
    """Why a stored document can't be used; "" if it can."""
    if _depth(raw) > DEEPEST:
        return "is nested too deep"
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "is not JSON"
    if not isinstance(document, dict):
        return "is no object"
    for field in ("metadata", "spec", "status"):
        if not isinstance(document.get(field, {}), dict):
            return f"has a {field} that is no object"
    if document.get("kind") == POD.kind and "spec" not in document:
        return "has no spec"
    return ""


def _depth(raw: str) -> int:
    """How deep a JSON text is nested; 0 for few brackets."""
    if raw.count("{") + raw.count("[") <= DEEPEST:
        return 0
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", raw)):
        depth += 1 if bracket in "{[" else -1
        deepest = max(deepest, depth)
    return deepest


_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")


@lru_cache(4096)
def _parsed(raw: str) -> dict[str, Any]:
    parsed: dict[str, Any] = msgspec.json.decode(raw)
    return parsed


def identified(raw: str, namespace: str, name: str, uid: str = "", created: datetime | None = None) -> dict[str, Any]:
    """A stored document with its identity. It shares parts with others of the same document."""
    document = _parsed(raw)
    metadata = {**document.get("metadata", {}), "name": name}
    if namespace:
        metadata["namespace"] = namespace
    if uid:
        metadata["uid"] = uid
    if created is not None:
        metadata["creationTimestamp"] = rfc3339(created)
    return {**document, "metadata": metadata}


def on_node(document: Mapping[str, Any], node: str, started: datetime | None) -> dict[str, Any]:
    """A pod's document after its binding, as the kubelet reports a running pod."""
    status: dict[str, Any] = {"phase": "Running"}
    if started is not None:
        status["startTime"] = rfc3339(started)
    return {**document, "spec": {**document["spec"], "nodeName": node}, "status": status}
