"""Offers: search results per node and shape of claims, cached until their inputs change.

A search takes long, and most pods ask for what earlier ones asked for. Each shape has a column of verdicts and one of
scores, with one value per row; device classes with the same selectors share them. A search that takes long gives way,
and goes on where it stopped (`passes.py`); one that exceeds `filterTimeout` in all fails the attempt, or its node in a
dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from lightkube.models.resource_v1 import AllocationResult, ResourceClaim

from bayplan.core.api.objects import encode
from bayplan.core.cluster.columns import CodedColumn, Int32, Int64, Rows, grown
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.cel.derivations import Derivations
from bayplan.core.devices.cel.selectors import Selectors
from bayplan.core.devices.classes import selectors_of
from bayplan.core.devices.limits import MAX_ALTERNATIVES
from bayplan.core.devices.requests import alternatives_of, constraints_of, demands_of, requests_of
from bayplan.core.devices.slices import DeviceSlices
from bayplan.core.framework.giving_way import GiveWay
from bayplan.core.framework.status import Code, Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.dynamic_resources.allocator import Search
from bayplan.core.plugins.dynamic_resources.candidates import Path, Supply
from bayplan.core.plugins.dynamic_resources.counters import CountersLeft, SharedCounters
from bayplan.core.plugins.dynamic_resources.node_pools import NodePools, Reach
from bayplan.core.plugins.dynamic_resources.passes import Outcome, Pass, StoppedPasses, StoppedSearch
from bayplan.core.plugins.dynamic_resources.provisions import Taking
from bayplan.core.plugins.dynamic_resources.results import allocation_result, node_selector
from bayplan.core.plugins.dynamic_resources.rules import RULES_OF_1_36, SearchRules
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError, Granted, InvalidPools, OutOfTime
from bayplan.core.plugins.dynamic_resources.wanted import ClaimsOnNode
from bayplan.foundations.latest import LruDict

CANNOT_ALLOCATE = Status.unresolvable("cannot allocate all claims")
INVALID_POOLS = Status.unresolvable("invalid resource pools were encountered")

_SHAPES = 64
"""Maximum number of cached shapes. One shape takes about 100 kB for 5,000 nodes."""
_STEPS = 8
"""How many steps a search takes before it looks at the clock."""
_NEVER = -1

Allocation = tuple[AllocationResult, ...]
"""The allocations of claims on a node, in the order of the claims."""


class Shape:
    """Cached results for claims that need the same devices, one per row.

    `known` (int64) is the version of the pools at which the row was searched. `answer` (int32) is an index of
    `Rejections`. `score` (int64) is the score of the chosen alternatives. `takings`: what the pod takes of the node,
    by claim; () without devices.
    """

    __slots__ = ("answer", "known", "score", "takings")

    def __init__(self, capacity: int) -> None:
        self.known: Int64 = np.full(capacity, _NEVER, dtype=np.int64)
        self.answer: Int32 = np.zeros(capacity, dtype=np.int32)
        self.score: Int64 = np.zeros(capacity, dtype=np.int64)
        self.takings: CodedColumn[tuple[Taking, ...]] = CodedColumn(capacity, ())

    def grow(self, capacity: int) -> None:
        """Extend the columns to `capacity` rows."""
        used = len(self.known)
        if used < capacity:
            self.known, self.answer, self.score = (
                grown(column, capacity) for column in (self.known, self.answer, self.score)
            )
            self.known[used:] = _NEVER
            self.takings.grow(capacity)


class Offers:
    """Finds devices for claims on the nodes of a table.

    `clock` returns seconds. `timeout` limits the search on one node, in seconds; 0 means no limit. `give_way` is called
    repeatedly while nodes are searched, and raises GiveWay to stop that. The next call for the same claims goes on.
    `lists`: selectors read lists of values, as with the feature gate DRAListTypeAttributes. `takes`: what a claim with
    its devices takes of the node's resources, for `takings`.
    """

    def __init__(
        self,
        slices: DeviceSlices,
        allocations: ClaimAllocations,
        classes: ObjectStore,
        clock: Callable[[], float],
        timeout: float,
        give_way: Callable[[], None],
        *,
        rules: SearchRules = RULES_OF_1_36,
        lists: bool = False,
        takes: Callable[[Granted], Taking] | None = None,
    ) -> None:
        self._takes = takes
        self._rules = rules
        self._pools = NodePools(slices, allocations, rules)
        self._counters = CountersLeft(slices, allocations)
        self._allocations = allocations
        self._classes = classes
        self._limit = _Limit(clock, timeout, give_way)
        self.selectors = Selectors(during=self._limit.check_time, after=self._limit.check, lists=lists)
        self._derivations = Derivations(during=self._limit.check_time, after=self._limit.check)
        self._shapes: LruDict[tuple[bytes, ...], Shape] = LruDict(_SHAPES)
        self._found: Pass | None = None
        """By the last call, for the next call in the same attempt, and for the node that is chosen then."""
        self._stopped = StoppedPasses()
        self._table: NodeTable | None = None

    def supply(self) -> Supply:
        """The inputs of searches for the claims of one pod. Raises ValueError for unreadable amounts in allocations."""
        taken = self._allocations.taken()
        counters = SharedCounters(self._counters, taken, self._rules)
        return Supply(taken, self._classes, self.selectors, counters, self._rules, self._derivations)

    def rejections(
        self, supply: Supply, claims: Sequence[ResourceClaim], nodes: Nodes, *, go_on: bool = False
    ) -> Rejections:
        """Reject the nodes on which the claims can't all be allocated.

        A search that takes too long fails the attempt, so the remaining nodes aren't searched, unless `go_on`: then it
        fails on its node only.
        """
        shape, rows, errors = self._results(supply, claims, nodes, go_on=go_on)
        answer = shape.answer[rows].copy()
        statuses = [CANNOT_ALLOCATE, INVALID_POOLS]
        for position, error in errors.items():
            statuses.append(error)
            answer[position] = len(statuses)
        return Rejections(answer, statuses)

    def scores(self, supply: Supply, claims: Sequence[ResourceClaim], nodes: Nodes) -> Int64:
        """The scores of feasible nodes: higher for earlier alternatives of requests."""
        shape, rows, _ = self._results(supply, claims, nodes)
        return shape.score[rows]

    def takings(self, claims: Sequence[ResourceClaim], nodes: Nodes) -> tuple[Rows, Sequence[tuple[Taking, ...]]]:
        """What the pod takes of feasible nodes through the claims: an index for each node, and the answers by index.

        The nodes have to be among those of the last call of `rejections` for the claims.
        """
        column = self._shapes[self._key(claims)].takings
        return column.codes[nodes.rows].astype(np.intp), column.values

    def allocation(
        self, supply: Supply, claims: Sequence[ResourceClaim], nodes: Nodes, position: int
    ) -> Allocation | Status:
        """The allocations of the claims on one node, or the reason why there are none."""
        table, row = nodes.table, nodes.row(position)
        self._refresh(table)
        reach, known = self._pools.of(row), self._found
        granted = (
            known.of(reach, row) if known is not None and known.holds(supply, claims, self._pools.version) else None
        )
        if granted is None:
            try:
                granted, _ = self._search(Pass(supply, claims, _NEVER), supply, claims, table, row, reach, to_end=True)
            except OutOfTime as late:
                return Status.error(str(late))
        if isinstance(granted, Status):
            return granted
        return tuple(allocation_result(each, table.names[row], self._rules) for each in granted)

    def reach(self, node: Nodes) -> Reach:
        """The pools of the one node of a selection. Raises ValueError for an invalid node selector."""
        self._refresh(node.table)
        return self._pools.of(node.row(0))

    def _refresh(self, table: NodeTable) -> None:
        self._pools.refresh(table)
        if table is not self._table:
            self._shapes.clear()
            self._table = table

    def _results(
        self, supply: Supply, claims: Sequence[ResourceClaim], nodes: Nodes, *, go_on: bool = False
    ) -> tuple[Shape, Rows | slice, Mapping[int, Status]]:
        """The cached results for the nodes, updated, and their rows. Errors, by position, aren't cached."""
        table = nodes.table
        self._refresh(table)
        key = self._key(claims)
        shape = self._shapes.use(key)
        if shape is None:
            shape = self._shapes[key] = Shape(table.capacity)
        shape.grow(table.capacity)
        errors: dict[int, Status] = {}
        found = self._found
        if found is None or not found.holds(supply, claims, self._pools.version):
            found = self._found = self._stopped.begin(supply, claims, self._pools.version)
        stale = np.flatnonzero(nodes.live & (shape.known[nodes.rows] < self._pools.changed[nodes.rows])).tolist()
        for number, position in enumerate(stale):
            row = nodes.row(position)
            try:
                reach = self._pools.of(row)
            except ValueError as error:
                errors[position] = Status.error(f"gather pool information: {error}")
                continue
            outcome = found.of(reach, row)
            if outcome is None:
                try:
                    outcome, path = self._search(found, supply, claims, table, row, reach)
                except GiveWay:
                    self._stopped.keep(found, claims)
                    raise
                except OutOfTime as late:
                    late_on = stale[number : number + 1 if go_on else None]
                    errors |= dict.fromkeys(late_on, Status.error(str(late)))
                    for each in late_on:
                        found.fail(nodes.row(each), errors[each])
                    if go_on:
                        continue
                    break
                if isinstance(outcome, Status) and outcome.code is Code.ERROR:
                    found.fail(row, outcome)
                else:
                    found.add(reach, row, outcome, path)
            if isinstance(outcome, Status) and outcome.code is Code.ERROR:
                errors[position] = outcome
                continue
            shape.answer[row], shape.score[row] = _summary(outcome)
            if self._takes is not None:
                shape.takings.set(row, () if isinstance(outcome, Status) else tuple(map(self._takes, outcome)))
            shape.known[row] = self._pools.version if reach.repeatable else _NEVER
        for position in errors:
            shape.answer[nodes.row(position)], shape.known[nodes.row(position)] = 0, _NEVER
        return shape, nodes.rows, errors

    def _key(self, claims: Sequence[ResourceClaim]) -> tuple[bytes, ...]:
        return tuple(map(self._needs, claims))

    def _needs(self, claim: ResourceClaim) -> bytes:
        """What the results for a claim depend on: its requests, with the selectors of classes instead of their names,
        and its constraints.
        """
        requests = []
        for demand in (demand for request in requests_of(claim) for demand in demands_of(request)):
            device_class = self._classes.get(demand.class_name)
            selectors = selectors_of(device_class) if device_class is not None else None
            requests.append((replace(demand, class_name=""), selectors))
        return encode((requests, constraints_of(claim)))

    def _search(
        self,
        found: Pass,
        supply: Supply,
        claims: Sequence[ResourceClaim],
        table: NodeTable,
        row: int,
        reach: Reach,
        *,
        to_end: bool = False,
    ) -> tuple[Outcome, Path | None]:
        """The outcome, and the path of the search if it may hold for other nodes. Doesn't give way if `to_end`.

        Goes on with the search that the pass has stopped on this node.
        """
        node, name = table.nodes[row], table.names[row]
        labels = (node.metadata.labels if node is not None and node.metadata is not None else None) or {}
        limit, stopped = self._limit, found.stopped.pop(row, None)
        search = None
        if stopped is not None and self._pools.changed[row] <= stopped.version:
            search = stopped.search
        continues = search is not None
        if search is None:
            search = Search(ClaimsOnNode(supply, reach, name, labels, claims), limit.step)
        limit.begin(name, 0.0 if stopped is None else stopped.worked, to_end=to_end)
        try:
            granted = search.run()
            for each in granted or ():
                node_selector(each, name)
        except GiveWay:
            resumable = search if search.can_continue else None
            found.stopped[row] = StoppedSearch(resumable, self._pools.version, limit.worked)
            raise
        except InvalidPools:
            return INVALID_POOLS, None
        except AllocationError as problem:
            return Status.error(str(problem)), None
        finally:
            limit.end()
        # Other searches may have used the same candidates in between, which loses the path.
        return (CANNOT_ALLOCATE, None) if granted is None else (granted, None if continues else search.path())


