"""The arithmetic of Kueue's quotas: what a ClusterQueue lacks for a workload, and who in its cohort borrows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.core.api import quantity

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lack:
    """A flavor of a ClusterQueue that has too little of a resource. Amounts are in billionths of units.

    `free`: of the `nominal` quota. `borrowable`: what may be borrowed in the cohort beyond it. `borrowers`: the other
    ClusterQueues of the cohort that borrow this resource, with the amounts.
    """

    queue: str
    flavor: str
    resource: str
    requested: int
    nominal: int
    free: int
    borrowable: int
    cohort: str
    borrowers: tuple[tuple[str, int], ...]

    @property
    def missing(self) -> int:
        """How much more is needed."""
        return self.requested - self.free - self.borrowable

    def shown(self, amount: int) -> str:
        """An amount as text."""
        return quantity.format_quantity(amount, binary=self.resource not in {"cpu", "pods"})


def lacks(queues: Sequence[Document], queue: Document, requested: Mapping[str, int]) -> Iterator[Lack]:
    """Yield what each flavor of a ClusterQueue lacks for a workload that requests so much.

    A resource with a flavor that has enough yields nothing.
    """
    name, cohort = queue["metadata"]["name"], _cohort_of(queue)
    others = [each for each in queues if cohort and _cohort_of(each) == cohort and each["metadata"]["name"] != name]
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for resource in group.get("coveredResources") or ():
            if resource not in requested:
                continue
            found = [
                _lack(queue, others, flavor["name"], resource, requested[resource])
                for flavor in group.get("flavors") or ()
            ]
            if all(each.missing > 0 for each in found):
                yield from found


def _lack(queue: Document, others: Sequence[Document], flavor: str, resource: str, requested: int) -> Lack:
    own = _quota(queue, flavor, resource)
    nominal, used = _amount(own.get("nominalQuota")), _reserved(queue, flavor, resource)[0]
    # What others borrow of this queue is not free, either: the quota of the cohort is one.
    lent = unused = 0
    borrowers = []
    for other in others:
        quota, (total, borrowed) = _quota(other, flavor, resource), _reserved(other, flavor, resource)
        theirs = _amount(quota.get("nominalQuota"))
        limit = quota.get("lendingLimit")
        lendable = theirs if limit is None else min(theirs, _amount(limit))
        unused += max(0, min(lendable, theirs - total))
        lent += borrowed
        if borrowed > 0:
            borrowers.append((other["metadata"]["name"], borrowed))
    free = max(0, nominal - used)
    borrowable = max(0, unused - lent)
    free -= max(0, min(free, lent - unused))
    if own.get("borrowingLimit") is not None:
        borrowable = min(borrowable, max(0, _amount(own["borrowingLimit"]) - max(0, used - nominal)))
    cohort = _cohort_of(queue)
    return Lack(
        queue["metadata"]["name"], flavor, resource, requested, nominal, free, borrowable, cohort, tuple(borrowers)
    )


def _quota(queue: Document, flavor: str, resource: str) -> Document:
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for each in group.get("flavors") or ():
            for quota in each.get("resources") or () if each.get("name") == flavor else ():
                if quota.get("name") == resource:
                    found: Document = quota
                    return found
    return {}


def _reserved(queue: Document, flavor: str, resource: str) -> tuple[int, int]:
    """How much of a flavor is reserved, and how much of that is borrowed."""
    for each in (queue.get("status") or {}).get("flavorsReservation") or ():
        for usage in each.get("resources") or () if each.get("name") == flavor else ():
            if usage.get("name") == resource:
                return _amount(usage.get("total")), _amount(usage.get("borrowed"))
    return 0, 0


def _cohort_of(queue: Document) -> str:
    """The cohort of a ClusterQueue: `cohort` in v1beta1, `cohortName` in v1beta2; "" for none."""
    spec = queue.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _amount(text: Any) -> int:
    return quantity.parse(str(text)) if text is not None else 0
