"""What happens to a simulated cluster from outside: pods, nodes and other objects come, change and go.

    for each in (NodeComes(0.0, node), PodArrives(5.0, pod, runs=60.0)):
        each.happen(timeline)

Times are seconds since the start of the simulation, in order. `bayplan.answers.backtest.stream` makes them of a
history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Node

from bayplan.answers.simulation.timeline import Timeline
from bayplan.core.api.kinds import NODE, Kind
from bayplan.core.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PodArrives:
    """A pod is created. It has a node if no scheduler decides about it, or it ran when the simulation began.

    `runs`: the seconds after which it ends by itself once it has a node; None if it runs until it is deleted.
    `returns`: whether it is replaced after an eviction; None if that depends on its owner.
    """

    at: float
    pod: PodInfo
    runs: float | None = None
    returns: bool | None = None

    def happen(self, timeline: Timeline) -> None:
        """Let the pod arrive."""
        timeline.arrive(self.pod, self.runs, self.returns)


@dataclass(frozen=True, slots=True)
class PodEnds:
    """A pod is deleted by its owner, with what has replaced it."""

    at: float
    uid: str

    def happen(self, timeline: Timeline) -> None:
        """Delete the pod."""
        timeline.end(self.uid)


@dataclass(frozen=True, slots=True)
class PodIsPlaced:
    """Another scheduler binds a pod."""

    at: float
    uid: str
    node: str

    def happen(self, timeline: Timeline) -> None:
        """Bind the pod."""
        timeline.place(self.uid, self.node)


@dataclass(frozen=True, slots=True)
class PodIsChanged:
    """The labels or the spec of a pod change. `pod`: without its node."""

    at: float
    pod: PodInfo

    def happen(self, timeline: Timeline) -> None:
        """Store the new version."""
        timeline.update(self.pod)


@dataclass(frozen=True, slots=True)
class NodeComes:
    """A node is added, or changes."""

    at: float
    node: Node

    def happen(self, timeline: Timeline) -> None:
        """Add or change the node."""
        assert self.node.metadata is not None
        timeline.put(NODE, self.node.metadata.name or "", self.node)


@dataclass(frozen=True, slots=True)
class NodeGoes:
    """A node is removed; its pods are gone with it."""

    at: float
    name: str

    def happen(self, timeline: Timeline) -> None:
        """Remove the node."""
        timeline.remove_node(self.name)


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """An object of another kind is added, changed or removed (None)."""

    at: float
    kind: Kind
    key: str
    obj: Any

    def happen(self, timeline: Timeline) -> None:
        """Change the object."""
        timeline.put(self.kind, self.key, self.obj)
