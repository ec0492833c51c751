"""The events of a history as typed values. `Event` is their union, for `match`.

Documents are whole objects with `apiVersion` and `kind`. They share parts with each other: don't change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bayplan.core.api.kinds import Kind

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod, by the pod's owner reference: for a pod of a Deployment, its ReplicaSet."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PodArrived:
    """A pod was created."""

    time: datetime
    key: str
    """`namespace/name`."""
    uid: str
    document: Json
    """The pod as it was created: without node and status."""
    owner: Owner | None = None
    runs: float | None = None
    """After how many seconds on a node the pod ends by itself, where that is known without its end: no PodEnded says
    when a pod of a trace or a synthesized history ended, because no scheduler has placed it yet."""


@dataclass(frozen=True, slots=True)
class PodChanged:
    """The labels, the annotations or the spec of a pod changed. `document`: as in PodArrived."""

    time: datetime
    key: str
    uid: str
    document: Json


@dataclass(frozen=True, slots=True)
class PodBound:
    """A pod was bound to a node, by any scheduler."""

    time: datetime
    key: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class PodEnded:
    """A pod doesn't count on its node any longer. `reason`: see `Row.reason`."""

    time: datetime
    key: str
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node came."""

    time: datetime
    name: str
    document: Json


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node's labels, taints, resources or conditions changed."""

    time: datetime
    name: str
    document: Json


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node went."""

    time: datetime
    name: str


@dataclass(frozen=True, slots=True)
class ObjectAdded:
    """Another object was created: a claim, a disruption budget, a priority class, a workload."""

    time: datetime
    kind: Kind
    key: str
    document: Json


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """Another object changed."""

    time: datetime
    kind: Kind
    key: str
    document: Json


@dataclass(frozen=True, slots=True)
class ObjectRemoved:
    """Another object was deleted."""

    time: datetime
    kind: Kind
    key: str


Event = (
    PodArrived
    | PodChanged
    | PodBound
    | PodEnded
    | NodeAdded
    | NodeChanged
    | NodeRemoved
    | ObjectAdded
    | ObjectChanged
    | ObjectRemoved
)