class _Limit:
    """The time that a search on one node may take in all, and when it gives way."""

    def __init__(self, clock: Callable[[], float], timeout: float, give_way: Callable[[], None]) -> None:
        self._clock, self._timeout, self._give_way = clock, timeout, give_way
        self._node_name = ""
        self._began: float | None = None
        self._to_end = False
        self._steps = 0

    def begin(self, node_name: str, worked: float, *, to_end: bool) -> None:
        """Begin or continue a search that has worked for some seconds."""
        self._node_name, self._began, self._to_end = node_name, self._clock() - worked, to_end
        self._steps = _STEPS

    def end(self) -> None:
        """End or stop the search."""
        self._began = None

    @property
    def worked(self) -> float:
        """The seconds that the search has worked."""
        return 0.0 if self._began is None else self._clock() - self._began

    def step(self) -> None:
        """Check the limits from time to time."""
        self._steps += 1
        if self._steps >= _STEPS:
            self._steps = 0
            self.check()

    def check(self) -> None:
        """Raise OutOfTime or GiveWay if the search has taken too long."""
        self.check_time()
        if self._began is not None and not self._to_end:
            self._give_way()

    def check_time(self) -> None:
        """Raise OutOfTime if the search has taken too long in all."""
        if self._timeout and self.worked > self._timeout:
            raise OutOfTime(f"node {self._node_name}: timed out trying to allocate devices")


def _summary(outcome: Outcome) -> tuple[int, int]:
    """The index of the status (0 for an allocation), and the score."""
    if isinstance(outcome, Status):
        return 1 if outcome is CANNOT_ALLOCATE else 2, 0
    return 0, sum(score_of(granted.claim, granted.alternatives) for granted in outcome)


def score_of(claim: ResourceClaim, chosen: Collection[str]) -> int:
    """The score of a claim's allocation: for each chosen alternative, the earlier it is in its request, the higher."""
    return sum(MAX_ALTERNATIVES - index for index, name in alternatives_of(claim) if name in chosen)
