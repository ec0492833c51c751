"""The arithmetic of Kueue's quotas: what a ClusterQueue lacks for a workload, in the tree of cohorts that it is in.

A cohort has the quota of its children but for what they don't lend, and its own. What a child uses beyond what it keeps
counts in its cohort. A child may have what its cohort has left, up to its borrowingLimit. Mirrors available and
updateCohortResourceNode in pkg/cache/scheduler/resource_node.go of Kueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.core.api import quantity

Document = Mapping[str, Any]
FlavorResource = tuple[str, str]
Usage = Mapping[FlavorResource, int]
WaitingWorkload = tuple[str, Mapping[str, int]]
"""The name of a workload that waits, and what it requests."""
_QUEUE, _COHORT = "clusterqueue", "cohort"


@dataclass(frozen=True, slots=True)
class Lack:
    """A flavor of a ClusterQueue that has too little of a resource. Amounts are in billionths of units.

    Attributes:
        free: of the `nominal` quota.
        borrowable: what may be borrowed in the cohort beyond it.
        borrowers: the other ClusterQueues of the tree that use more than their quota, with the amounts.
        limit: the ClusterQueue or cohort whose borrowingLimit lets it borrow no more; "" if none does.
        keepers: who in the tree lends less than it has left, by its lendingLimit, and how much it keeps.
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
    limit: str = ""
    keepers: tuple[tuple[str, int], ...] = ()

    @property
    def missing(self) -> int:
        """How much more is needed."""
        return self.requested - self.free - self.borrowable

    def shown(self, amount: int) -> str:
        """An amount as text."""
        return shown(amount, self.resource)


def shown(amount: int, resource: str) -> str:
    """An amount of a resource as text."""
    return quantity.format_quantity(amount, binary=resource not in {"cpu", "pods"})


