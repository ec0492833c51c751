"""DynamicResources: nodes must have the devices that the pod's claims ask for, and are liked more where they have what
claims prefer. A claim is allocated when its pod gets its node, and written when the pod is bound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable

import numpy as np
from lightkube.models.resource_v1 import ResourceClaim

from bayplan.api import durations
from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.selectors import parse_node_selector
from bayplan.cluster.claim_allocations import ClaimAllocations, allocation_of
from bayplan.cluster.columns import Int64
from bayplan.cluster.device_classes import ExtendedResources
from bayplan.cluster.device_slices import DeviceSlices
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import EventHint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import CycleState, Plugin, PostFilterResult, WhatIf
from bayplan.framework.normalization import scale_to_best
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Diagnosis
from bayplan.plugins.arguments import DynamicResourcesArgs
from bayplan.plugins.dynamic_resources import events
from bayplan.plugins.dynamic_resources.allocator import AllocationError, InvalidPools, OutOfTime, Search, Supply
from bayplan.plugins.dynamic_resources.binding import ClaimBinding
from bayplan.plugins.dynamic_resources.cel.selectors import Selectors
from bayplan.plugins.dynamic_resources.conditions import binding_failure, binding_timed_out
from bayplan.plugins.dynamic_resources.counters import SharedCounters
from bayplan.plugins.dynamic_resources.device_requests import MAX_ALTERNATIVES, alternatives_of, requests_of
from bayplan.plugins.dynamic_resources.extended_resources import claim_for, claim_on_node, extended_requests
from bayplan.plugins.dynamic_resources.giving_up import GivingUp
from bayplan.plugins.dynamic_resources.pod_claims import NoClaim, claims_of, has_claims, key_of, uid_of
from bayplan.plugins.dynamic_resources.results import allocation_result, results_of_subrequests
from bayplan.plugins.dynamic_resources.state import NodeAllocation, PodDevices

CANNOT_ALLOCATE = Status.unresolvable("cannot allocate all claims")
NOT_AVAILABLE = Status.unresolvable("resourceclaim not available on the node")

_DEFAULT_ARGUMENTS = DynamicResourcesArgs()


class DynamicResources(Plugin):
    """Mirrors plugins/dynamicresources/dynamicresources.go, with the features that are on by default.

    Nodes are looked at one by one, for what a node can give is found by a search of its own; only those that all other
    filters left standing are asked about. `clock` is monotonic, `now` the time of day (the handle's, if not given),
    both in seconds.
    """

    name = "DynamicResources"
    reads_pods = False
    arguments = DynamicResourcesArgs

    def __init__(
        self,
        handle: Handle,
        args: DynamicResourcesArgs = _DEFAULT_ARGUMENTS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._claims = handle.objects(RESOURCE_CLAIM)
        self._classes = handle.objects(DEVICE_CLASS)
        self._allocations = self._claims.view(ClaimAllocations)
        self._slices = handle.objects(RESOURCE_SLICE).view(DeviceSlices)
        self._extended = self._classes.view(ExtendedResources)
        self._selectors = Selectors()
        self._clock = clock
        self._now = now or (lambda: handle.now().timestamp())
        self._filter_timeout = durations.parse(args.filterTimeout)
        self._binding_timeout = durations.parse(args.bindingTimeout)
        self._binding = ClaimBinding(
            handle, self._claims, self._allocations, self._binding_timeout, clock, self._now, sleep
        )
        self._giving_up = GivingUp(handle, self._claims, self._allocations, sleep)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """A pod waits until its claims are there."""
        if not has_claims(pod):
            return None
        try:
            claims_of(pod, self._claims)
        except NoClaim as problem:
            return Status.unresolvable(str(problem))
        return None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Look at the claims: which are allocated, and whether the others can be at all."""
        cycle.data[self.name] = None
        wanted = extended_requests(pod)
        by_devices = any(self._extended.class_of(name) is not None for name in wanted)
        if not by_devices and not has_claims(pod):
            return SKIP
        try:
            state = PodDevices(claims_of(pod, self._claims))
        except NoClaim as problem:
            return Status.unresolvable(str(problem))
        if by_devices:
            claim = claim_for(pod, self._claims.values())
            state.claims.append(claim)
            state.extended, state.extended_uid, state.extended_requests = True, uid_of(claim), wanted
        if not state.claims:
            return SKIP
        for index, claim in enumerate(state.claims):
            refusal = self._look_at(state, index, claim)
            if refusal is not None:
                return refusal
        if state.to_allocate():
            taken = self._allocations.taken()
            state.supply = Supply(self._slices.refresh(), taken, self._classes, self._selectors, SharedCounters(taken))
        cycle.data[self.name] = state
        return None

    def _look_at(self, state: PodDevices, index: int, claim: ResourceClaim) -> Status | None:
        allocation = allocation_of(claim)
        if allocation is not None:
            if allocation.nodeSelector is not None:
                selector = parse_node_selector(allocation.nodeSelector)
                if selector.errors:
                    return Status.error(str(selector.errors[0]))
                state.selectors[index] = selector
            return None
        if self._allocations.in_flight(uid_of(claim)) is not None:
            return Status.unresolvable(f"resource claim {key_of(claim)} is in the process of being allocated")
        if state.extended and index == len(state.claims) - 1:
            return None
        for request in requests_of(claim):
            named = [(each.deviceClassName, f"{request.name}/{each.name}") for each in request.firstAvailable or ()]
            if request.exactly is not None:
                named = [(request.exactly.deviceClassName, request.name)]
            if not named:
                return Status.unresolvable(
                    f"resource claim {key_of(claim)}, request {request.name}: unknown request type"
                )
            for class_name, request_name in named:
                if not class_name:
                    return Status.error(f"request {request_name}: unsupported request type")
                if class_name not in self._classes:
                    return Status.unresolvable(f"request {request_name}: device class {class_name} does not exist")
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Whether allocated claims can be used on the node, and all others can be allocated there."""
        state: PodDevices = cycle.data[self.name]
        on_node: ResourceClaim | None = None
        mappings: tuple = ()  # type: ignore[type-arg]
        extended = state.extended_claim
        if extended is not None:
            answer = claim_on_node(extended, bool(state.own), state.extended_requests, pod, node, self._extended)
            if isinstance(answer, Status):
                return answer
            on_node, mappings = answer
            if on_node is None and not state.own:
                return None
        unavailable = [index for index, claim in enumerate(state.claims) if not self._usable(state, index, claim, node)]
        allocation = NodeAllocation((), on_node, mappings)
        if state.supply is not None:
            claims = [state.claims[index] for index in state.to_allocate()]
            if on_node is not None:
                claims = [on_node if claim is extended else claim for claim in claims]
            outcome = self._allocate(state.supply, node, claims)
            if isinstance(outcome, Status):
                return outcome
            allocation = NodeAllocation(outcome, on_node, mappings)
        if unavailable:
            state.unavailable.update(unavailable)
            return NOT_AVAILABLE
        if state.supply is not None:
            state.per_node[node.name] = allocation
        return None

    def _usable(self, state: PodDevices, index: int, claim: ResourceClaim, node: NodeInfo) -> bool:
        selector = state.selectors.get(index)
        if selector is not None and not selector.matches(node.labels, node.name):
            return False
        if allocation_of(claim) is None:
            return True
        return not binding_failure(claim) and not binding_timed_out(claim, self._binding_timeout, self._now())

    def _allocate(self, supply: Supply, node: NodeInfo, claims: list[ResourceClaim]) -> Status | tuple:  # type: ignore[type-arg]
        deadline = self._clock() + self._filter_timeout

        def checkpoint() -> None:
            if self._filter_timeout and self._clock() > deadline:
                raise OutOfTime

        try:
            granted = Search(supply, node.name, node.labels, claims, checkpoint).run()
            if granted is None:
                return CANNOT_ALLOCATE
            return tuple(allocation_result(each, node.name) for each in granted)
        except OutOfTime:
            return Status.error(f"node {node.name}: timed out trying to allocate devices")
        except InvalidPools as problem:
            return Status.unresolvable(str(problem))
        except AllocationError as problem:
            return Status.error(str(problem))

    def post_filter(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf) -> PostFilterResult:
        """Give up an allocation that stands in the way, if nobody else uses it.

        As upstream, it fails for a pod that was turned down before its PreFilter was asked, and nobody preempts then.
        """
        if self.name not in cycle.data:
            return PostFilterResult(Status.error("not found"))
        state: PodDevices | None = cycle.data[self.name]
        return PostFilterResult(Status.unschedulable(self._giving_up.post_filter(state, pod)))

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """The more, the earlier the alternatives that the node has of what claims ask for."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        state: PodDevices | None = cycle.data.get(self.name)
        if state is None or not any(True for claim in state.claims for _ in alternatives_of(claim)):
            return scores
        for position in range(len(nodes)):
            allocation = state.per_node.get(nodes.name(position))
            if allocation is not None:
                scores[position] = _score(state, allocation)
        return scores

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """The more the better."""
        return scale_to_best(scores)

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take the devices of the node: from now on nobody else gets them."""
        state: PodDevices | None = cycle.data.get(self.name)
        if state is None or state.supply is None:
            return None
        allocation = state.per_node.get(node_name)
        places = state.to_allocate()
        if allocation is None or not allocation.results:
            if all(state.extended and index == len(state.claims) - 1 for index in places):
                return None  # the node has the extended resources without any claim
            return Status.error("claim allocation not found for node")
        if len(allocation.results) != len(places):
            return Status.error(f"internal error, have {len(allocation.results)} allocations, {len(places)} claims")
        for index, result in zip(places, allocation.results, strict=True):
            state.decided[index] = result
            self._allocations.begin(uid_of(state.claims[index]), result)
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give the devices back."""
        state: PodDevices | None = cycle.data.get(self.name)
        if state is not None:
            self._giving_up.unreserve(state, pod)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Only a pod with claims has anything to write."""
        return SKIP if cycle.data.get(self.name) is None else None

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write the allocations, and for whom the claims are reserved; then wait for what has to be done to devices."""
        state: PodDevices | None = cycle.data.get(self.name)
        return None if state is None else await self._binding.bind(state, pod, node_name)

    def events(self) -> Iterable[EventHint]:
        """Claims, slices, classes and nodes may come or change."""
        return events.hints(self._claims)

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing is read of a pod without claims, but for the extended resources that it requests."""
        if has_claims(pod):
            return None
        return tuple(sorted(extended_requests(pod)))

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """A pod that gets extended resources by devices stays apart."""
        return None if any(self._extended.class_of(name) is not None for name in extended_requests(pod)) else ()


def _score(state: PodDevices, allocation: NodeAllocation) -> int:
    score, new = 0, iter(allocation.results)
    for claim in state.claims:
        result = allocation_of(claim) or next(new)
        chosen = results_of_subrequests(result)
        score += sum(MAX_ALTERNATIVES - index for index, name in alternatives_of(claim) if name in chosen)
    return score
