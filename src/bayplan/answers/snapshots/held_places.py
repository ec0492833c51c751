"""The room that is held for provisioning requests, as pods on nodes: so a scheduler that answers requests counts it.

The API server has no such pods. Where room is held, the status of the request says (`bayplan.core.api.provisioning`).
A pending pod that names a request has one of its places: there, it isn't in the way of itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bayplan.core.api.kinds import POD, POD_TEMPLATE, PRIORITY_CLASS, RUNTIME_CLASS, Kind
from bayplan.core.api.objects import decode, encode
from bayplan.core.api.provisioning import (
    PROVISIONING_REQUEST,
    ProvisioningRequest,
    consumed_by,
    held_places,
    place_name,
)
from bayplan.core.expansion.provisioned_pods import Classes, TemplateError, pod_of_template

Documents = Mapping[Kind, Mapping[str, bytes]]

_TAKES = b"/consume-provisioning-request"


def with_held_places(documents: Documents) -> Documents:
    """Return the documents of a cluster with the pods that stand for held places, if there are any."""
    requests = documents.get(PROVISIONING_REQUEST)
    if not requests:
        return documents
    holding = list(_holding(requests))
    waiting = _waiting(documents) if holding else {}
    held = {
        key: raw
        for request in holding
        for key, raw in _pods_of(request, documents, waiting.get(request.key, Counter()))
    }
    if not held:
        return documents
    return {**documents, POD: {**documents.get(POD, {}), **held}}


def _holding(requests: Mapping[str, bytes]) -> Iterator[ProvisioningRequest]:
    for raw in requests.values():
        try:
            request = ProvisioningRequest.of(msgspec.json.decode(raw))
        except msgspec.MsgspecError:
            continue  # a scheduler leaves it alone, too
        if request.holds:
            yield request


class _Waiting(msgspec.Struct):
    """A pod, as far as it takes a place."""

    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = "default"
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    nodeName: str | None = None
    schedulingGates: list[Any] | None = None


class _Status(msgspec.Struct):
    nominatedNodeName: str | None = None


def _waiting(documents: Documents) -> dict[str, Counter[str]]:
    """The pending pods that have places, by the key of the request: how many are nominated to which node, or to ""."""
    found: dict[str, Counter[str]] = {}
    for raw in documents.get(POD, {}).values():
        if _TAKES not in raw:
            continue
        try:
            pod = msgspec.json.decode(raw, type=_Waiting)
        except msgspec.MsgspecError:
            continue
        request = consumed_by(pod.metadata.annotations or {})
        if request and not pod.spec.nodeName and not pod.spec.schedulingGates:
            node = (pod.status.nominatedNodeName if pod.status else None) or ""
            found.setdefault(f"{pod.metadata.namespace}/{request}", Counter())[node] += 1
    return found


def _pods_of(request: ProvisioningRequest, documents: Documents, waiting: Counter[str]) -> Iterator[tuple[str, bytes]]:
    templates = documents.get(POD_TEMPLATE, {})
    classes = Classes(_decoded(documents, PRIORITY_CLASS), _decoded(documents, RUNTIME_CLASS))
    for number, nodes in held_places(request.details).items():
        if number >= len(request.pod_sets):
            continue
        raw = templates.get(f"{request.namespace}/{request.pod_sets[number].template}")
        try:
            pod = None if raw is None else pod_of_template(request, decode(POD_TEMPLATE.type, raw), classes)
        except (TemplateError, ValueError):
            pod = None
        if pod is None:
            continue
        document: dict[str, Any] = msgspec.json.decode(encode(pod))
        for index, node in enumerate(_left(nodes, waiting)):
            name = place_name(request.name, number, index)
            metadata = {**document["metadata"], "name": name, "uid": place_name(request.uid, number, index)}
            placed = {"metadata": metadata, "spec": {**document["spec"], "nodeName": node}}
            yield f"{request.namespace}/{name}", encode(placed)


def _left(nodes: Mapping[str, int], waiting: Counter[str]) -> Iterator[str]:
    """Yield the node of each place that no pending pod has. What they have is taken off `waiting`."""
    for node, count in nodes.items():
        for _ in range(max(count, 0)):
            taken = node if waiting[node] else ""
            if waiting[taken]:
                waiting[taken] -= 1
            else:
                yield node


def _decoded(documents: Documents, kind: Kind) -> dict[str, Any]:
    found = {}
    for name, raw in documents.get(kind, {}).items():
        try:
            found[name] = decode(kind.type, raw)
        except ValueError:
            continue
    return found
