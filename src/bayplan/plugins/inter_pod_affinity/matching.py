"""What the affinity terms of a pod, and those of the pods that are there, mean for each domain.

Mirrors the counts of plugins/interpodaffinity/{filtering,scoring}.go, by domain instead of by (key, value) pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.kinds import NAMESPACE
from bayplan.cluster.affinity_terms import AffinityTerm, TermKind, terms_of
from bayplan.cluster.columns import Int64
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.selector_groups import GroupKey, PodSelector
from bayplan.framework.interface import Handle


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """A number for each domain of a topology key. `counts`: int64, one a code of `domains`; 0 for code 0."""

    domains: Domains
    counts: Int64

    def at(self, nodes: Nodes) -> Int64:
        """The number of each node's domain."""
        return self.counts[self.domains.at(nodes)]


class Namespaces:
    """Resolves which namespaces a term means."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def version(self) -> int:
        """Grows whenever a namespace comes, goes or changes."""
        return int(getattr(self._handle.objects(NAMESPACE), "version", 0))

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none of one that is not known."""
        namespace = self._handle.objects(NAMESPACE).get(name)
        return (namespace.metadata.labels if namespace is not None else None) or {}

    def selector(self, term: AffinityTerm) -> PodSelector:
        """The pods that a pending pod's own term means."""
        chosen = term.namespace_selector
        if chosen is None:
            return PodSelector(term.namespaces, term.selector)
        if not chosen.requirements:
            return PodSelector(None, term.selector)
        named = {
            namespace.metadata.name
            for namespace in self._handle.objects(NAMESPACE).values()
            if chosen.matches(namespace.metadata.labels or {})
        }
        return PodSelector(term.namespaces | named, term.selector)


def count_pods(key: GroupKey, topology_key: str, nodes: Nodes, weight: int = 1) -> DomainCounts:
    """The pods that all selectors of a key pick, by domain, each counted `weight` times."""
    table = nodes.table
    counts = table.group(key).counts[: table.size]
    return _by_domain(counts * np.int64(weight), topology_key, nodes)


def sum_existing(
    pod: PodInfo, namespace_labels: Mapping[str, str], nodes: Nodes, worth: Callable[[AffinityTerm], int]
) -> dict[str, DomainCounts]:
    """What the terms of pods on nodes that mean a pod are worth, by topology key and domain.

    `worth`: of one pod with a term; terms worth 0 are left out.
    """
    table = nodes.table
    numbers: dict[str, Int64] = {}
    for column in table.terms.matching(pod, namespace_labels):
        value = worth(column.term)
        if value:
            key = column.term.topology_key
            numbers[key] = numbers.get(key, 0) + column.counts[: table.size] * np.int64(value)
    return {key: _by_domain(number, key, nodes) for key, number in numbers.items()}


def _by_domain(numbers: Int64, topology_key: str, nodes: Nodes) -> DomainCounts:
    domains = Domains.of(topology_key, nodes)
    counts = domains.sum(numbers, nodes.table.live[: nodes.table.size])
    counts[0] = 0
    return DomainCounts(domains, counts)


