"""DynamicResources: nodes must have the devices that the pod's claims request. Nodes with preferred alternatives score
higher. Reserve allocates the claims, and PreBind writes the allocations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np
from lightkube.models.resource_v1 import AllocationResult, ResourceClaim

from bayplan.api import durations
from bayplan.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM
from bayplan.api.node_allocatable import ClaimedResources
from bayplan.api.selectors import parse_node_selector
from bayplan.cluster.columns import Bool, Int64, Rows
from bayplan.cluster.node_selection import match_selector
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.devices.allocations import ClaimAllocations
from bayplan.devices.claims import UnusableClaim, allocation_of, key_of, uid_of
from bayplan.devices.classes import ExtendedResources, may_be_backed_by_devices
from bayplan.devices.extended_claims import ExtendedResourceClaims
from bayplan.devices.requests import alternatives_of, requests_of
from bayplan.framework.assuming import ASSUMED_AS
from bayplan.framework.device_slices import device_slices, selectors_read_lists
from bayplan.framework.events import EventHint
from bayplan.framework.gangs import PLACED_WITH, Gang
from bayplan.framework.handle import Handle
from bayplan.framework.interface import CycleState, Plugin, PostFilterResult, WhatIf
from bayplan.framework.normalization import scale_to_best
from bayplan.framework.remedies import Details
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Diagnosis, Rejections
from bayplan.plugins.arguments import DynamicResourcesArgs
from bayplan.plugins.dynamic_resources import events
from bayplan.plugins.dynamic_resources.binding import CREATED, CREATED_SINCE_1_37, ClaimBinding
from bayplan.plugins.dynamic_resources.conditions import binding_failure, binding_timed_out
from bayplan.plugins.dynamic_resources.deallocation import Deallocation
from bayplan.plugins.dynamic_resources.explaining import Explanations
from bayplan.plugins.dynamic_resources.extended_resources import (
    CANNOT_FIT,
    STALE,
    extended_requests,
    is_filled,
    new_claim,
    with_requests,
    without_resources,
)
from bayplan.plugins.dynamic_resources.group_claims import GroupClaims
from bayplan.plugins.dynamic_resources.node_allocatable import (
    NodeAllocatable,
    UncountableClaim,
    explained,
    rejection,
    sharing,
)
from bayplan.plugins.dynamic_resources.offers import Offers, score_of
from bayplan.plugins.dynamic_resources.pod_claims import claims_of, has_claims
from bayplan.plugins.dynamic_resources.results import results_of_subrequests
from bayplan.plugins.dynamic_resources.rules import Rules
from bayplan.plugins.dynamic_resources.state import Needs, NodeAllocation, PodDevices
from bayplan.versions import DEFAULT_GATES, FeatureGates

NOT_FOUND = Status.error("claim allocation not found for node")
NOT_AVAILABLE = Status.unresolvable("resourceclaim not available on the node")

_DEFAULT_ARGUMENTS = DynamicResourcesArgs()


class DynamicResources(Plugin):
    """Mirrors plugins/dynamicresources/dynamicresources.go with default feature gates.

    A search per node finds devices for the claims; `Offers` caches its results. `sleep` takes seconds.
    """

    name = "DynamicResources"
    reads_pods = False
    arguments = DynamicResourcesArgs

    def __init__(
        self,
        handle: Handle,
        args: DynamicResourcesArgs = _DEFAULT_ARGUMENTS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self._taint_rules = gates.enabled("DRADeviceTaintRules")
        self._claims = handle.objects(RESOURCE_CLAIM)
        self._groups = GroupClaims(handle, self._claims, gates)
        self._classes = handle.objects(DEVICE_CLASS)
        self._allocations = self._claims.view(ClaimAllocations)
        self._extended_claims = self._claims.view(ExtendedResourceClaims)
        self._extended = self._classes.view(ExtendedResources)
        self._now = handle.now
        slices = device_slices(handle, gates)
        timeout = durations.parse(args.filterTimeout)
        self._offers = Offers(
            slices,
            self._allocations,
            self._classes,
            handle.monotonic,
            timeout,
            handle.give_way,
            rules=Rules.of(gates),
            lists=selectors_read_lists(gates),
        )
        pods = handle.objects(POD)
        self._explanations = Explanations(self._offers, self._claims, self._classes, self._allocations, pods)
        self._binding_timeout = durations.parse(args.bindingTimeout)
        created = CREATED_SINCE_1_37 if gates.enabled("ClaimCreationMetric") else CREATED
        self._binding = ClaimBinding(handle, self._claims, self._allocations, self._binding_timeout, sleep, created)
        self._deallocation = Deallocation(handle, self._claims, self._allocations, self._groups, sleep)
        self._node_resources: NodeAllocatable | None = None
        if gates.enabled("DRANodeAllocatableResources"):
            self._node_resources, self.reads_pods = NodeAllocatable(slices), True

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod until its claims exist."""
        if not has_claims(pod):
            return None
        try:
            claims_of(pod, self._claims, of_groups=self._groups.enabled)
        except UnusableClaim as problem:
            return Status.unresolvable(str(problem))
        return None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Collect the claims, and check those that aren't allocated yet."""
        cycle.data[self.name] = None
        by_devices = self._backs_any(pod)
        if not by_devices and not has_claims(pod):
            return SKIP
        try:
            own = claims_of(pod, self._claims, of_groups=self._groups.enabled)
            state = PodDevices(own, nodes, self._offers.supply(), group=self._groups.name_of(pod))
            state.reserve_for = self._groups.reservations(pod)
            state.gang_claims = _claims_of_gang(cycle)
        except UnusableClaim as problem:
            return Status.unresolvable(str(problem))
        if by_devices:
            claim = self._extended_claims.of(pod.uid) or new_claim(pod)  # an earlier attempt may have created one
            state.claims.append(claim)
            state.extended, state.extended_uid = True, uid_of(claim)
            state.extended_requests = extended_requests(pod)
        if not state.claims:
            return SKIP
        for index, claim in enumerate(state.claims):
            rejection = self._check_claim(state, index, claim)
            if rejection is not None:
                return rejection
        cycle.data[self.name] = state
        if self._node_resources is not None:
            cycle.data[ASSUMED_AS] = partial(self._assumed_as, self._node_resources, state)
        return None

    def _check_claim(self, state: PodDevices, index: int, claim: ResourceClaim) -> Status | None:
        allocation = allocation_of(claim)
        if allocation is None and uid_of(claim) in state.gang_claims:
            allocation = self._allocations.in_flight(uid_of(claim))
            if allocation is not None:
                state.pending[index] = allocation
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

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that can't use the allocated claims, or on which the others can't be allocated.

        Nodes that other filters have rejected are left out: a search for devices may take long.
        """
        if cycle.standing is None:
            return self._filter_all(cycle, pod, nodes)
        standing = cycle.standing.nonzero()[0]
        return self._filter_all(cycle, pod, nodes.at(standing)).among(len(nodes), standing)

    def _filter_all(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections:
        state: PodDevices = cycle.data[self.name]
        index, statuses = np.zeros(len(nodes), dtype=np.int32), [NOT_AVAILABLE]
        for positions, needs in self._needs(state, pod, nodes):
            if isinstance(needs, Status):
                statuses.append(needs)
                index[positions] = len(statuses)
            elif needs.claims:
                rejections = self._offers.rejections(state.supply, needs.claims, nodes.at(positions))
                index[positions] = np.where(rejections.index, rejections.index + len(statuses), 0)
                statuses += rejections.statuses
        if self._node_resources is not None and self._node_resources.exists:
            for position in np.flatnonzero(nodes.live).tolist():
                fits = not index[position]
                why, _ = self._misfit(self._node_resources, state, pod, nodes.info(position), has_devices=fits)
                if why is not None:
                    statuses.append(why)
                    index[position] = len(statuses)
        can_allocate = nodes.live & (index == 0)
        for place, claim in enumerate(state.claims):
            if state.allocation(place) is not None:
                unusable = can_allocate & ~self._usable(state, place, claim, nodes)
                if unusable.any():
                    index[unusable] = 1
                    if place not in state.pending:
                        state.unavailable.add(place)
        return Rejections(index, statuses)

    def _misfit(
        self, resources: NodeAllocatable, state: PodDevices, pod: PodInfo, node: NodeInfo, *, has_devices: bool
    ) -> tuple[Status | None, PodInfo]:
        """Why the claims can't take resources of a node, or share them, and the pod as it would count there.

        Without `has_devices`, there is nothing that it would take.
        """
        for place, claim in enumerate(state.claims):
            selector = state.selectors.get(place)
            if allocation_of(claim) is not None and (selector is None or selector.matches(node.labels, node.name)):
                problem = sharing(pod, claim, node)
                if problem is not None:
                    return problem, pod
        try:
            taken = self._taken(resources, state, pod, node.alone) if has_devices else []
        except UncountableClaim as uncountable:
            return Status.error(str(uncountable)), pod
        if not taken:
            return None, pod
        counts = pod.with_claimed(taken)
        return rejection(counts, taken, node), counts

    def _taken(
        self, resources: NodeAllocatable, state: PodDevices, pod: PodInfo, node: Nodes
    ) -> list[ClaimedResources]:
        """What the pod takes of a node through the claims that are allocated there. Raises UncountableClaim."""
        if not state.pending and not state.to_allocate():
            return []
        ((_, needs),) = self._needs(state, pod, node)
        claims = [] if isinstance(needs, Status) else needs.claims
        offered = self._offers.allocation(state.supply, claims, node, 0) if claims else ()
        new = () if isinstance(offered, Status) else tuple(zip(claims, offered, strict=True))
        return resources.taken(pod, [*((state.claims[place], each) for place, each in state.pending.items()), *new])

    def _assumed_as(self, resources: NodeAllocatable, state: PodDevices, pod: PodInfo, node_name: str) -> PodInfo:
        """The pod as it counts on a node."""
        position = state.nodes.position(node_name)
        state.taken = []
        if position is not None and resources.exists:
            with suppress(UncountableClaim):
                state.taken = self._taken(resources, state, pod, state.nodes.at(np.array([position])))
        return pod.with_claimed(state.taken) if state.taken or pod.counted_claims else pod

    def _usable(self, state: PodDevices, place: int, claim: ResourceClaim, nodes: Nodes) -> Bool:
        """Which nodes can use an allocated claim."""
        if binding_failure(claim) or binding_timed_out(claim, self._binding_timeout, self._now()):
            return np.zeros(len(nodes), dtype=np.bool_)
        selector = state.selectors.get(place)
        return np.ones(len(nodes), dtype=np.bool_) if selector is None else match_selector(selector, nodes)

    def _needs(self, state: PodDevices, pod: PodInfo, nodes: Nodes) -> Iterator[tuple[Rows, Needs | Status]]:
        """The claims to allocate, or the rejection, by positions of nodes."""
        extended = state.extended_claim
        if extended is None:
            claims = [state.claims[place] for place in state.to_allocate()]
            yield np.arange(len(nodes)), Needs(claims)
            return
        for positions, by_devices in without_resources(state.extended_requests, nodes, self._extended):
            if by_devices is None:
                yield positions, CANNOT_FIT
                continue
            needs = state.needs.get(by_devices)
            if needs is None:
                needs = state.needs[by_devices] = self._needs_with(state, extended, pod, by_devices)
            yield positions, needs

    def _needs_with(
        self, state: PodDevices, extended: ResourceClaim, pod: PodInfo, by_devices: frozenset[str]
    ) -> Needs | Status:
        if is_filled(extended):
            return STALE
        if not by_devices and not state.own:
            return Needs([])
        on_node, mappings = with_requests(extended, pod, by_devices, self._extended)
        claims = [state.claims[place] for place in state.to_allocate()]
        return Needs([on_node if claim is extended else claim for claim in claims], on_node, mappings)

    def post_filter(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf) -> PostFilterResult:
        """Deallocate a claim that makes nodes infeasible, if no other pod uses it.

        As upstream, this fails, which prevents preemption, if the pod was rejected before this plugin's PreFilter.
        """
        if self.name not in cycle.data:
            return PostFilterResult(Status.error("not found"))
        state: PodDevices | None = cycle.data[self.name]
        return PostFilterResult(self._deallocation.post_filter(cycle, state, pod))

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Higher scores for nodes with earlier alternatives of the claims' requests."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        state: PodDevices | None = cycle.data.get(self.name)
        if state is None or not any(True for claim in state.claims for _ in alternatives_of(claim)):
            return scores
        allocations = [(claim, state.allocation(place)) for place, claim in enumerate(state.claims)]
        allocated = sum(
            score_of(claim, results_of_subrequests(each)) for claim, each in allocations if each is not None
        )
        for positions, needs in self._needs(state, pod, nodes):
            if isinstance(needs, Needs) and needs.claims:
                offered = self._offers.scores(state.supply, needs.claims, nodes.at(positions))
                scores[positions] = offered + allocated
        return scores

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """Scale the scores: more is better."""
        return scale_to_best(scores)

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take the devices on the node, so that no other pod gets them. As upstream, fails if PreFilter did not run."""
        if self.name not in cycle.data:
            return Status.error("not found")
        state: PodDevices | None = cycle.data[self.name]
        if state is None:
            return None
        for place in state.pending:
            allocation = self._allocations.in_flight(uid_of(state.claims[place]))
            if allocation is None:
                return NOT_FOUND
            self._hold(state, place, allocation)
        if not state.to_allocate():
            return None
        offered = self.offered(state, pod, node_name)
        if isinstance(offered, Status):
            return offered
        state.granted, places = offered, state.to_allocate()
        if not offered.results:
            return None  # the node provides the extended resources without devices
        for place, result in zip(places, offered.results, strict=True):
            self._hold(state, place, result)
        return None

    def _hold(self, state: PodDevices, place: int, allocation: AllocationResult) -> None:
        """Keep an allocation in flight, also for the next members of the pod's gang."""
        uid = uid_of(state.claims[place])
        state.decided[place] = allocation
        if uid not in state.held:
            state.held.add(uid)
            state.gang_claims.add(uid)
            self._allocations.begin(uid, allocation)

    def offered(self, state: PodDevices, pod: PodInfo, node_name: str) -> NodeAllocation | Status:
        """The allocations of the unallocated claims on a node, or an error status."""
        position = state.nodes.position(node_name)
        if position is None:
            return NOT_FOUND
        node = state.nodes.at(np.array([position]))
        ((_, needs),) = self._needs(state, pod, node)
        if isinstance(needs, Status):
            return NOT_FOUND
        if not needs.claims:
            return NodeAllocation(())
        results = self._offers.allocation(state.supply, needs.claims, node, 0)
        if isinstance(results, Status):
            return NOT_FOUND
        return NodeAllocation(results, needs.extended_claim, needs.mappings)

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the devices."""
        state: PodDevices | None = cycle.data.get(self.name)
        if state is not None:
            self._deallocation.unreserve(state, pod)

    def release(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the devices, and write nothing."""
        state: PodDevices | None = cycle.data.get(self.name)
        if state is not None:
            self._deallocation.release(state)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Skip PreBind for pods without claims."""
        return SKIP if cycle.data.get(self.name) is None else None

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write the allocations and reservations, then wait for the devices' binding conditions."""
        state: PodDevices | None = cycle.data.get(self.name)
        return None if state is None else await self._binding.bind(state, pod, node_name)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Which devices the node lacks, and who has them; or which claims and classes can't be used."""
        if node is None:
            return self._explanations.of_pod(pod)
        state: PodDevices = cycle.data[self.name]
        if self._node_resources is not None and self._node_resources.exists:
            why, counts = self._misfit(self._node_resources, state, pod, node, has_devices=True)
            if why is not None:
                return Details(explained(counts, why, node))
        ((_, needs),) = self._needs(state, pod, node.alone)
        return self._explanations.of_node(pod, state, None if isinstance(needs, Status) else needs, node)

    def events(self) -> Iterable[EventHint]:
        """Added or changed claims, slices, classes and nodes can help."""
        return events.hints(self._claims, taint_rules=self._taint_rules, of_groups=self._groups.enabled)

    def sign(self, pod: PodInfo) -> Hashable:
        """The names of the requested extended resources; pods with claims have no signature."""
        return None if has_claims(pod) else pod.of_spec(DynamicResources, _signature)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Nothing, except that a pod that can get extended resources from devices shares no results."""
        return None if self._backs_any(pod) else ()

    def _backs_any(self, pod: PodInfo) -> bool:
        """Whether device classes provide any of the extended resources that a pod requests."""
        return any(map(may_be_backed_by_devices, self._extended.provided(pod.requested)))


def _signature(pod: PodInfo) -> Hashable:
    return tuple(sorted(extended_requests(pod)))


def _claims_of_gang(cycle: CycleState) -> set[str]:
    """The UIDs of the claims that were allocated for the gang of a pod in this attempt; empty without a gang."""
    gang: Gang | None = cycle.data.get(PLACED_WITH)
    claims: set[str] = set() if gang is None else gang.data.setdefault(DynamicResources.name, set())
    return claims
