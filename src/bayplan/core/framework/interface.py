"""The extension points of the scheduling framework, one protocol each, and the types of their arguments and results.

A plugin is a subclass of `Plugin` that implements the methods of one or more extension points. Filter and Score each
have two forms: one node at a time (`filter`, `score`), and all nodes at once (`filter_nodes`, `score_nodes`: arrays in,
arrays out). A plugin implements one of them, or both; if both, their results must agree. Where a method returns a
`Status`, it may also return None for success, or a string for "unschedulable, for this reason".

The extension points about gangs are in `gangs`. Mirrors k8s.io/kube-scheduler/framework/interface.go.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from lightkube.models.resource_v1 import AllocationResult

from bayplan.core.cluster.columns import Bool, Int64, locked
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import Caller, call
from bayplan.core.framework.cycle_data import CycleData
from bayplan.core.framework.events import EventHint
from bayplan.core.framework.plugin import Plugin as Plugin  # noqa: PLC0414 - re-exported
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.status import PluginError, Status
from bayplan.core.framework.verdicts import Diagnosis, Rejections, Verdicts
from bayplan.foundations.failures import shown

MAX_NODE_SCORE = 100
"""Scores are from 0 to this value after normalization, before weights are applied."""

T = TypeVar("T")

Answer = Status | str | None
"""A Status; None for success; a string for "unschedulable, for this reason"."""


@dataclass(slots=True)
class CycleState:
    """Data that plugins keep for one pod between the extension points of one attempt. Mirrors fwk.CycleState.

    `data` is keyed by plugin name, or by any other key that plugins agree on. `skip_filter` and `skip_score` hold the
    names of the plugins whose PreFilter or PreScore returned SKIP. `call` is the function that calls plugin methods.
    `standing`: bool, one per node that `filter_nodes` is called with: whether all earlier filters left it feasible. The
    verdicts on other nodes are ignored, so an expensive filter needs only look at these.
    """

    data: dict[Hashable, Any] = field(default_factory=CycleData)
    skip_filter: set[str] = field(default_factory=set)
    skip_score: set[str] = field(default_factory=set)
    call: Caller = field(default=call, repr=False, compare=False)
    _standing: Bool | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def standing(self) -> Bool | None:
        """What earlier filters left feasible, as a view that can't be made writable; None outside of `filter_nodes`."""
        return None if self._standing is None else locked(self._standing)  # few filters ask, and it takes a while

    @standing.setter
    def standing(self, mask: Bool) -> None:
        self._standing = mask

    def clone(self) -> CycleState:
        """Return a copy for a what-if. Values with a `clone` method are cloned; all others are shared.

        Raises PluginError.
        """
        data = CycleData(self.data)
        for key, value in self.data.items():
            if hasattr(value, "clone"):
                data[key] = _cloned(key, value)
        return CycleState(data, set(self.skip_filter), set(self.skip_score), self.call)


def _cloned(key: Hashable, value: Any) -> Any:
    try:
        return value.clone()
    except BaseException as error:
        raise PluginError.of(str(key), "CycleState.clone", error) from error


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Returned by PreFilter: only these nodes are candidates. Raises TypeError for other names than str."""

    names: frozenset[str]

    def __post_init__(self) -> None:
        if not isinstance(self.names, AbstractSet) or not all(isinstance(name, str) for name in self.names):
            raise TypeError(f"NodeNames({shown(self.names)}): give NodeNames a frozenset of node names")


@dataclass(frozen=True, slots=True)
class Wait:
    """Returned by Permit: the pod waits until the plugin allows or rejects it, or until `seconds` have passed."""

    seconds: float

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, int | float) or not 0 <= self.seconds < math.inf:
            raise TypeError(f"Wait({shown(self.seconds)}): expected a number of seconds")


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of PostFilter for a pod without feasible nodes.

    `nominated_node`: the node that the pod fits on once `victims` are deleted; "" clears the pod's nomination, None
    keeps it. Raises TypeError for values of other types.
    """

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.status, Status) or not isinstance(self.nominated_node, str | None):
            raise TypeError(f"{shown(self.status)}, {shown(self.nominated_node)}: expected a Status and a node's name")
        if type(self.victims) is not tuple or not all(isinstance(victim, PodInfo) for victim in self.victims):
            raise TypeError(f"the victims of a PostFilterResult are {shown(self.victims)}, expected a tuple of PodInfo")


