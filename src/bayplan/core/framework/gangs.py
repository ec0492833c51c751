"""Gangs, the extension points about them, and the types of their arguments and results.

A gang is a group of pods: enough of them are placed together, or none. It may consist of other gangs, as a
CompositePodGroup does: then, enough of these are placed together, or none. The protocols are like those in `interface`.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import AllRemoved
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import Status

if TYPE_CHECKING:
    from bayplan.core.framework.interface import CycleState
    from bayplan.core.framework.remedies import Remedy


@dataclass(frozen=True, slots=True)
class Gang:
    """A group of pods: enough of them are placed together, or none.

    Attributes:
        name: identifies the gang among all gangs of its plugin.
        members: the pending pods of the gang, in the order in which they are attempted.
        needed: how many of `members` have to be placed. If 0, each member may be placed on its own.
        placed: how many further pods of the gang are on nodes already, or about to be bound.
        nodes: the names of the nodes of these pods, if the plugin knows them.
        together: if there are fewer than `needed` members, True leaves them pending; False attempts each one on its
            own, and they wait for each other in Permit.
        pod_group: `namespace/name` of the Kubernetes PodGroup that the gang belongs to; "" if there is none.
        no_preemption: if not empty, the reason why members must not preempt on their own. Members are not attempted on
            their own then.
        gated: further pending pods of the gang, which have scheduling gates and are not attempted.
        problem: if not empty, what is wrong with the gang: the attempt of its members fails with this message.
        whole: whether an attempt is always about all members, however many are needed. PostFilter plugins don't run for
            them then, and the scheduler names of all members must be the same.
        evicts: whether the victims of a preemption for the gang are evicted. If not, its message only names them.
        asked_as_one: whether its members, once refused, are refused as a whole: an event that helps asks for one.
        groups: the gangs that it consists of, in the order in which they are attempted. `members`, `placed`, `nodes`
            and `gated` are those of all of them together. Empty for a gang of pods.
        groups_needed: how many of `groups` have to be placed.
        composite: `namespace/name` of the CompositePodGroup that a gang of gangs belongs to; "" if there is none.
        data: what plugins keep for all members during one attempt of the gang, by plugin name. Mirrors
            fwk.PodGroupCycleState.
    """

    name: str
    members: tuple[PodInfo, ...]
    needed: int
    placed: int = 0
    nodes: tuple[str, ...] = ()
    together: bool = False
    pod_group: str = ""
    no_preemption: str = ""
    gated: tuple[PodInfo, ...] = ()
    problem: str = ""
    whole: bool = False
    evicts: bool = True
    asked_as_one: bool = False
    groups: tuple[Gang, ...] = ()
    groups_needed: int = 0
    composite: str = ""
    data: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def pod_groups(self) -> frozenset[str]:
        """The keys of the PodGroups that its pods are in: its own, or those of all its groups."""
        return frozenset({self.pod_group} - {""}).union(*(group.pod_groups for group in self.groups))

    def descendants(self) -> Iterator[Gang]:
        """Yield the gangs that it consists of, at all levels."""
        for group in self.groups:
            yield group
            yield from group.descendants()

    def down_to(self, uid: str) -> tuple[Gang, ...]:
        """Return the gangs that a pending or gated pod is in, from this one to the gang of pods."""
        for group in self.groups:
            if any(pod.uid == uid for pod in (*group.members, *group.gated)):
                return self, *group.down_to(uid)
        return (self,)


def several_schedulers(pod: PodInfo, first: PodInfo) -> str:
    """The problem of a gang if a pod has another scheduler name than the first one."""
    return (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        f'got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
    )


PLACED_WITH = "placed with"
"""Key in `CycleState.data`: the Gang that the pod is placed with. Not set for a pod that is placed on its own."""


class GangOutcome(Enum):
    """The outcome of a gang's attempt."""

    PLACED = "placed"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Placement:
    """A node set that a whole gang must fit in. `name` identifies it in messages.

    `label`: the node label whose value is the name, if there is one.
    """

    name: str
    nodes: Nodes
    label: str = ""


@dataclass(frozen=True, slots=True)
class GangVictims:
    """The pods to evict for a gang, most important first. `preemptor` is the member that they are evicted for.

    `pod_group_uid`: the UID of the PodGroup that the victims' conditions name as the preemptor; "" names the pod.
    """

    preemptor: PodInfo
    victims: tuple[PodInfo, ...]
    pod_group_uid: str = ""


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """How the questions of a trial are answered, and what is reported of it.

    Attributes:
        name: what messages call this preemption.
        places_most: whether as many members have to fit as without the first pods that the trial names.
        keeps_nodes: whether these members have to fit on the nodes that they have without these pods.
        constrained: whether gangs preempt that are tried in placements.
        reports: whether messages say that there are victims, and that they are terminating.
    """

    name: str = "preemption"
    places_most: bool = False
    keeps_nodes: bool = False
    constrained: bool = False
    reports: bool = False


