"""Which workloads Kueue would preempt for one that waits for quota, in its ClusterQueue and its tree of cohorts.

A flavor is chosen for each group of resources, then workloads are removed in Kueue's order until the quota is enough,
and those that are not needed are put back. Mirrors pkg/scheduler/preemption and flavorassigner.go of Kueue, without
fair sharing, topologies, ConcurrentAdmission and pod sets that get flavors of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from bayplan.answers.insight.questions.kueue_objects import KueueObjects, conditions_of, is_true, name_of
from bayplan.answers.insight.questions.quotas_of_kueue import (
    Document,
    FlavorResource,
    QuotaNode,
    Usage,
    nominal_quota,
    usage_of,
)
from bayplan.core.api import kueue

NEVER, ANY = "Never", "Any"
_LOWER, _LOWER_OR_NEWER = "LowerPriority", "LowerOrNewerEqualPriority"
_STOPS = {"Preempt", "MayStopSearch"}
"""Of whenCanPreempt: the first flavor with preemption is taken; the words of v1beta1 and v1beta2."""
_NEXT = "TryNextFlavor"
_TIMED_OUT = {"PodsReadyTimeout", "AdmissionCheck"}
"""Why a workload was evicted that has its place in the queue since then."""
_LATEST = "9999"
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


class QuotaPolicy(Enum):
    """The setting of a ClusterQueue that lets Kueue preempt a workload."""

    PRIORITY = "withinClusterQueue"
    RECLAIMED = "reclaimWithinCohort"
    BORROWING = "borrowWithinCohort"


@dataclass(frozen=True, slots=True)
class QuotaVictim:
    """A workload that would be preempted. `queue`: its ClusterQueue. `why`: the setting that allows it."""

    workload: str
    queue: str
    why: QuotaPolicy


@dataclass(slots=True, eq=False)
class _Admitted:
    """A workload that holds quota. `unless_borrowing`: whether it stays if the other one would borrow.

    `below`: the cohort up to which each level must use more than its quota; None in the own ClusterQueue.
    """

    document: Document
    queue: QuotaNode
    usage: Counter[FlavorResource]
    why: QuotaPolicy = QuotaPolicy.PRIORITY
    unless_borrowing: bool = False
    below: QuotaNode | None = None

    @property
    def evicted(self) -> bool:
        """Whether it is being evicted already."""
        return is_true(self.document, "Evicted")

    def remove(self) -> None:
        """Free its quota."""
        self.queue.taken.subtract(self.usage)

    def restore(self) -> None:
        """Give its quota back."""
        self.queue.taken.update(self.usage)


class _Mode(IntEnum):
    """What a flavor offers: the larger, the better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


_Offer = tuple[_Mode, int]
"""A mode, and how far up in the tree it borrows."""