@dataclass(slots=True)
class Requirements:
    """What is required of the domains of a pod's node, as things are now.

    `near`: for each of the pod's own affinity terms, the pods that meet all of them; `away`: for each of its own
    anti-affinity terms, the pods that it means; `kept_away`: by topology key, the pods whose anti-affinity means this
    one. `first`: the pod would meet its own terms, so that it may be the first of its kind.
    """

    near: list[DomainCounts]
    away: list[DomainCounts]
    kept_away: dict[str, DomainCounts]
    near_selectors: GroupKey
    away_selectors: GroupKey
    namespace_labels: Mapping[str, str]
    first: bool

    @property
    def nothing_near(self) -> bool:
        """Whether no pod that meets the affinity terms is in any domain."""
        return not any(each.counts.any() for each in self.near)

    def changed(self, pod: PodInfo, nodes: Nodes, position: int) -> Requirements:
        """The same under the what-if of one node."""
        row = nodes.row(position)
        near, away = [*self.near], [*self.away]
        kept_away = dict(self.kept_away)
        for other, sign in nodes.changes[position].signed():
            if self.near_selectors and all(selector.matches(other) for selector in self.near_selectors):
                near = [_plus(each, row, sign) for each in near]
            for index, selector in enumerate(self.away_selectors):
                if selector.matches(other):
                    away[index] = _plus(away[index], row, sign)
            for term in terms_of(other).required_anti:
                if term.matches(pod, self.namespace_labels):
                    key = term.topology_key
                    kept_away[key] = _plus(kept_away.get(key) or _none(key, nodes), row, sign)
        return Requirements(
            near, away, kept_away, self.near_selectors, self.away_selectors, self.namespace_labels, self.first
        )


def required(pod: PodInfo, namespaces: Namespaces, nodes: Nodes) -> Requirements | None:
    """What a pod's terms, and the anti-affinity of others, require; None for nothing. Raises InvalidSelector."""
    terms = terms_of(pod)
    namespace_labels = namespaces.labels(pod.namespace)
    kept_away = sum_existing(pod, namespace_labels, nodes, lambda term: 1 if term.kind is TermKind.REQUIRED_ANTI else 0)
    kept_away = {key: counts for key, counts in kept_away.items() if counts.counts.any()}
    if not terms.required and not terms.required_anti and not kept_away:
        return None
    near_selectors = tuple(namespaces.selector(term) for term in terms.required)
    away_selectors = tuple(namespaces.selector(term) for term in terms.required_anti)
    return Requirements(
        [count_pods(near_selectors, term.topology_key, nodes) for term in terms.required],
        [
            count_pods((selector,), term.topology_key, nodes)
            for selector, term in zip(away_selectors, terms.required_anti, strict=True)
        ],
        kept_away,
        near_selectors,
        away_selectors,
        namespace_labels,
        first=bool(near_selectors) and all(selector.matches(pod) for selector in near_selectors),
    )


def _plus(counts: DomainCounts, row: int, change: int) -> DomainCounts:
    domain = counts.domains.of_row(row)
    if domain == 0:
        return counts
    changed = counts.counts.copy()
    changed[domain] += change
    return DomainCounts(counts.domains, changed)


def _none(topology_key: str, nodes: Nodes) -> DomainCounts:
    domains = Domains.of(topology_key, nodes)
    return DomainCounts(domains, np.zeros(domains.count, dtype=np.int64))


def preferences(
    pod: PodInfo, namespaces: Namespaces, nodes: Nodes, *, hard_weight: int, own_only: bool
) -> list[DomainCounts]:
    """What the preferred terms of a pod and of others make of each domain; empty where none means anybody.

    `hard_weight`: what a pod is worth whose required affinity means this one. `own_only`: leave out the preferred terms
    of pods that are there. Raises InvalidSelector.
    """
    terms = terms_of(pod)
    weighted: Iterable[tuple[Any, int]] = (
        *((term, term.weight) for term in terms.preferred),
        *((term, -term.weight) for term in terms.preferred_anti),
    )
    worth = {TermKind.REQUIRED: hard_weight}

    def value(term: AffinityTerm) -> int:
        if term.kind is TermKind.PREFERRED:
            return term.weight
        if term.kind is TermKind.PREFERRED_ANTI:
            return -term.weight
        return worth.get(term.kind, 0)

    own = [count_pods((namespaces.selector(term),), term.topology_key, nodes, weight) for term, weight in weighted]
    others = [] if own_only else sum_existing(pod, namespaces.labels(pod.namespace), nodes, value).values()
    return [each for each in (*own, *others) if _means_anybody(each)]


def _means_anybody(counts: DomainCounts) -> bool:
    return bool(counts.counts.any())
