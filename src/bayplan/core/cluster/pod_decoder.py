"""Decodes the pods of a watch. What was read from a spec is not read again from an equal one.

The API server sends a pod several times, and only its node and its status change. Pods of one origin often have equal
specs, too. `spec_cache` holds what plugins derive from a spec.
"""

from __future__ import annotations

import msgspec
from lightkube.models.core_v1 import PodStatus
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.latest import LruDict

CAPACITY = 500
"""The number of specs that are known."""
LARGEST = 8_192
"""Bytes. Larger specs are not kept, so that tenants can't fill the memory with them."""


class PodDecoder:
    """Decodes versions of pods as `PodInfo.from_raw` does, but pods with equal specs share what is read of them."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._known: LruDict[bytes, PodInfo] = LruDict(capacity)
        """The JSON of a spec -> a pod without a node, metadata and status."""

    def decode(self, raw: bytes) -> PodInfo:
        """Make a PodInfo from a pod's JSON. Raises UndecodableObject or InvalidQuantity."""
        try:
            parts = _parts.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return PodInfo.from_raw(raw)
        metadata, status = parts.metadata, parts.status
        if _has_resources(status) or len(parts.spec) > LARGEST:
            return PodInfo.from_raw(raw)
        spec, node_name = _without_node(bytes(parts.spec))
        known = self._known.use(spec)
        if known is not None:
            metadata.managedFields = None
            return known.with_equal_spec(metadata, status, node_name, raw)
        pod = PodInfo.from_raw(raw)
        if not pod.node_name:
            self._known[spec] = pod.with_equal_spec(ObjectMeta(), None, "", b"")
        return pod


class _Parts(msgspec.Struct):
    metadata: ObjectMeta
    spec: msgspec.Raw
    status: PodStatus | None = None


class _Node(msgspec.Struct):
    nodeName: str


_NODE_NAME = b',"nodeName":"'
_parts = msgspec.json.Decoder(_Parts)
_node = msgspec.json.Decoder(_Node)


def _without_node(spec: bytes) -> tuple[bytes, str]:
    """Return a spec without its node, and the node.

    If another field with the same name and value comes first, that one is removed instead. The result then still has a
    node, so it equals no spec without one.
    """
    if _NODE_NAME not in spec:
        return spec, ""
    try:
        node_name = _node.decode(spec).nodeName
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return spec, ""
    return spec.replace(_NODE_NAME + node_name.encode() + b'"', b"", 1), node_name


def _has_resources(status: PodStatus | None) -> bool:
    """Whether the pod's requests depend on its status (see `requests.pod_requests`)."""
    return status is not None and bool(
        status.containerStatuses
        or status.initContainerStatuses
        or status.resources is not None
        or status.nodeAllocatableResourceClaimStatuses
    )