class CohortCycleError(ValueError):
    """Cohorts are each other's parents. The message names them."""


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort in its tree. `taken`: what is used of a ClusterQueue beyond what its status says."""

    kind: str
    name: str
    document: Document
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    taken: Counter[FlavorResource] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def subtree(self, of: FlavorResource) -> int:
        """The quota of the node and what its children lend."""
        lent = sum(child.subtree(of) - child.kept(of) for child in self.children)
        return nominal_quota(self.document, of) + lent

    def kept(self, of: FlavorResource) -> int:
        """What the node doesn't lend."""
        limit = _quota(self.document, of).get("lendingLimit")
        return 0 if limit is None else max(0, self.subtree(of) - amount_of(limit))

    def usage(self, of: FlavorResource) -> int:
        """What counts against `subtree`."""
        if self.kind == _QUEUE:
            return _reserved(self.document, of) + self.taken[of]
        return sum(max(0, child.usage(of) - child.kept(of)) for child in self.children)

    def available(self, of: FlavorResource) -> tuple[int, str]:
        """How much more the node may have, and whose borrowingLimit lets it have no more; "" if none does."""
        subtree, usage, kept = self.subtree(of), self.usage(of), self.kept(of)
        if self.parent is None:
            return subtree - usage, ""
        above, limited_by = self.parent.available(of)
        limit = _quota(self.document, of).get("borrowingLimit")
        if limit is not None:
            most = subtree - kept - max(0, usage - kept) + amount_of(limit)
            if most < above:
                above, limited_by = most, str(self)
        return max(0, kept - usage) + above, limited_by

    def potential(self, of: FlavorResource) -> int:
        """How much the node could have if nothing were used."""
        subtree = self.subtree(of)
        if self.parent is None:
            return subtree
        most = self.kept(of) + self.parent.potential(of)
        limit = _quota(self.document, of).get("borrowingLimit")
        return most if limit is None else min(most, subtree + amount_of(limit))

    def kept_free(self, of: FlavorResource) -> int:
        """What is left of what the node doesn't lend."""
        return max(0, self.kept(of) - self.usage(of))

    def root(self) -> QuotaNode:
        """The root of the tree."""
        return self if self.parent is None else self.parent.root()

    def all(self) -> Iterator[QuotaNode]:
        """Yield the node and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def quota_tree(queues: Sequence[Document], cohorts: Sequence[Document], queue: str) -> QuotaNode | None:
    """Return a ClusterQueue in its tree; None if there is none of this name. Raises CohortCycleError.

    A cohort that is named and has no object is there too, without a quota of its own.
    """
    named: dict[str, QuotaNode] = {}

    def cohort(name: str) -> QuotaNode:
        return named.setdefault(name, QuotaNode(_COHORT, name, {}))

    for document in cohorts:
        cohort(document["metadata"]["name"]).document = document
    found = [QuotaNode(_QUEUE, each["metadata"]["name"], each) for each in queues]
    for node in (*found, *list(named.values())):
        if parent := _parent_of(node):
            node.parent = cohort(parent)
            node.parent.children.append(node)
    own = next((each for each in found if each.name == queue), None)
    path: list[str] = []
    above = None if own is None else own.parent
    while above is not None:
        if above.name in path:
            raise CohortCycleError(f"cohort {' > '.join([*path[path.index(above.name) :], above.name])} is a cycle")
        path.append(above.name)
        above = above.parent
    return own


def lacks(queue: QuotaNode, requested: Mapping[str, int]) -> Iterator[Lack]:
    """Yield what each flavor of a ClusterQueue lacks for a workload that requests so much.

    A resource with a flavor that has enough yields nothing.
    """
    for group in (queue.document.get("spec") or {}).get("resourceGroups") or ():
        for resource in group.get("coveredResources") or ():
            if resource not in requested:
                continue
            found = [_lack(queue, (each["name"], resource), requested[resource]) for each in group.get("flavors") or ()]
            if all(each.missing > 0 for each in found):
                yield from found


def uncovered(queue: Document, requested: Mapping[str, int]) -> list[str]:
    """The requested resources for which no flavor of a ClusterQueue has a quota."""
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    covered = {resource for group in groups for resource in group.get("coveredResources") or ()}
    return [name for name, amount in requested.items() if amount and name not in covered and name != "pods"]


class ChangingQuotas:
    """The quotas of a ClusterQueue, in its tree, as workloads end and others are admitted."""

    def __init__(self, node: QuotaNode) -> None:
        self._node = node
        self._queues = {each.name: each for each in node.root().all() if each.kind == node.kind}
        spec = node.document.get("spec") or {}
        self._strict = spec.get("queueingStrategy") == "StrictFIFO"
        self._groups: list[Document] = list(spec.get("resourceGroups") or ())

    def release(self, queue: str, usage: Usage) -> bool:
        """End a workload of a ClusterQueue. Returns whether that is one of this tree."""
        node = self._queues.get(queue)
        if node is not None:
            node.taken.subtract(usage)
        return node is not None

    def take(self, queue: str, usage: Usage) -> None:
        """Admit a workload of a ClusterQueue, if that is one of this tree."""
        node = self._queues.get(queue)
        if node is not None:
            node.taken.update(usage)

    def admit(self, waiting: list[WaitingWorkload], own: str) -> bool:
        """Admit the first of those that wait, as far as there is quota, and drop them. Returns whether `own` is."""
        for each in list(waiting):
            usage = self.assigned(each[1])
            if usage is not None:
                if each[0] == own:
                    return True
                waiting.remove(each)
                self._node.taken.update(usage)
            elif self._strict:
                return False
        return False

    def assigned(self, wanted: Mapping[str, int]) -> dict[FlavorResource, int] | None:
        """The first flavor of each resource group that has enough; None if a group has none."""
        usage: dict[FlavorResource, int] = {}
        for group in self._groups:
            amounts = {name: wanted[name] for name in group.get("coveredResources") or () if name in wanted}
            flavors = [each["name"] for each in group.get("flavors") or ()] if amounts else []
            fits = (flavor for flavor in flavors if self._fits(flavor, amounts))
            flavor = next(fits, None) if amounts else ""
            if flavor is None:
                return None
            usage |= {(flavor, name): amount for name, amount in amounts.items()}
        return usage

    def _fits(self, flavor: str, amounts: Mapping[str, int]) -> bool:
        return all(self._node.available((flavor, name))[0] >= amount for name, amount in amounts.items())


def usage_of(admission: Document) -> Counter[FlavorResource]:
    """Return the quota that an admitted workload holds, by its status."""
    usage: Counter[FlavorResource] = Counter()
    for assigned in admission.get("podSetAssignments") or ():
        flavors = assigned.get("flavors") or {}
        for name, amount in (assigned.get("resourceUsage") or {}).items():
            if name in flavors:
                usage[flavors[name], name] += amount_of(amount)
    return usage


def _lack(queue: QuotaNode, of: FlavorResource, requested: int) -> Lack:
    nominal = nominal_quota(queue.document, of)
    available, limit = queue.available(of)
    free = max(0, min(nominal - queue.usage(of), available))
    others = [each for each in queue.root().all() if each is not queue]
    borrowers = [(each.name, each.usage(of) - each.subtree(of)) for each in others if each.kind == _QUEUE]
    keepers = [(str(each), max(0, each.kept(of) - each.usage(of))) for each in others if each.parent is not None]
    return Lack(
        queue.name,
        *of,
        requested,
        nominal,
        free,
        max(0, available - free),
        queue.parent.name if queue.parent is not None else "",
        tuple(each for each in borrowers if each[1] > 0),
        limit,
        tuple(each for each in keepers if each[1] > 0),
    )


def nominal_quota(document: Document, of: FlavorResource) -> int:
    """The quota that a ClusterQueue or a cohort has by itself."""
    return amount_of(_quota(document, of).get("nominalQuota"))


def _quota(document: Document, of: FlavorResource) -> Document:
    flavor, resource = of
    for group in (document.get("spec") or {}).get("resourceGroups") or ():
        for each in group.get("flavors") or ():
            for quota in each.get("resources") or () if each.get("name") == flavor else ():
                if quota.get("name") == resource:
                    found: Document = quota
                    return found
    return {}


def _reserved(queue: Document, of: FlavorResource) -> int:
    """How much of a flavor is reserved."""
    flavor, resource = of
    for each in (queue.get("status") or {}).get("flavorsReservation") or ():
        for usage in each.get("resources") or () if each.get("name") == flavor else ():
            if usage.get("name") == resource:
                return amount_of(usage.get("total"))
    return 0


def _parent_of(node: QuotaNode) -> str:
    """The cohort that a node is in; "" for none.

    A ClusterQueue has `cohort` in v1beta1 and `cohortName` in v1beta2, a cohort `parentName`, and `parent` in v1alpha1.
    """
    spec = node.document.get("spec") or {}
    names = ("cohortName", "cohort") if node.kind == _QUEUE else ("parentName", "parent")
    return next((str(spec[name]) for name in names if spec.get(name)), "")


def amount_of(text: Any) -> int:
    """A quantity of Kueue in billionths of units; 0 for None. Raises InvalidQuantity."""
    return quantity.parse(str(text)) if text is not None else 0