@dataclass(slots=True)
class QuotaPreemption:
    """A workload that waits in a ClusterQueue, and those that hold quota in its tree."""

    objects: KueueObjects
    queue: QuotaNode
    workload: Document
    wanted: Mapping[str, int]
    _admitted: dict[str, list[_Admitted]] = field(init=False)

    def __post_init__(self) -> None:
        queues = {each.name: each for each in self.queue.root().all() if each.kind == self.queue.kind}
        self._admitted = {name: [] for name in queues}
        for each in self.objects.all(kueue.WORKLOADS):
            admission = (each.get("status") or {}).get("admission") or {}
            queue = queues.get(admission.get("clusterQueue") or "")
            if queue is not None and is_true(each, "QuotaReserved") and not is_true(each, "Finished"):
                self._admitted[queue.name].append(_Admitted(each, queue, usage_of(admission)))

    @property
    def policies(self) -> Mapping[str, str]:
        """The settings of the ClusterQueue about which workloads its own ones preempt."""
        spec = self._settings
        borrowing = (spec.get("borrowWithinCohort") or {}).get("policy")
        return {
            QuotaPolicy.PRIORITY.value: spec.get(QuotaPolicy.PRIORITY.value) or NEVER,
            QuotaPolicy.RECLAIMED.value: spec.get(QuotaPolicy.RECLAIMED.value) or NEVER,
            QuotaPolicy.BORROWING.value: borrowing or NEVER,
        }

    def victims(self) -> list[QuotaVictim]:
        """Return the workloads that Kueue would preempt, in its order; none if that doesn't help."""
        assigned = self._assigned()
        if assigned is None:
            return []
        needed = {of for of, amount in assigned.items() if amount > self.queue.available(of)[0]}
        found = self._targets(assigned, needed) if needed else []
        return [QuotaVictim("/".join(name_of(each.document)), each.queue.name, each.why) for each in found]

    # Flavors

    def _assigned(self) -> dict[FlavorResource, int] | None:
        """What the workload would have of which flavors; None if one of its resources never fits."""
        spec = self.queue.document.get("spec") or {}
        fungibility = spec.get("flavorFungibility") or {}
        assigned: dict[FlavorResource, int] = {}
        for group in spec.get("resourceGroups") or ():
            amounts = {name: self.wanted[name] for name in group.get("coveredResources") or () if name in self.wanted}
            names = [each["name"] for each in group.get("flavors") or ()] if amounts else []
            best, chosen = (_Mode.NO_FIT, 0), ""
            for flavor in names:
                offers = [self._offer((flavor, name), amount) for name, amount in amounts.items()]
                offer = min(offers, key=lambda each: _rank(each, fungibility))
                if not _tries_next(offer, fungibility):
                    best, chosen = offer, flavor
                    break
                if not chosen or _rank(offer, fungibility) > _rank(best, fungibility):
                    best, chosen = offer, flavor
            if names and best[0] is _Mode.NO_FIT:
                return None
            assigned |= {(chosen, name): amount for name, amount in amounts.items()}
        return assigned

    def _offer(self, of: FlavorResource, amount: int) -> _Offer:
        queue, policies = self.queue, self.policies
        if amount > queue.potential(of):
            return _Mode.NO_FIT, 0
        level, reclaims = _lowest_that_fits(queue, of, amount)
        if amount <= queue.available(of)[0]:
            return _Mode.FIT, level
        borrows = policies[QuotaPolicy.BORROWING.value] != NEVER
        if nominal_quota(queue.document, of) < amount and not reclaims and not borrows:
            return _Mode.NO_FIT, level
        found = self._targets({of: amount}, {of})
        if not found:
            return _Mode.NO_CANDIDATES, level
        for each in found:
            each.remove()
        level, _ = _lowest_that_fits(queue, of, amount)
        for each in found:
            each.restore()
        own = any(each.queue is queue for each in found)
        return (_Mode.PREEMPT if own else _Mode.RECLAIM), level

    # Victims

    def _targets(self, assigned: Mapping[FlavorResource, int], needed: set[FlavorResource]) -> list[_Admitted]:
        """The workloads to preempt so that so much is free; none if that can't be."""
        own, hierarchy, others = self._candidates(assigned, needed)
        in_order = [each for part in (hierarchy, others, own) for each in _in_order(part)]
        candidates = sorted(in_order, key=lambda each: not each.evicted)
        forbidden = self.policies[QuotaPolicy.BORROWING.value] == NEVER
        under = all(self.queue.usage(of) < nominal_quota(self.queue.document, of) for of in needed)
        if not (hierarchy or others) or (forbidden and not under):
            attempts = [True]
        elif forbidden and not hierarchy:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            if found := self._remove(candidates, assigned, needed, borrowing=borrowing):
                return found
        return []

    def _remove(
        self,
        candidates: Sequence[_Admitted],
        assigned: Mapping[FlavorResource, int],
        needed: set[FlavorResource],
        *,
        borrowing: bool,
    ) -> list[_Admitted]:
        """Remove candidates until the workload fits, and return those that are needed for that. All are restored."""
        removed: list[_Admitted] = []
        try:
            for each in candidates:
                if not self._counts(each, needed, borrowing=borrowing):
                    continue
                each.remove()
                removed.append(each)
                if self._fits(assigned, borrowing=borrowing):
                    return self._put_back(removed, assigned, borrowing=borrowing)
            return []
        finally:
            for each in removed:
                each.restore()

    def _put_back(
        self, removed: list[_Admitted], assigned: Mapping[FlavorResource, int], *, borrowing: bool
    ) -> list[_Admitted]:
        """Put back those that are not needed, the last ones first. `removed` keeps those that are not restored."""
        for index in range(len(removed) - 2, -1, -1):
            removed[index].restore()
            if self._fits(assigned, borrowing=borrowing):
                removed[index] = removed[-1]
                removed.pop()
            else:
                removed[index].remove()
        return list(removed)

    def _fits(self, assigned: Mapping[FlavorResource, int], *, borrowing: bool) -> bool:
        queue = self.queue
        return all(
            amount <= queue.available(of)[0]
            and (borrowing or queue.usage(of) + amount <= nominal_quota(queue.document, of))
            for of, amount in assigned.items()
        )

    def _counts(self, each: _Admitted, needed: set[FlavorResource], *, borrowing: bool) -> bool:
        """Whether a candidate may still be preempted, after those before it."""
        if each.below is None:
            return True
        if borrowing and each.unless_borrowing:
            return False
        return not any(_is_within(node, needed) for node in (each.queue, *_path_below(each.queue, each.below)))

    def _candidates(
        self, assigned: Mapping[FlavorResource, int], needed: set[FlavorResource]
    ) -> tuple[list[_Admitted], list[_Admitted], list[_Admitted]]:
        """The candidates in the ClusterQueue; those whose quota is this one's by the tree; and all others."""
        queue, policies = self.queue, self.policies
        own: list[_Admitted] = []
        if policies[QuotaPolicy.PRIORITY.value] != NEVER:
            own = list(self._of_queue(queue, needed, policies[QuotaPolicy.PRIORITY.value]))
        hierarchy: list[_Admitted] = []
        others: list[_Admitted] = []
        if policies[QuotaPolicy.RECLAIMED.value] == NEVER:
            return own, hierarchy, others
        advantage, left = _fit_in_quota(queue, assigned)
        done: QuotaNode | None = None
        for root in _path(queue):
            found = hierarchy if advantage else others
            for node in self._borrowers(root, done, needed):
                for each in self._of_queue(node, needed, policies[QuotaPolicy.RECLAIMED.value]):
                    each.below, each.why = root, QuotaPolicy.RECLAIMED
                    each.unless_borrowing = not advantage and not self._while_borrowing(each)
                    if not advantage and not each.unless_borrowing:
                        each.why = QuotaPolicy.BORROWING
                    found.append(each)
            fits, left = _fit_in_quota(root, left)
            advantage |= fits
            done = root
        return own, hierarchy, others

    def _borrowers(self, cohort: QuotaNode, done: QuotaNode | None, needed: set[FlavorResource]) -> Iterator[QuotaNode]:
        """Yield the other ClusterQueues below a cohort that use more than their quota, as do all cohorts above them."""
        for child in cohort.children:
            if child is done or child is self.queue or _is_within(child, needed):
                continue
            if child.kind == self.queue.kind:
                yield child
            else:
                yield from self._borrowers(child, None, needed)

    def _of_queue(self, queue: QuotaNode, needed: set[FlavorResource], policy: str) -> Iterator[_Admitted]:
        for each in self._admitted[queue.name]:
            if any(of in each.usage for of in needed) and self._satisfies(each, policy):
                yield _Admitted(each.document, queue, each.usage)

    def _satisfies(self, each: _Admitted, policy: str) -> bool:
        own, other = _priority(self.workload), _priority(each.document)
        if policy == _LOWER:
            return own > other
        if policy == _LOWER_OR_NEWER:
            return own > other or (own == other and _queued_since(self.workload) < _queued_since(each.document))
        return policy == ANY

    def _while_borrowing(self, each: _Admitted) -> bool:
        settings = self._settings.get("borrowWithinCohort") or {}
        if self.policies[QuotaPolicy.BORROWING.value] == NEVER or _priority(each.document) >= _priority(self.workload):
            return False
        most = settings.get("maxPriorityThreshold")
        return most is None or _priority(each.document) <= int(most)

    @property
    def _settings(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.queue.document.get("spec") or {}).get("preemption") or {}
        return found


