"""The rule for resources of nodes that devices provide: what a pod takes of a node through its claims must fit there.

Mirrors plugins/dynamicresources/nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.api import requests
from bayplan.core.cluster.columns import Bool, Int32, Rows
from bayplan.core.cluster.node_selection import match_selector
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_changes import Removals
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import allocation_of, is_reserved_for, key_of, reservations, results_of
from bayplan.core.framework.shortages import rejections
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.demand import NodeDemand, Takings, statuses_of
from bayplan.core.plugins.dynamic_resources.needs import NodeNeeds
from bayplan.core.plugins.dynamic_resources.offers import Offers
from bayplan.core.plugins.dynamic_resources.provisions import Provisions, Taking
from bayplan.core.plugins.dynamic_resources.state import Needs, PodDevices

_CHECKED = (requests.CPU, requests.MEMORY, requests.EPHEMERAL_STORAGE)


class NodeAllocatable:
    """Checks what pods take of nodes, for all nodes at once. `since_1_37`: by the rules that 1.37 has."""

    def __init__(self, provisions: Provisions, offers: Offers, needs: NodeNeeds, *, since_1_37: bool) -> None:
        self._provisions = provisions
        self._offers = offers
        self._needs = needs
        self._since_1_37 = since_1_37

    @property
    def matters(self) -> bool:
        """Whether devices provide any resources of nodes."""
        return self._provisions.exist

    def reject_shared(
        self, state: PodDevices, pod: PodInfo, nodes: Nodes, index: Int32, statuses: list[Status]
    ) -> None:
        """Reject the nodes on which the pod would share a claim that can't be shared.

        `index` and `statuses` are those of `Rejections`, and are extended; so they are in `reject`.
        """
        for place, claim in enumerate(state.claims):
            written = allocation_of(claim) is not None
            if not written and not (self._since_1_37 and place in state.pending):
                continue
            usable = nodes.live & (index == 0) & self._selected(state, place, nodes)
            if self._since_1_37:
                if self._is_shared(state, place, pod):
                    name = key_of(claim).partition("/")[2]
                    problem = f"node allocatable resource claim {name} has a mapped device and cannot be shared"
                    statuses.append(Status.unresolvable(f"{problem} across pods"))
                    index[usable] = len(statuses)
                continue
            for position, users in _users(nodes, key_of(claim)).items():
                name = f"node allocatable resource claim {key_of(claim).partition('/')[2]}"
                if usable[position] and len(users) > 1:
                    statuses.append(Status.unresolvable(f"{name} shared by multiple pods"))
                elif usable[position] and users and pod.uid not in users:
                    statuses.append(Status.unresolvable(f"{name} is already used by another pod"))
                else:
                    continue
                index[position] = len(statuses)

    def _is_shared(self, state: PodDevices, place: int, pod: PodInfo) -> bool:
        """Whether a claim, which has an allocation, has devices for one pod only, and another pod has them."""
        claim = state.claims[place]
        if not self._provisions.maps(results_of(state.allocation(place))):
            return False
        reserved = bool(reservations(claim)) and not is_reserved_for(claim, pod.uid, state.group)
        return reserved or place in state.pending

    def _selected(self, state: PodDevices, place: int, nodes: Nodes) -> Bool:
        selector = state.selectors.get(place)
        return np.ones(len(nodes), dtype=np.bool_) if selector is None else match_selector(selector, nodes)

    def reject(
        self, state: PodDevices, pod: PodInfo, nodes: Nodes, needs: Needs, index: Int32, statuses: list[Status]
    ) -> None:
        """Reject the nodes that have too little for what the pod takes there. `needs`: those of all of these nodes,
        which have just been searched for devices.
        """
        counting = self._counting(state)
        claims = [state.claims[place] for place in counting]
        answers = [self._allocated(state, place, nodes) for place in counting]
        if needs.claims:
            codes, values = self._offers.takings(needs.claims, nodes)
            for place, claim in enumerate(needs.claims):
                claims.append(claim)
                answers.append((codes, [value[place] if value else None for value in values]))
        if not answers:
            return
        each_node, of_nodes = np.unique(np.stack([codes for codes, _ in answers]), axis=1, return_inverse=True)
        takings = [
            [(claim, values[code]) for claim, (_, values), code in zip(claims, answers, combination, strict=True)]
            for combination in each_node.T.tolist()
        ]
        self._reject(pod, nodes, takings, of_nodes.reshape(-1), index, statuses)

    def _counting(self, state: PodDevices) -> list[int]:
        """The allocated claims that count: in 1.36, only those that are allocated in this attempt."""
        if self._since_1_37:
            return [place for place in range(len(state.claims)) if state.allocation(place) is not None]
        return list(state.pending)

    def _allocated(self, state: PodDevices, place: int, nodes: Nodes) -> tuple[Rows, list[Taking]]:
        """What an allocated claim takes of nodes: distinct answers, and the index of the answer for each node."""
        results = list(results_of(state.allocation(place)))
        if not self._since_1_37:
            return np.zeros(len(nodes), dtype=np.intp), [self._provisions.of_results(results)]
        codes, answers = self._provisions.on_nodes(results, nodes)
        return np.where(self._selected(state, place, nodes), codes, len(answers)), [*answers, None]

    def _reject(
        self,
        pod: PodInfo,
        nodes: Nodes,
        takings: Sequence[Takings],
        of_nodes: Rows,
        index: Int32,
        statuses: list[Status],
    ) -> None:
        """Reject nodes by distinct takings. Each node has the index of one."""
        demand = NodeDemand(pod, since_1_37=self._since_1_37)
        open_ = nodes.live & (index == 0)
        wanted: list[Mapping[str, int]] = []
        for number, each in enumerate(takings):
            taken = demand.taken(each)
            problem = taken if isinstance(taken, Status) else demand.problem(taken) if taken else None
            wanted.append({} if isinstance(taken, Status) or not taken else demand.with_taken(taken))
            if problem is not None:
                statuses.append(problem)
                index[open_ & (of_nodes == number)] = len(statuses)
        open_ &= index == 0
        if not open_.any():
            return
        huge_pages = sorted({name for amounts in wanted for name in amounts if name.startswith("hugepages-")})
        shortages = []
        for name in (*_CHECKED, *huge_pages):
            amount = np.array([each.get(name, 0) for each in wanted], dtype=np.int64)[of_nodes]
            asked = (name in each if name in huge_pages else each.get(name, 0) > 0 for each in wanted)
            asks = np.fromiter(asked, dtype=np.bool_, count=len(wanted))[of_nodes]
            has = nodes.allocatable(name)
            lacking = open_ & asks & (amount > has - nodes.requested(name))
            shortages.append((f"Insufficient {name}", lacking, has, amount))
        found = rejections(shortages)
        index[found.index > 0] = found.index[found.index > 0] + len(statuses)
        statuses += found.statuses

    def assumed_as(self, state: PodDevices, pod: PodInfo, node_name: str) -> PodInfo:
        """The pod as it counts on a node that it is going to be assumed on; `state.taken` gets what it takes there."""
        position = state.nodes.position(node_name)
        state.taken = []
        if position is not None and self.matters:
            node = state.nodes.at(np.array([position]))
            taken = NodeDemand(pod, since_1_37=self._since_1_37).taken(self._takings_on(state, pod, node))
            if not isinstance(taken, Status):
                state.taken = statuses_of(taken, since_1_37=self._since_1_37)
        return pod.with_claimed(state.taken) if state.taken or pod.counted_claims else pod

    def explain(self, state: PodDevices, pod: PodInfo, node: NodeInfo) -> str | None:
        """Why the rule rejects a node, with what the pod needs of it and what is free there; None if it doesn't."""
        nodes, statuses = node.alone, list[Status]()
        index: Int32 = np.zeros(1, dtype=np.int32)
        self.reject_shared(state, pod, nodes, index, statuses)
        if not index.any():
            takings = self._takings_on(state, pod, nodes)
            self._reject(pod, nodes, [takings], np.zeros(1, dtype=np.intp), index, statuses)
        if not index.any():
            return None
        texts = []
        for reason in statuses[index.item(0) - 1].reasons:
            resource = reason.removeprefix("Insufficient ")
            if resource == reason:
                texts.append(reason)
                continue
            demand = NodeDemand(pod, since_1_37=self._since_1_37)
            taken = demand.taken(takings)
            assert not isinstance(taken, Status)
            has, used = node.allocatable_of(resource), node.requested_of(resource)
            amounts = (demand.with_taken(taken)[resource], max(has - used, 0), has)
            needs, free, of = (requests.amount_text(resource, each) for each in amounts)
            it = "with what its claims take of the node, it"
            texts.append(f"{it} needs {needs} {resource}; {node.name} has {free} of {of} free")
        return "; ".join(texts)

    def _takings_on(self, state: PodDevices, pod: PodInfo, node: Nodes) -> Takings:
        """What the pod takes of the one node of a selection, which is searched for devices."""
        needs = self._needs.on(state, pod, node)
        new = [] if isinstance(needs, Status) else needs.claims
        found: list[tuple[ResourceClaim, Taking]] = []
        for place in self._counting(state):
            codes, answers = self._allocated(state, place, node)
            found.append((state.claims[place], answers[codes.item(0)]))
        offered = self._offers.allocation(state.supply, new, node, 0) if new else ()
        for claim, each in zip(new, () if isinstance(offered, Status) else offered, strict=False):
            found.append((claim, self._provisions.of_results(results_of(each))))
        return found


def _users(nodes: Nodes, claim: str) -> Mapping[int, Collection[str]]:
    """The pods that take resources of nodes through a claim (`namespace/name`): their UIDs by position."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for uid, row in nodes.table.claims.users(claim).items():
        position = nodes.position(nodes.table.names[row])
        if position is not None:
            changes = nodes.changes.get(position)
            if changes is None or all(pod.uid != uid for pod in changes.removed):
                found[position].add(uid)
    namespace, _, name = claim.partition("/")
    for position, changes in () if isinstance(nodes.changes, Removals) else nodes.changes.items():
        for pod in changes.added:
            if pod.namespace == namespace and name in pod.counted_claims:
                found[position].add(pod.uid)
    return found
