"""DynamicResources: nodes must have the devices that the pod's claims request. Nodes with preferred alternatives score
higher. Reserve allocates the claims, and PreBind writes the allocations.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from lightkube.models.resource_v1 import AllocationResult, ResourceClaim

from bayplan.core.api import durations
from bayplan.core.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.api.selectors import parse_node_selector
from bayplan.core.cluster.columns import Bool, Int64, Rows
from bayplan.core.cluster.node_selection import match_selector
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.claims import UnusableClaim, allocation_of, key_of, uid_of
from bayplan.core.devices.classes import ExtendedResources, may_be_backed_by_devices
from bayplan.core.devices.extended_claims import ExtendedResourceClaims
from bayplan.core.devices.requests import alternatives_of, requests_of
from bayplan.core.framework.assuming import ASSUMED_AS
from bayplan.core.framework.device_slices import device_slices, selectors_read_lists
from bayplan.core.framework.events import EventHint
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import CycleState, FailedPreemption, PostFilterResult, WhatIf
from bayplan.core.framework.normalization import scale_to_best
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Diagnosis, Rejections
from bayplan.core.plugins.arguments import DynamicResourcesArgs
from bayplan.core.plugins.dynamic_resources import events
from bayplan.core.plugins.dynamic_resources.binding import CREATED, CREATED_SINCE_1_37, ClaimBinding
from bayplan.core.plugins.dynamic_resources.compiling_ahead import CompilingAhead
from bayplan.core.plugins.dynamic_resources.conditions import binding_failure, binding_timed_out
from bayplan.core.plugins.dynamic_resources.deallocation import Deallocation
from bayplan.core.plugins.dynamic_resources.explaining import Explanations
from bayplan.core.plugins.dynamic_resources.extended_resources import extended_requests, new_claim
from bayplan.core.plugins.dynamic_resources.group_claims import GroupClaims
from bayplan.core.plugins.dynamic_resources.needs import NodeNeeds
from bayplan.core.plugins.dynamic_resources.node_allocatable import NodeAllocatable
from bayplan.core.plugins.dynamic_resources.offers import Offers, score_of
from bayplan.core.plugins.dynamic_resources.pod_claims import claims_of, has_claims
from bayplan.core.plugins.dynamic_resources.provisions import Provisions
from bayplan.core.plugins.dynamic_resources.results import results_of_subrequests
from bayplan.core.plugins.dynamic_resources.rules import SearchRules
from bayplan.core.plugins.dynamic_resources.state import Needs, NodeAllocation, PodDevices
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

NOT_FOUND = Status.error("claim allocation not found for node")
NOT_AVAILABLE = Status.unresolvable("resourceclaim not available on the node")

_DEFAULT_ARGUMENTS = DynamicResourcesArgs()


class DynamicResources(OnlyPlaces):
    """Mirrors plugins/dynamicresources/dynamicresources.go, with the feature gates of `gates`.

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
        since_1_37 = gates.enabled("MappingsAndOverheadOfDevices")
        node_resources = gates.enabled("DRANodeAllocatableResources")
        provisions = Provisions(slices, since_1_37=since_1_37) if node_resources else None
        self._offers = Offers(
            slices,
            self._allocations,
            self._classes,
            handle.monotonic,
            timeout,
            handle.give_way,
            rules=SearchRules.of(gates),
            lists=selectors_read_lists(gates),
            takes=provisions.of_granted if provisions is not None else None,
        )
        self._compiling = CompilingAhead(self._offers.selectors, self._classes, self._claims)
        self._until = handle.until
        self._needs = NodeNeeds(self._extended)
        pods = handle.objects(POD)
        published = handle.objects(RESOURCE_SLICE)
        self._explanations = Explanations(self._offers, self._claims, self._classes, self._allocations, pods, published)
        self._binding_timeout = durations.parse(args.bindingTimeout)
        created = CREATED_SINCE_1_37 if gates.enabled("ClaimCreationMetric") else CREATED
        self._binding = ClaimBinding(handle, self._claims, self._allocations, self._binding_timeout, sleep, created)
        self._deallocation = Deallocation(handle, self._claims, self._allocations, self._groups, sleep)
        self._node_resources: NodeAllocatable | None = None
        if provisions is not None:
            self._node_resources = NodeAllocatable(provisions, self._offers, self._needs, since_1_37=since_1_37)
            self.reads_pods = True

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
            cycle.data[ASSUMED_AS] = partial(self._node_resources.assumed_as, state)
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
        feasible = cycle.standing
        if feasible is None:
            return self._filter_all(cycle, pod, nodes)
        standing = feasible.nonzero()[0]
        return self._filter_all(cycle, pod, nodes.at(standing)).among(len(nodes), standing)

    def _filter_all(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections:
        state: PodDevices = cycle.data[self.name]
        index, statuses = np.zeros(len(nodes), dtype=np.int32), [NOT_AVAILABLE]
        groups: list[tuple[Rows, Needs]] = []
        for positions, needs in self._needs.of(state, pod, nodes):
            if isinstance(needs, Status):
                statuses.append(needs)
                index[positions] = len(statuses)
            else:
                groups.append((positions, needs))
        resources = self._node_resources
        if resources is not None and resources.matters:
            resources.reject_shared(state, pod, nodes, index, statuses)
            groups = [(positions[index[positions] == 0], needs) for positions, needs in groups]
        else:
            resources = None
        for positions, needs in groups:
            some = nodes.at(positions)
            if needs.claims:
                alone = bool(nodes.changes)  # what-ifs of preemption fail one by one
                rejections = self._offers.rejections(state.supply, needs.claims, some, go_on=alone)
                index[positions] = np.where(rejections.index, rejections.index + len(statuses), 0)
                statuses += rejections.statuses
            if resources is not None:
                of_group = index[positions]
                resources.reject(state, pod, some, needs, of_group, statuses)
                index[positions] = of_group
        can_allocate = nodes.live & (index == 0)
        for place, claim in enumerate(state.claims):
            if state.allocation(place) is not None:
                unusable = can_allocate & ~self._usable(state, place, claim, nodes)
                if unusable.any():
                    index[unusable] = 1
                    if place not in state.pending:
                        state.unavailable.add(place)
        return Rejections(index, statuses)

    def _usable(self, state: PodDevices, place: int, claim: ResourceClaim, nodes: Nodes) -> Bool:
        """Which nodes can use an allocated claim."""
        if binding_failure(claim) or binding_timed_out(claim, self._binding_timeout, self._now()):
            return np.zeros(len(nodes), dtype=np.bool_)
        selector = state.selectors.get(place)
        return np.ones(len(nodes), dtype=np.bool_) if selector is None else match_selector(selector, nodes)

    def post_filter(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf) -> PostFilterResult:
        """Deallocate a claim that makes nodes infeasible, if no other pod uses it.

        As upstream, this fails, which prevents preemption, if the pod was rejected before this plugin's PreFilter.
        """
        if self.name not in cycle.data:
            return PostFilterResult(Status.error("not found"))
        state: PodDevices | None = cycle.data[self.name]
        return PostFilterResult(self._deallocation.post_filter(cycle, state, pod))

    def rejects_again(self, pod: PodInfo, diagnosis: Diagnosis, rng: random.Random) -> bool:
        """Whether the pod wants no devices."""
        return not self.may_make_room(pod)

    def may_make_room(self, pod: PodInfo) -> bool:
        """Whether the pod wants devices: it has claims, or a device class provides what it requests."""
        return has_claims(pod) or self._backs_any(pod)

    def explain_post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> tuple[FailedPreemption, ...]:
        """Nothing: no pod is evicted for devices."""
        return ()

    def gang_give_back(self, gang: Gang, rejected: Sequence[tuple[CycleState, PodInfo]]) -> Status | None:
        """Deallocate a claim that makes nodes infeasible for one of the pods, or return one of their group."""
        return self._deallocation.give_back((cycle, cycle.data.get(self.name), pod) for cycle, pod in rejected)

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
        for positions, needs in self._needs.of(state, pod, nodes):
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

    def allocations(self, cycle: CycleState) -> Mapping[str, AllocationResult]:
        """What Reserve took for each claim of the pod, by the key of the claim."""
        state: PodDevices | None = cycle.data.get(self.name)
        if state is None:
            return {}
        return {key_of(state.claims[place]): allocation for place, allocation in state.decided.items()}

    def offered(self, state: PodDevices, pod: PodInfo, node_name: str) -> NodeAllocation | Status:
        """The allocations of the unallocated claims on a node, or an error status."""
        position = state.nodes.position(node_name)
        if position is None:
            return NOT_FOUND
        node = state.nodes.at(np.array([position]))
        needs = self._needs.on(state, pod, node)
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

    def contends(self, pod: PodInfo, other: PodInfo) -> bool:
        """Whether devices have to be found for both pods."""
        return self._wants_devices(pod) and self._wants_devices(other)

    def _wants_devices(self, pod: PodInfo) -> bool:
        if self._backs_any(pod):
            return True
        try:
            claims = claims_of(pod, self._claims, of_groups=self._groups.enabled)
        except UnusableClaim:
            return False
        return any(allocation_of(claim) is None for claim in claims)

    async def background(self) -> None:
        """Compile selectors when they arrive."""
        await self._compiling.run(self._until)

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
        if self._node_resources is not None and self._node_resources.matters:
            why = self._node_resources.explain(state, pod, node)
            if why is not None:
                return Details(why)
        needs = self._needs.on(state, pod, node.alone)
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