class FailedPreemption(NamedTuple):
    """A node on which evictions would not make room for a pod. `victims`: how many pods could be evicted there.

    `remains`: what would still reject the pod without them.
    """

    node: str
    victims: int
    remains: tuple[str, ...]


class Candidate(NamedTuple):
    """A node that would be feasible for a pod if `victims` were evicted. Victims are sorted, most important first.

    `violations`: how many evictions of victims would violate a PodDisruptionBudget.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Returned by PostFilter when extenders may be consulted about a preemption.

    The candidates are sent to the extenders that support preemption. `choose` is then called with the candidates that
    remain, which may be none. `nodes`: all nodes; an extender may name others than those of the candidates.
    """

    candidates: tuple[Candidate, ...]
    nodes: Nodes
    choose: Callable[[tuple[Candidate, ...]], PostFilterResult]


class WhatIf(Protocol):
    """Passed to PostFilter: runs the profile's filters on hypothetical nodes."""

    @property
    def rng(self) -> random.Random:
        """The random generator of the attempt. Use no other, so that an attempt can be repeated."""

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, *, again: bool = False) -> Verdicts:
        """Run the filters with what-ifs and nominated pods. `again`: on nodes that passed with other what-ifs."""

    def kept(self, key: Hashable, cycle: CycleState, make: Callable[[], T]) -> T:
        """Return what `make` returned for an earlier pod that is the same to the filters, else what it returns now.

        Verdicts for these pods differ only where the row of a node, or its nominated pods, changed in the meantime.
        `key`: of what is kept; it differs for pods that the plugin itself treats differently.
        """


@runtime_checkable
class PreEnqueue(Protocol):
    """Called before a pod enters the active queue. A pod that is rejected here is gated: it is not attempted."""

    def pre_enqueue(self, pod: PodInfo) -> Answer: ...


@runtime_checkable
class QueueSort(Protocol):
    """Orders the pods in the queue: the pod with the smallest key comes first. Exactly one plugin may be enabled.

    `queued_at`: when the pod was queued, in seconds on a monotonic clock.
    """

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any: ...


