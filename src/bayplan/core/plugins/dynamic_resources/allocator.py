"""Finds devices for the claims of a pod on one node: an exhaustive search that returns the first solution.

The search can stop between two steps and go on later: its steps are generators, which a loop calls (`_Steps`).

Mirrors structured/internal/incubating/allocator_incubating.go, the allocator of kube-scheduler with default feature
gates, including its surprising results in 1.36. For gates that need it, it mirrors experimental/ as well.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from enum import Enum
from typing import Any

from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.devices.claims import key_of
from bayplan.core.devices.limits import MAX_RESULTS
from bayplan.core.devices.requests import DeviceDemand
from bayplan.core.devices.slices import DeviceId, SliceDevice
from bayplan.core.plugins.dynamic_resources.candidates import START, Candidates, Criteria, Path, Place, Required
from bayplan.core.plugins.dynamic_resources.capacity import consumptions
from bayplan.core.plugins.dynamic_resources.compatibility import SearchGroups
from bayplan.core.plugins.dynamic_resources.constraints import MatchAttribute
from bayplan.core.plugins.dynamic_resources.interchangeable import Interchangeable
from bayplan.core.plugins.dynamic_resources.pools import Pool
from bayplan.core.plugins.dynamic_resources.rules import CompatibilityGroups
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError, Grant, Granted, InvalidPools
from bayplan.core.plugins.dynamic_resources.wanted import ClaimsOnNode, Request, Wanted

PREVENTING = frozenset({"NoSchedule", "NoExecute"})


class _Result(Enum):
    """The result of a step."""

    SOLUTION = 1
    NOTHING = 2
    TOO_MANY = 3
    """The current branch of the search exceeds the maximum number of devices of a claim."""


_Step = Generator[Any, Any, _Result]
"""Yields steps, and is sent their results."""


class Search:
    """A search on one node and its pools.

    `checkpoint` is called between two steps. What it raises stops the search, which a later call of `run` continues.
    """

    def __init__(self, given: ClaimsOnNode, checkpoint: Callable[[], None]) -> None:
        self._supply, self._reach, self._claims = given.supply, given.reach, given.claims
        self._checkpoint = checkpoint
        self._used: dict[Criteria, Candidates] = {}
        self._allocating: dict[DeviceId, set[int]] = {}
        self._consuming: dict[DeviceId, dict[str, int]] = {}
        self._wanted = Wanted(given, self._consuming)
        self._counters = given.supply.counters.search(self._allocating)
        self._rules = given.supply.rules
        self._groups: SearchGroups | None = None
        """None until a device of a pool with groups is tried."""
        self._interchangeable: Interchangeable | None = None
        """None if devices differ by more than can be compared."""
        self._leaks = 0
        """How often a device was not given back entirely, as upstream."""
        self._grants: list[list[Grant]] = [[] for _ in given.claims]
        self._chosen: dict[tuple[int, int], int] = {}
        self._steps = [self._next_claim(0)]
        self._result: _Result | None = None
        self.can_continue = False
        """Whether the search has stopped between two steps, so that it can go on there."""

    def run(self) -> list[Granted] | None:
        """The solution for each claim; None if the node has none. Raises AllocationError, InvalidPools or OutOfTime."""
        if not self.can_continue:
            for index, claim in enumerate(self._claims):
                self._wanted.prepare(index, claim)
            self._interchangeable = self._compared()
            self.can_continue = True
        if self._walk() is _Result.SOLUTION:
            return [self._granted(index, claim) for index, claim in enumerate(self._claims)]
        if any(pool.invalid for pool in self._reach.pools):
            raise InvalidPools("invalid resource pools were encountered")
        return None

    def _compared(self) -> Interchangeable | None:
        requests = [each for claim in self._wanted.requests for alternatives in claim for each in alternatives]
        if any(pool.counter_sets for pool in self._reach.pools) or any(each.demand.admin_access for each in requests):
            return None
        if any(each.everything is not None for each in requests) and any(self._wanted.constraints):
            return None  # which device of "all" violates a constraint, or is in use, depends on their order
        expressions = (expression for each in requests for expression in each.criteria.expressions)
        derived = (expression for each in requests for expression in each.demand.derived.values())
        return Interchangeable(self._supply, expressions, derived, self._wanted.constraints)

    def _walk(self) -> _Result:
        """Go through the steps, from where the last call has stopped."""
        while self._steps:
            self._checkpoint()
            self.can_continue = False
            try:
                self._steps.append(self._steps[-1].send(self._result))
                self._result = None
            except StopIteration as end:
                self._steps.pop()
                self._result = end.value
            self.can_continue = True
        assert self._result is not None
        return self._result

    def _granted(self, index: int, claim: ResourceClaim) -> Granted:
        chosen = [
            alternatives[self._chosen.get((index, number), 0)]
            for number, alternatives in enumerate(self._wanted.requests[index])
        ]
        return Granted(claim, self._grants[index], [(each.demand, each.device_class) for each in chosen])

    def path(self) -> Path | None:
        """The pools that the search has looked at; None if it may depend on others as well."""
        if any(each.everything is not None for claim in self._wanted.requests for request in claim for each in request):
            return None
        return {criteria: (each.reached, each.first(each.reached)) for criteria, each in self._used.items()}

    # The search: backtracks over the claims, their requests, and the devices of each request.

    def _next_claim(self, claim: int) -> _Step:
        if claim >= len(self._claims):
            return _Result.SOLUTION
        result: _Result = yield self._next_request(claim, 0)
        return result

    def _next_request(self, claim: int, request: int) -> _Step:
        """Find devices for a request and for all that follow."""
        result: _Result
        if request >= len(self._wanted.requests[claim]):
            result = yield self._next_claim(claim + 1)
            # With another choice for this claim, the next ones can use a smaller alternative.
            return _Result.NOTHING if result is _Result.TOO_MANY else result
        alternatives = self._wanted.requests[claim][request]
        if not alternatives[0].demand.parent:
            result = yield self._next_device(claim, request, 0, 0, START)
            return result
        all_too_many = True
        for sub in range(len(alternatives)):
            result = yield self._next_device(claim, request, sub, 0, START)
            if result is _Result.SOLUTION:
                self._chosen[claim, request] = sub
                return result
            all_too_many = all_too_many and result is _Result.TOO_MANY
        return _Result.TOO_MANY if all_too_many else _Result.NOTHING

    def _next_device(self, claim: int, request: int, sub: int, count: int, start: Place) -> _Step:
        """Find the devices of a request from its `count`th on, among the candidates from `start` on.

        `start` avoids trying the same set of devices in different orders.
        """
        result: _Result
        wanted = self._wanted.requests[claim][request][sub]
        if wanted.everything is not None and not wanted.everything:
            return _Result.NOTHING
        if count >= wanted.count:
            result = yield self._next_request(claim, request + 1)
            return result
        if len(self._grants[claim]) + wanted.count - count > MAX_RESULTS:
            return _Result.TOO_MANY
        compared, futile = self._interchangeable, set[Hashable]()
        for device, pool, place in self._choices((claim, request, sub), wanted, count, start):
            if futile and compared is not None and compared.kind(device) in futile:
                continue
            before = None if compared is None else (self._leaks, compared.state())
            undo = self._take(claim, wanted, device, pool, must=wanted.everything is not None)
            if undo is not None:
                result = yield self._next_device(claim, request, sub, count + 1, place)
                if result is not _Result.NOTHING:
                    if result is _Result.TOO_MANY:
                        undo()
                    return result
                undo()
                if compared is not None and (self._leaks, compared.state()) == before:
                    futile.add(compared.kind(device))
        return _Result.NOTHING

    def _choices(
        self, key: tuple[int, int, int], wanted: Request, count: int, start: Place
    ) -> Iterator[tuple[SliceDevice, Pool, Place]]:
        """The devices to try for a request, each with the place after it."""
        if wanted.everything is not None:
            yield *wanted.everything[count], start
            return
        claim, demand = key[0], wanted.demand
        criteria = wanted.criteria._replace(capacity=None) if self._wanted.releases_capacity else wanted.criteria
        required = self._required(claim, demand)
        for choice in self._candidates(criteria).after(start, required, self._counters.skip):
            device = choice[0]
            if self._is_used(claim, demand, device.id):
                continue
            if self._wanted.selects(key, wanted, device) and self._wanted.has_capacity(key[0], demand, device):
                yield choice

    def _candidates(self, criteria: Criteria) -> Candidates:
        candidates = self._used.get(criteria)
        if candidates is None:
            candidates = self._used[criteria] = self._reach.candidates(criteria, self._supply)
            candidates.reached = 0
        return candidates

    def _required(self, claim: int, demand: DeviceDemand) -> Required:
        """The values of attributes that the claim's constraints require now, where rejecting others has no effect.

        No effect on the constraints, that is: as upstream, rejected devices consume counters.
        """
        found = []
        for constraint in self._wanted.constraints[claim]:
            if not isinstance(constraint, MatchAttribute) or demand.derived:
                return ()
            required = constraint.required(demand.base_name, demand.alternative)
            if required is not None:
                found.append(required)
        return found

    def _is_used(self, claim: int, demand: DeviceDemand, device: DeviceId) -> bool:
        if demand.admin_access:
            return claim in self._allocating.get(device, ())
        return device in self._supply.taken.devices or bool(self._allocating.get(device))

    def _take(
        self, claim: int, request: Request, device: SliceDevice, pool: Pool, *, must: bool
    ) -> Callable[[], None] | None:
        """Take a device for a request. Returns a function that undoes it; None if the device is unavailable.

        In 1.36, a failure doesn't undo all changes of counters and constraints.
        """
        demand, shared, rules = request.demand, device.allows_multiple, self._rules
        if self._is_used(claim, demand, device.id) and not (shared and demand.admin_access):
            return None
        has_shares = device.id in self._consuming
        counts = bool(device.counters) and not (shared and (has_shares or self._supply.has_shares(device.id)))
        ungroup: Callable[[], None] | None = None
        if counts:
            if pool.has_groups and rules.groups is not CompatibilityGroups.UNKNOWN:
                ungroup = self._take_groups(device, pool)
                if ungroup is None:
                    return None
            if not self._counters.consume(device, pool):
                if ungroup is not None:
                    ungroup()
                return None
        if any(taint.effect in PREVENTING and not demand.tolerates(taint) for taint in device.taints):
            self._give_back(device, ungroup, counters=counts and rules.gives_back)
            return None
        constraints = self._wanted.constraints[claim]
        names = (demand.base_name, demand.alternative)
        for index, constraint in enumerate(constraints):
            if constraint.add(*names, device):
                continue
            if must:
                raise AllocationError(
                    f"claim {key_of(self._claims[claim])}, request {demand.name}: cannot add device {device.id} "
                    "because a claim constraint would not be satisfied"
                )
            for added in constraints[:index]:
                added.remove(*names, device)
            self._give_back(device, ungroup, counters=counts and rules.gives_back)
            return None
        if not shared:
            self._allocating.setdefault(device.id, set()).add(claim)
        if not self._wanted.has_capacity(claim, demand, device):
            if not rules.gives_back:
                self._leaks += 1
                return None
            for constraint in constraints:
                constraint.remove(*names, device)
            self._allocating.get(device.id, set()).discard(claim)
            self._give_back(device, ungroup, counters=counts)
            return None
        consumed = consumptions(demand.capacity, device.spec.capacity or {}, rules) if shared else None
        if consumed is not None:
            total = self._consuming.setdefault(device.id, {})
            for name, amount in consumed.items():
                total[name] = total.get(name, 0) + amount
        grants = self._grants[claim]
        before = len(grants)
        grants.append(Grant(device, demand, consumed))

        def undo() -> None:
            for constraint in constraints:
                constraint.remove(*names, device)
            self._allocating.get(device.id, set()).discard(claim)
            self._give_back(device, ungroup, counters=counts and (rules.gives_back or not shared))
            if consumed or (consumed is not None and rules.gives_back):
                self._stop_consuming(device.id, consumed, keep=has_shares and rules.gives_back)
            del grants[before:]

        return undo

    def _take_groups(self, device: SliceDevice, pool: Pool) -> Callable[[], None] | None:
        """Choose a device for its groups: see SearchGroups."""
        if self._groups is None:
            counters, compares = self._supply.counters, self._rules.groups is CompatibilityGroups.COMPARED
            self._groups = SearchGroups(lambda pool: counters.of(pool).groups, compares=compares)
        return self._groups.take(device, pool)

    def _give_back(self, device: SliceDevice, ungroup: Callable[[], None] | None, *, counters: bool) -> None:
        """Undo what was taken of the pool for a device."""
        if counters:
            self._counters.release(device)
        if ungroup is not None:
            ungroup()

    def _stop_consuming(self, device: DeviceId, consumed: Mapping[str, int], *, keep: bool) -> None:
        """Undo the consumption of a share. `keep`: there is another share, even if no capacity is consumed any more."""
        total = self._consuming[device]
        for name, amount in consumed.items():
            total[name] -= amount
        if not keep and not any(total.values()):
            del self._consuming[device]