def _rank(offer: _Offer, fungibility: Mapping[str, Any]) -> tuple[bool, bool, int, int]:
    mode, level = offer
    by = (-level, mode) if fungibility.get("preference") == "PreemptionOverBorrowing" else (mode, -level)
    return mode > _Mode.NO_FIT, mode > _Mode.NO_CANDIDATES, *by


def _tries_next(offer: _Offer, fungibility: Mapping[str, Any]) -> bool:
    """Whether the flavors after this one are looked at, too."""
    mode, level = offer
    if mode <= _Mode.NO_CANDIDATES:
        return True
    if mode is not _Mode.FIT and fungibility.get("whenCanPreempt") not in _STOPS:
        return True
    return level > 0 and fungibility.get("whenCanBorrow") == _NEXT


def _in_order(candidates: Iterable[_Admitted]) -> list[_Admitted]:
    """The lowest priority first; of equal ones, the one that has had its quota for the shortest time."""
    found = sorted(candidates, key=lambda each: str(each.document["metadata"].get("uid") or ""))
    found.sort(key=lambda each: _reserved_at(each.document), reverse=True)
    return sorted(found, key=lambda each: _priority(each.document))


def _reserved_at(workload: Document) -> str:
    reserved = conditions_of(workload).get("QuotaReserved") or {}
    return str(reserved.get("lastTransitionTime") or _LATEST)