@runtime_checkable
class PreFilter(Protocol):
    """Called once per attempt, before Filter.

    A plugin may precompute data for its Filter here, reject the pod, limit the candidate nodes (`NodeNames`), or return
    SKIP: its Filter is then not called in this attempt.
    """

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer | NodeNames: ...


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Updates the data that PreFilter computed when a what-if adds a pod to a node, or removes one.

    `cycle` is a clone. A plugin needs these methods only if its PreFilter reads the pods of nodes.
    """

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Answer: ...

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Answer: ...


@runtime_checkable
class Filter(Protocol):
    """Decides whether a node is feasible for the pod."""

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Answer: ...


@runtime_checkable
class FilterNodes(Protocol):
    """Decides which of all nodes are feasible for the pod. Returning None means all of them."""

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None: ...


@runtime_checkable
class PostFilter(Protocol):
    """Called when no node is feasible for the pod. A plugin may make room for it, as preemption does."""

    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> PostFilterResult | Shortlist: ...


@runtime_checkable
class ExplainPostFilter(Protocol):
    """Says where the plugin would make no room for a pod by evictions, although evictions may help there, and why.

    Only questions such as `bayplan explain` call it, never an attempt, and with the arguments of a call of PostFilter.
    Nothing is returned for nodes that the plugin doesn't try, as for a pod that must not preempt.
    """

    def explain_post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> Sequence[FailedPreemption]: ...


@runtime_checkable
class PreScore(Protocol):
    """Called once per attempt with the feasible nodes, before Score. If it returns SKIP, its Score is not called."""

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer: ...


@runtime_checkable
class Score(Protocol):
    """Ranks a feasible node: the higher the score, the better.

    Without NormalizeScores, scores are integers from 0 to MAX_NODE_SCORE.
    """

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int: ...


@runtime_checkable
class ScoreNodes(Protocol):
    """Ranks all nodes at once. Returns an int64 array of shape (len(nodes),).

    Without NormalizeScores, scores are from 0 to MAX_NODE_SCORE. The scores of infeasible nodes are ignored.
    """

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64: ...


@runtime_checkable
class NormalizeScores(Protocol):
    """Converts the plugin's raw scores of all feasible nodes to scores from 0 to MAX_NODE_SCORE.

    `scores`: int64, shape (len(nodes),). Returns a new array of the same shape and dtype.
    """

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64: ...


@runtime_checkable
class Reserve(Protocol):
    """Called when a node has been selected for the pod, before Permit.

    `reserve` claims the resources that the pod will use on the node. `unreserve` releases them if the pod is rejected
    later or its binding fails; it must be idempotent, and it is also called if `reserve` rejected the pod.
    """

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer: ...

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class Release(Protocol):
    """Undoes `reserve` in a what-if, in place of `unreserve`.

    While a gang is decided, `reserve` is called for each member that gets a node, so that the next members see what is
    left, and all of it is undone at the end. Plugins whose `unreserve` does more than that, such as writing to the API
    server or rejecting other pods, implement this method, which only gives back what `reserve` took.
    """

    def release(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class Contends(Protocol):
    """Says which pods may want the same objects, such as devices, wherever they run.

    While the attempt of a pod takes long, pods of lower priority have their turn if they take nothing that it could
    use. What a pod takes of its node is known from the filters; this is about what `reserve` takes of other objects.
    """

    def contends(self, pod: PodInfo, other: PodInfo) -> bool: ...


@runtime_checkable
class Permit(Protocol):
    """Called before binding. Approves the pod, rejects it, or makes it wait (`Wait`)."""

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Wait: ...


@runtime_checkable
class PreBind(Protocol):
    """Does work that has to be finished before the pod is bound, such as provisioning a volume. May be `async`."""

    def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Awaitable[Answer]: ...


@runtime_checkable
class PreBindPreFlight(Protocol):
    """Called before PreBind. Returns SKIP if the plugin's PreBind will have nothing to do for the pod.

    Unless all PreBind plugins skip, the pod's nominated node is written to the API server before PreBind runs.
    """

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer: ...


@runtime_checkable
class Bind(Protocol):
    """Binds the pod to the node. SKIP leaves it to the next Bind plugin. May be `async`."""

    def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Awaitable[Answer]: ...


@runtime_checkable
class PostBind(Protocol):
    """Called after the pod has been bound."""

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class Background(Protocol):
    """A background task. It starts when the scheduler's caches have synced, and is cancelled at shutdown."""

    async def background(self) -> None: ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Names the events that may make a pod schedulable that the plugin rejected.

    Without this method, every event requeues such a pod.
    """

    def events(self) -> Iterable[EventHint]: ...


@runtime_checkable
class Sign(Protocol):
    """Returns everything that the plugin and its hints read from a pod, as one hashable value (the pod's signature).

    Pods with equal signatures share the plugin's verdicts and raw scores, and these may be recomputed for single nodes.
    Therefore the data that such a plugin stores in PreFilter and PreScore must depend only on the pod, and
    `normalize_scores` only on the raw scores. None means that the plugin's results for this pod are not shared.
    """

    def sign(self, pod: PodInfo) -> Hashable: ...


@dataclass(frozen=True, slots=True)
class OnlyNow:
    """Returned by `rests_on`: results for the pod depend on many nodes, so that no other pod shares them.

    Pods with equal signatures and equal values are still rejected alike as long as nothing changes in the cluster.
    """

    value: Hashable


@runtime_checkable
class RestsOn(Protocol):
    """Returns everything besides the pod's signature, a node and its pods that the results for that node depend on.

    That may be the version of an object store, or what the plugin finds in one for this pod. Pods share results while
    the values are equal. `OnlyNow` and None say that results are not shared; with None, nothing is known about
    rejections either. For plugins that implement Sign.
    """

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable | OnlyNow: ...


@runtime_checkable
class ForResizes(Protocol):
    """Returns what takes the plugin's part where a pod has a node already, and its resize waits for room there.

    That is another object with the plugin's name, or None: the plugin is not asked. A plugin without this method takes
    part itself. Only PreEnqueue, PreFilter, Filter, PostFilter and Permit are called for such a pod.
    """

    def for_resizes(self) -> Any | None: ...


@runtime_checkable
class Explain(Protocol):
    """Says more about a rejection of the plugin's: which objects it is about, and which changes would lift it.

    Only questions such as `bayplan explain` call it, never an attempt. `cycle` has what the plugin's PreFilter stored.
    `node`: the rejected node; None if the plugin rejects the pod whatever the node, in PreEnqueue and PreFilter.
    None is returned if the reasons of the rejection say it all.
    """

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None: ...


@runtime_checkable
class Allocates(Protocol):
    """Says which devices the plugin's Reserve took for each claim of a pod, by the key of the claim.

    Only what compares or explains decisions calls it, never an attempt. `cycle` has what Reserve stored.
    """

    def allocations(self, cycle: CycleState) -> Mapping[str, AllocationResult]: ...
