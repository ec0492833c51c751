"""The extension points: what a plugin may implement, and what it is called with.

A plugin is a class with the methods of the points it takes part in; it need not derive from anything but `Plugin`.
Methods that look at nodes exist in two forms, per node and whole table (arrays in, arrays out); a plugin implements
either, or both where single nodes are asked about often: then they must agree. Mirrors
k8s.io/kube-scheduler/framework/interface.go, with Python's manners: None means success, and a string where a Status is
expected means "not here, for this reason".
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol, runtime_checkable

from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import Caller, call
from bayplan.framework.events import EventHint
from bayplan.framework.status import Status
from bayplan.framework.verdicts import Diagnosis, Rejections, Verdicts

MAX_NODE_SCORE = 100
"""Scores are 0 to 100 after normalisation, before weights."""

Answer = Status | str | None
"""A Status; None for success; a string for "unschedulable, for this reason"."""


class Plugin:
    """What all plugins have. `name` is what configuration, messages and metrics call the plugin."""

    name: ClassVar[str]
    reads_pods: ClassVar[bool] = True
    """Whether its verdicts and scores look at the pods of a node; False for one that reads the node itself only."""
    only_standing: ClassVar[bool] = False
    """Whether `filter_nodes` is asked only about nodes that all filters before left standing: for one that
    takes long."""
    arguments: ClassVar[type[Any] | None] = None
    """The type of the plugin's arguments (a msgspec Struct or dataclass), or None where it takes none."""


@dataclass(slots=True)
class CycleState:
    """What plugins remember of one pod between the points of one cycle. Mirrors fwk.CycleState.

    `data` is keyed by plugin name, or by whatever else plugins agree on. `call` is how the cycle calls its plugins.
    """

    data: dict[Hashable, Any] = field(default_factory=dict)
    skip_filter: set[str] = field(default_factory=set)
    skip_score: set[str] = field(default_factory=set)
    call: Caller = field(default=call, repr=False, compare=False)

    def clone(self) -> CycleState:
        """A copy for a what-if: values that have a `clone` method are cloned, others are shared."""
        data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self.data.items()}
        return CycleState(data, set(self.skip_filter), set(self.skip_score), self.call)


@dataclass(frozen=True, slots=True)
class NodeNames:
    """A PreFilter's answer: only these nodes come into question."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """A Permit's answer: not before somebody allows it, for so many seconds at most."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a PostFilter made of a pod that fits nowhere.

    `nominated_node`: the node that the pod may have once `victims` are gone; "" clears a nomination, None leaves it.
    """

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed together or not at all: `needed` of the `members`, in the order in which to try them.

    `placed`: how many more of the gang are on nodes already, or about to be; `nodes`: the names of these nodes, where
    the plugin knows them. Of a gang that needs no more members, each may be placed by itself. `together`: whether
    members wait where too few of them are at hand; else each is decided by itself, and they meet in Permit.
    `pod_group`: `namespace/name` of the gang's own PodGroup of Kubernetes, if it has one. `no_preemption`: why no
    member may preempt by itself, if none may; then no member is decided by itself either.
    """

    name: str
    members: tuple[PodInfo, ...]
    needed: int
    placed: int = 0
    nodes: tuple[str, ...] = ()
    together: bool = False
    pod_group: str = ""
    no_preemption: str = ""


PLACED_WITH = "placed with"
"""Where a CycleState has the Gang that the pod is decided with, if it is decided with one."""


class GangOutcome(Enum):
    """What came of a gang's turn."""

    PLACED = "placed"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes among which all of a gang is to be: as many as `nodes`, which are called `name`."""

    name: str
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class GangVictims:
    """Who has to go for a gang, the most important one first, on behalf of one of its members.

    `pod_group_uid`: of the PodGroup that they are told to go for.
    """

    preemptor: PodInfo
    victims: tuple[PodInfo, ...]
    pod_group_uid: str = ""


GangTrial = Generator[Collection[PodInfo], bool, GangVictims | Status]
"""Asks whether a gang would fit if these pods, and no others, were gone; says in the end who has to go, or why nobody.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a pod could have if `victims` were gone, the most important of which comes first.

    `violations`: how many of the victims a disruption budget protects.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Shortlist:
    """A PostFilter's answer where somebody outside may have a say in a preemption.

    The candidates are shown to extenders, if there are any that want to see them, and `choose` is called with those
    that they leave, none perhaps. `nodes` are all nodes, among which extenders may look for others.
    """

    candidates: tuple[Candidate, ...]
    nodes: Nodes
    choose: Callable[[tuple[Candidate, ...]], PostFilterResult]


class WhatIf(Protocol):
    """What a PostFilter may ask: whether nodes would take the pod if they were different.

    `rng` is where everything random of the cycle comes from, so that a decision can be repeated.
    """

    @property
    def rng(self) -> random.Random:
        """The cycle's random generator."""

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
        """What the profile's filters say of nodes under their what-ifs, with and without pods nominated there."""


@runtime_checkable
class PreEnqueue(Protocol):
    """Whether a pod may enter the queue at all."""

    def pre_enqueue(self, pod: PodInfo) -> Answer: ...