def _queued_since(workload: Document) -> str:
    evicted = conditions_of(workload).get("Evicted") or {}
    if evicted.get("status") == "True" and evicted.get("reason") in _TIMED_OUT:
        return str(evicted.get("lastTransitionTime") or "")
    return str(workload["metadata"].get("creationTimestamp") or "")


def _priority(workload: Document) -> int:
    boost = str((workload["metadata"].get("annotations") or {}).get(kueue.PRIORITY_BOOST) or "")
    own: int = (workload.get("spec") or {}).get("priority") or 0
    return own + (int(boost) if _INTEGER.fullmatch(boost) else 0)


def _path(node: QuotaNode) -> Iterator[QuotaNode]:
    """Yield the cohorts above a node, the nearest first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def _path_below(node: QuotaNode, end: QuotaNode) -> Iterator[QuotaNode]:
    for above in _path(node):
        if above is end:
            return
        yield above


def _is_within(node: QuotaNode, needed: set[FlavorResource]) -> bool:
    return all(node.usage(of) <= node.subtree(of) for of in needed)


def _fit_in_quota(node: QuotaNode, assigned: Usage) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether a node has quota for so much, and what of it has to come from above."""
    fits = all(node.usage(of) + amount <= node.subtree(of) for of, amount in assigned.items())
    return fits, {of: max(0, amount - node.kept_free(of)) for of, amount in assigned.items()}


def _lowest_that_fits(queue: QuotaNode, of: FlavorResource, amount: int) -> tuple[int, bool]:
    """The height of the lowest part of the tree that has quota for so much, and whether anything is above it."""
    if queue.usage(of) + amount <= nominal_quota(queue.document, of) or queue.parent is None:
        return 0, queue.parent is not None
    left = amount - queue.kept_free(of)
    node = queue.parent
    for node in _path(queue):
        if node.usage(of) + left <= node.subtree(of):
            return _height(node), node.parent is not None
        left -= node.kept_free(of)
    return _height(node), False


def _height(cohort: QuotaNode) -> int:
    below = [_height(child) + 1 for child in cohort.children if child.kind == cohort.kind]
    return max(min(len(cohort.children), 1), *below, 0)