class PodsGone(Collection[PodInfo]):
    """Pods that a trial asks about if it wants to learn with the answer which pods matter from then on.

    `changes`: the pods by row. `nodes`: the names of the only nodes whose pods can change later answers; None if all
    may.
    """

    def __init__(self, changes: AllRemoved) -> None:
        self.changes = changes
        self.nodes: frozenset[str] | None = None

    def __iter__(self) -> Iterator[PodInfo]:
        return chain.from_iterable(self.changes.pods)

    def __len__(self) -> int:
        return sum(map(len, self.changes.pods))

    def __contains__(self, pod: object) -> bool:
        return any(pod in pods for pods in self.changes.pods)


GangTrial = Generator[Collection[PodInfo], bool, GangVictims | Status]
"""A generator that looks for victims of a gang. It yields pods, and receives whether the gang would fit if exactly
these pods were gone. It returns the victims to evict, or a Status that says why there are none.
"""


@runtime_checkable
class GangOf(Protocol):
    """Returns the gang that a pod is placed with; None for a pod that is placed on its own.

    The plugin also implements Permit, so that no member is bound before enough of them are reserved.
    """

    def gang_of(self, pod: PodInfo) -> Gang | None: ...


@runtime_checkable
class FewerMembers(Protocol):
    """Returns the change with which a gang needs only so many pods; None if that can't be changed.

    Only questions such as `bayplan explain` call it, never an attempt. The plugin also implements GangOf.
    """

    def fewer_members(self, gang: Gang, number: int) -> Remedy | None: ...


@runtime_checkable
class QueuedTogether(Protocol):
    """Returns the key of the group that a pod waits in, with one turn and one backoff; None for its own turns.

    The key of a pod changes only while the plugin gates it. The plugin also implements GangOf: the pods of a group are
    attempted as a gang.
    """

    def queued_with(self, pod: PodInfo) -> Hashable: ...


@runtime_checkable
class GangDecided(Protocol):
    """Notifies the plugin that named a gang of the outcome of the gang's attempt. `message` explains it.

    It is called for the gang, and then for each of the gangs that this one consists of.
    """

    def gang_decided(self, gang: Gang, outcome: GangOutcome, message: str) -> None: ...


@runtime_checkable
class GangGiveBack(Protocol):
    """Gives back what a whole gang holds that does not fit. It takes the place of PostFilter of its members.

    `rejected`: the members that were rejected, with the states of their cycles. An unresolvable status keeps plugins
    from making room for the gang in the same attempt; None does nothing.
    """

    def gang_give_back(self, gang: Gang, rejected: Sequence[tuple[CycleState, PodInfo]]) -> Status | None: ...


@runtime_checkable
class GangPostFilter(Protocol):
    """Makes room for a gang as a whole. Returning None lets the members preempt on their own.

    The trial is started only if the gang does not fit. A plugin may have PreemptionRules as its attribute `rules`.
    """

    def gang_post_filter(self, gang: Gang, nodes: Nodes) -> GangTrial | None: ...


@runtime_checkable
class PlacementGenerate(Protocol):
    """Names the node sets that a gang may be placed in; each of them is tried. None means that all nodes may be used.

    A Status rejects the gang, or reports an error.
    """

    def generate_placements(self, gang: Gang, nodes: Nodes) -> Sequence[Placement] | Status | None: ...


@runtime_checkable
class PlacementScore(Protocol):
    """Ranks a placement that the gang fits in. `placed`: the members that have found a node in it."""

    def score_placement(self, gang: Gang, placement: Placement, placed: Sequence[PodInfo]) -> int: ...


@runtime_checkable
class NormalizePlacementScores(Protocol):
    """Converts the raw scores of all placements that the gang fits in to scores from 0 to MAX_NODE_SCORE.

    `scores`: int64, shape (placements,). Returns a new array of the same shape and dtype.
    """

    def normalize_placement_scores(self, gang: Gang, scores: Int64) -> Int64: ...


@runtime_checkable
class PlacementBound(Protocol):
    """Returns the score, after its conversion, that a placement gets if all members find a node there, and that no
    placement exceeds in which fewer do; None if that isn't known.

    If all PlacementScore plugins implement it, placements are tried in the order of their bounds, and the others aren't
    tried any more after one in which all members find a node. The placement that is chosen is the same.
    """

    def placement_bound(self, gang: Gang, placement: Placement) -> int | None: ...