@runtime_checkable
class QueueSort(Protocol):
    """The order of the queue: the pod with the smallest key comes first. `queued_at`: when it was queued, seconds."""

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any: ...


@runtime_checkable
class PreFilter(Protocol):
    """Looks at the pod once, before any node: may turn it down, narrow the nodes, or skip its own Filter."""

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer | NodeNames: ...


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Brings what a PreFilter remembered up to date when a pod is added to or taken from a node in thought."""

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Answer: ...

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Answer: ...


@runtime_checkable
class Filter(Protocol):
    """Whether a node takes the pod, one node at a time."""

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Answer: ...


@runtime_checkable
class FilterNodes(Protocol):
    """Which nodes take the pod, all at once. None: all do."""

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None: ...


@runtime_checkable
class PostFilter(Protocol):
    """Called when no node takes the pod: may make room."""

    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> PostFilterResult | Shortlist: ...


@runtime_checkable
class PreScore(Protocol):
    """Looks at the feasible nodes once, before they are scored; may skip its own Score."""

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer: ...


@runtime_checkable
class Score(Protocol):
    """How good a node is, one node at a time."""

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int: ...


@runtime_checkable
class ScoreNodes(Protocol):
    """How good the nodes are, all at once: int64, one a node. Rows that are not feasible may hold anything."""

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64: ...


@runtime_checkable
class NormalizeScores(Protocol):
    """Brings the raw scores of all feasible nodes into 0 to 100."""

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64: ...


@runtime_checkable
class Reserve(Protocol):
    """Sets aside what the pod will need on its node, and gives it back when it comes to nothing."""

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer: ...

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class Permit(Protocol):
    """Lets a pod go on to its binding, turns it down, or lets it wait."""

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Wait: ...


@runtime_checkable
class GangOf(Protocol):
    """Which gang a pod is to be placed with, now; None for a pod that is decided on its own.

    For plugins that also have a Permit, which is what keeps the members from being bound one without the others.
    """

    def gang_of(self, pod: PodInfo) -> Gang | None: ...


@runtime_checkable
class GangDecided(Protocol):
    """Told what came of the turn of a gang that the plugin has named, and why. Never waits."""

    def gang_decided(self, gang: Gang, outcome: GangOutcome, message: str) -> None: ...


@runtime_checkable
class GangPostFilter(Protocol):
    """May make room for a gang as a whole; None for a gang whose members may preempt, each by itself.

    Where it answers with a trial, that is begun only if the gang fits nowhere.
    """

    def gang_post_filter(self, gang: Gang, nodes: Nodes) -> GangTrial | None: ...


@runtime_checkable
class PlacementGenerate(Protocol):
    """The placements that a gang may have, each tried by itself; None for a gang that may be anywhere.

    A status turns the gang down, or is an error.
    """

    def generate_placements(self, gang: Gang, nodes: Nodes) -> Sequence[Placement] | Status | None: ...


@runtime_checkable
class PlacementScore(Protocol):
    """How good a placement is in which these members of a gang have found nodes."""

    def score_placement(self, gang: Gang, placement: Placement, placed: Sequence[PodInfo]) -> int: ...


@runtime_checkable
class NormalizePlacementScores(Protocol):
    """Brings the raw scores of all placements that the gang fits into, int64, to 0 to 100."""

    def normalize_placement_scores(self, gang: Gang, scores: Int64) -> Int64: ...


@runtime_checkable
class PreBind(Protocol):
    """Work to be done before the pod is bound. May be asynchronous."""

    def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Awaitable[Answer]: ...


@runtime_checkable
class PreBindPreFlight(Protocol):
    """Whether PreBind will have work to do: SKIP if not. A pod whose PreBind works is nominated to its node first."""

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer: ...


@runtime_checkable
class Bind(Protocol):
    """Binds the pod; SKIP leaves it to the next Bind plugin. May be asynchronous."""

    def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Awaitable[Answer]: ...


@runtime_checkable
class PostBind(Protocol):
    """Told when a pod was bound."""

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class Background(Protocol):
    """Work beside all decisions, from when the cluster is known until the scheduler stops."""

    async def background(self) -> None: ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Which events may help a pod that the plugin turned down. A plugin without it is asked after every event."""

    def events(self) -> Iterable[EventHint]: ...


@runtime_checkable
class Sign(Protocol):
    """All that the plugin reads of a pod, as one hashable value; None where it cannot be told.

    Two pods with equal signatures from every plugin of a profile get equal verdicts and raw scores on equal nodes, so
    these may be shared between pods and computed for single nodes. What a plugin that signs remembers in PreFilter and
    PreScore therefore rests on the pod alone, and what it makes of raw scores when it normalises on these alone.
    """

    def sign(self, pod: PodInfo) -> Hashable: ...


@runtime_checkable
class RestsOn(Protocol):
    """What the answers of a plugin that signs rest on beside the pod and each node itself: versions of other things.

    When the value changes, nothing that was computed before is used any more. None: what it says of this pod is not
    shared with others.
    """

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable: ...
