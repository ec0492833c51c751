"""Capabilities: what some plugins can do beside the extension points.

Simulations, questions, comparisons, capacity checks and the results that pods share ask for it.

A plugin has one if it has the methods of its protocol and keeps their promises (`profile.implements`). No decision
depends on them, and nothing outside asks which class a plugin is of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bayplan.core.cluster.columns import Int64, Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.verdicts import Diagnosis


@runtime_checkable
class ReplicaScores(Protocol):
    """Keeps the data of PreScore up to date while replicas are added, and says which nodes have equal scores.

    For a plugin whose scores change on many nodes with every replica, so that they can't be shared.
    """

    def replica_kinds(self, cycle: CycleState, nodes: Nodes) -> Sequence[Int64]:
        """Return arrays of numbers, one number per node. Nodes that are equal in all of them have equal scores."""

    def count_replica(self, cycle: CycleState, pod: PodInfo, row: int) -> None:
        """Count a pod with the same namespace and labels, which was added to a row."""


@runtime_checkable
class RejectsAgain(Protocol):
    """Says whether PostFilter would reject a pod, so that it isn't called."""

    def may_make_room(self, pod: PodInfo) -> bool:
        """Return whether `post_filter` may help the pod now, whatever the verdicts of the filters are."""

    def rejects_again(self, pod: PodInfo, diagnosis: Diagnosis, rng: random.Random) -> bool:
        """Return whether `post_filter` would return what it did last with an equal pod and the same verdicts, which was
        a rejection. Only pods on nodes have changed since.

        Random numbers are drawn as `post_filter` would, so that all that follows is the same.
        """


@runtime_checkable
class HelpedOnNode(Protocol):
    """Says on which node an event may change the plugin's verdict, where its hint requeues pods.

    What the plugin's `pre_filter` stores, and then its verdict on a node, depends on the pod, that node and its pods.
    """

    def helped_on(self, event: ClusterEvent, old: Any, new: Any) -> str | None:
        """Return the only node on which an event may let the plugin accept a pod; None if there may be others."""


@runtime_checkable
class SampledPreemption(Protocol):
    """Says which nodes PostFilter tries: as many in a row as have enough candidates, from a random one of them on.

    The first one is at the place `what_if.rng.randrange(len(rows))` of `rows_to_try`.
    """

    def rows_to_try(self, diagnosis: Diagnosis) -> Rows:
        """Return the rows where evictions may help, ascending."""

    def candidates_to_find(self, nodes: int) -> int:
        """Return how many candidates are enough among a number of nodes."""


@dataclass(frozen=True, slots=True)
class PodsByDomain:
    """The pods that a constraint of a pod counts in each domain of a topology, the fewest first.

    `skew`: how many more the fullest one has than what counts as the fewest; at most `max_skew` should be.
    """

    topology_key: str
    max_skew: int
    by_domain: Mapping[str, int]
    skew: int

    @property
    def uneven(self) -> bool:
        """Whether the constraint would not allow this."""
        return self.skew > self.max_skew


@runtime_checkable
class CountsDomains(Protocol):
    """Says how evenly pods are spread now, counted as Filter counts them."""

    def pods_by_domain(self, pod: PodInfo, nodes: Nodes) -> Iterator[PodsByDomain]:
        """Yield the counts of each required constraint of a pod. `nodes`: all. Raises InvalidSelector."""


@runtime_checkable
class CountsRoom(Protocol):
    """Says how many pods of a kind nodes have room for, as far as this plugin decides."""

    def room_for(self, pod: PodInfo, nodes: Nodes) -> Int64:
        """Return how many pods like this one may be added to each node: int64. It rejects the pod where that is 0."""


@runtime_checkable
class NodeObjects(Protocol):
    """Says which objects belong to a node, so that a new node like another one has such objects, too.

    For a plugin that reads objects named as their nodes: else, questions about new nodes would have wrong answers.
    """

    def objects_like(self, node: str) -> Callable[[str, Sequence[PodInfo]], Iterable[Mapping[str, Any]]] | None:
        """Return what makes the objects of a new node like one that exists, as that one is now. None if it has none.

        It gets the name of the new node and its first pods, those of DaemonSets, and returns documents with
        `apiVersion`, `kind` and `metadata`.
        """


@runtime_checkable
class Checkpointed(Protocol):
    """Puts what it remembers of earlier decisions and events into the checkpoints of a recording.

    For a plugin whose decisions depend on more than the objects, the pods on nodes and the time: else, a replay that
    begins at a checkpoint may decide otherwise.
    """

    def checkpoint(self) -> Any:
        """Return what the plugin remembers, as values that msgspec encodes as JSON. They are encoded at once."""

    def restore(self, checkpoint: Any) -> None:
        """Remember what `checkpoint` returned, as decoded JSON, in place of all that is remembered now.

        The objects and the pods on nodes are as they were then, and listeners have been called with them. Raises
        ValueError for what it can't use, and changes nothing then: recordings come from anyone.
        """
