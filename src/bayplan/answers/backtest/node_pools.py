"""Node pools: the groups that nodes of a history belong to, and what a new node of each would be.

A pool is one of the user's labels, or one size where nothing names it. A new node is a copy of one that existed, with
its pods of DaemonSets, its CSINode and its slices of devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lightkube.models.core_v1 import Node

from bayplan.answers.insight.pools import pool_of, type_of, zone_of
from bayplan.answers.insight.questions.node_groups import CONTROL_PLANE
from bayplan.core.api.kinds import NODE, POD, RESOURCE_SLICE, Kind
from bayplan.core.api.objects import convert, encode
from bayplan.core.api.well_known_labels import HOSTNAME
from bayplan.core.cluster.pod_info import PodInfo

_LIFECYCLE = "node.kubernetes.io/"
"""The prefix of taints that tell of a node's condition."""

Json = Mapping[str, Any]


class PoolKey(NamedTuple):
    """What nodes of one group have in common. `size`: their CPU and memory where no label names their type."""

    pool: str
    instance_type: str
    zone: str
    size: str = ""

    @property
    def name(self) -> str:
        """A name for people and for new nodes."""
        return "-".join(part for part in (self.pool, self.instance_type, self.size, self.zone) if part) or "node"

    def is_called(self, name: str) -> bool:
        """Whether a user means this group: by its pool, or by its instance type where it has no pool."""
        return bool(name) and name == (self.pool or self.instance_type)


def key_of(labels: Mapping[str, str], allocatable: Mapping[str, Any]) -> PoolKey | None:
    """Return the group of a node; None for one of the control plane."""
    if any(label in labels for label in CONTROL_PLANE):
        return None
    kind = type_of(labels)
    size = "" if kind else f"{allocatable.get('cpu', '?')}-{allocatable.get('memory', '?')}".lower()
    return PoolKey(pool_of(labels), kind, zone_of(labels), size)


def key_of_document(document: Json) -> PoolKey | None:
    """Return the group of a node in a document; None for one of the control plane."""
    labels = (document.get("metadata") or {}).get("labels") or {}
    return key_of(labels, (document.get("status") or {}).get("allocatable") or {})


@dataclass(slots=True)
class NodePool:
    """A group of nodes in a history. `like`: the document of one of them.

    `daemons`: the pods of DaemonSets on that node. `attached`: its CSINode, and the slices of its devices. `number`:
    how many nodes it has now, `most`: at most. `changed`: whether nodes came or went.
    """

    key: PoolKey
    like: Json
    daemons: list[Json] = field(default_factory=list)
    attached: list[tuple[Kind, Json]] = field(default_factory=list)
    number: int = 0
    most: int = 0
    changed: bool = False

    def make(self, name: str) -> Iterator[tuple[Kind, str, Any]]:
        """Yield a new node, what belongs to it, and its pods of DaemonSets."""
        yield NODE, name, self.node(name)
        for kind, document in self.attached:
            yield _attached_to(name, kind, document)
        for document in self.daemons:
            metadata = document["metadata"]
            named = {**metadata, "name": f"{metadata['name']}-{name}", "uid": f"{metadata.get('uid', '')}-{name}"}
            spec = {**document["spec"], "nodeName": name, "affinity": None}  # it names the node that it was made for
            pod = PodInfo.from_raw(encode({**document, "metadata": named, "spec": spec}))
            yield POD, pod.key, pod

    def node(self, name: str) -> Node:
        """A new node: healthy, and not cordoned."""
        metadata, spec, status = (self.like.get(part) or {} for part in ("metadata", "spec", "status"))
        labels = {**(metadata.get("labels") or {}), HOSTNAME: name}
        taints = [taint for taint in spec.get("taints") or () if not taint["key"].startswith(_LIFECYCLE)]
        document = {
            "metadata": {**metadata, "name": name, "uid": f"node-{name}", "labels": labels},
            "spec": {"taints": taints},
            "status": status,
        }
        return convert(Node, document)


def _attached_to(node: str, kind: Kind, document: Json) -> tuple[Kind, str, Any]:
    """The CSINode of a node, or a slice of its devices, for a new node."""
    name, metadata = node, document["metadata"]
    if kind is RESOURCE_SLICE:
        spec = document["spec"]
        name = f"{metadata['name']}-{node}"
        pool = {**(spec.get("pool") or {}), "name": f"{(spec.get('pool') or {}).get('name', '')}-{node}"}
        document = {**document, "spec": {**spec, "nodeName": node, "pool": pool}}
    metadata = {**metadata, "name": name, "uid": f"{kind.resource}-{name}"}
    return kind, name, convert(kind.type, {**document, "metadata": metadata})
