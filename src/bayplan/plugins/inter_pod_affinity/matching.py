"""Evaluates the affinity terms of a pending pod, and of the pods on nodes, by topology domain.

Mirrors the counts of plugins/interpodaffinity/{filtering,scoring}.go, by domain instead of by (key, value) pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np

from bayplan.api.kinds import NAMESPACE
from bayplan.cluster.affinity_terms import AffinityTerm, TermKind, bound_terms, terms_of
from bayplan.cluster.columns import Bool, Int32, Int64
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Count, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.pod_selectors import GroupKey, PodSelector, matches_all, pod_counter
from bayplan.cluster.tally import Tally
from bayplan.framework.handle import Handle

_CACHE_SIZE = 1024

EXISTING_ANTI_AFFINITY, ANTI_AFFINITY, AFFINITY = 1, 2, 3
"""The rule that a node violates; 0 for none. If it violates several, the highest number counts."""


@dataclass(slots=True)  # not frozen, as Domains
class DomainCounts:
    """A number for each domain of a topology key. `counts`: int64, shape (domains.count,); 0 for code 0."""

    domains: Domains
    counts: Int64

    def at(self, nodes: Nodes) -> Int64:
        """Return the number of each node's domain: int64, shape (len(nodes),)."""
        return self.counts.take(self.domains.at(nodes))


class Namespaces:
    """Resolves the namespaces of affinity terms."""

    def __init__(self, handle: Handle) -> None:
        self._store = handle.objects(NAMESPACE)
        self._version = -1
        self._selectors: dict[AffinityTerm, PodSelector] = {}

    @property
    def version(self) -> int:
        """Increases with every change of a namespace."""
        return self._store.version

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if the namespace is unknown."""
        namespace = self._store.get(name)
        return (namespace.metadata.labels if namespace is not None else None) or {}

    def selector(self, term: AffinityTerm) -> PodSelector:
        """Return the selector of the pods that a term of a pending pod matches."""
        if self._version != self.version or len(self._selectors) >= _CACHE_SIZE:
            self._version = self.version
            self._selectors.clear()
        selector = self._selectors.get(term)
        if selector is None:
            selector = self._selectors[term] = self._resolve(term)
        return selector

    def _resolve(self, term: AffinityTerm) -> PodSelector:
        namespace_selector = term.namespace_selector
        if namespace_selector is None:
            return PodSelector(term.namespaces, term.selector)
        if not namespace_selector.requirements:
            return PodSelector(None, term.selector)
        selected = {
            namespace.metadata.name
            for namespace in self._store.values()
            if namespace_selector.matches(namespace.metadata.labels or {})
        }
        return PodSelector(term.namespaces | selected, term.selector)


def count_pods(key: GroupKey, topology_key: str, nodes: Nodes) -> DomainCounts:
    """Count the pods that match all selectors of a key, by domain."""
    domains = Domains.of(topology_key, nodes)
    return DomainCounts(domains, domains.sum(nodes.table.group(key).counts))


def sum_by_topology(tallies: Iterable[tuple[str, Tally, int]], nodes: Nodes) -> tuple[dict[str, DomainCounts], bool]:
    """Sum tallies by topology key and domain. `tallies`: each with a topology key and a weight.

    Also returns whether a domain has a pod of any tally; weighted sums may be 0 nevertheless.
    """
    by_row: dict[str, dict[int, int]] = {}
    sums: dict[str, DomainCounts] = {}
    some = False
    for key, tally, weight in tallies:
        few, domains = tally.few, sums[key].domains if key in sums else Domains.of(key, nodes)
        if few is not None and len(few) < domains.count:
            numbers = by_row.setdefault(key, {})
            for row, number in few.items():
                numbers[row] = numbers.get(row, 0) + weight * number
            continue
        counts = domains.sum(tally)
        some = some or bool(counts.any())
        if weight != 1:
            counts *= weight
        if key in sums:
            counts += sums[key].counts
        sums[key] = DomainCounts(domains, counts)
    for key, numbers in by_row.items():
        domains = sums[key].domains if key in sums else Domains.of(key, nodes)
        counts, there = domains.sum_rows(numbers)
        some = some or there
        if key in sums:
            counts += sums[key].counts
        sums[key] = DomainCounts(domains, counts)
    return sums, some


@dataclass(slots=True)
class Requirements:
    """The required terms that apply to a pod, with the pods that match them, by domain.

    A pod may have hundreds of terms, but few topology keys of nodes. A node that violates one of several terms with the
    same key violates their sum, so that all numbers are kept by topology key.

    Attributes:
        affinity: for the affinity terms of the pod, the pods that match all of these.
        anti_affinity: for the anti-affinity terms of the pod, the sum of the pods that match each of them.
        existing: the anti-affinity terms of other pods that match the pod.
        count_affinity: counts the pods that match all affinity terms of the pod.
        counts_anti_affinity: counts the pods that match each of the pod's anti-affinity terms.
        matches_itself: whether the pod matches its own affinity terms, so that it fits a node without any matching pod.
    """

    affinity: dict[str, DomainCounts]
    anti_affinity: dict[str, DomainCounts]
    existing: dict[str, DomainCounts]
    count_affinity: Count
    counts_anti_affinity: dict[str, Count]
    pod: PodInfo
    namespace_labels: Mapping[str, str]
    matches_itself: bool
    _existing_counts: dict[str, Count] = field(default_factory=dict)
    """By topology key: counts the anti-affinity terms of pods that match this pod."""

    def verdicts(self, nodes: Nodes) -> Int32 | None:
        """Return the rule that each node violates, without what-ifs: int32, shape (len(nodes),); None if none does."""
        violated: dict[str, Int32] = {}
        first = self.matches_itself and not any(counts.counts.any() for counts in self.affinity.values())
        for counts in self.existing.values():
            _raise_to(violated, counts, counts.counts > 0, EXISTING_ANTI_AFFINITY)
        for counts in self.anti_affinity.values():
            _raise_to(violated, counts, counts.counts > 0, ANTI_AFFINITY)
        for counts in self.affinity.values():
            unmatched = np.zeros_like(counts.counts, dtype=np.bool_) if first else counts.counts == 0
            unmatched[0] = not counts.domains.everywhere
            _raise_to(violated, counts, unmatched, AFFINITY)
        found = [rules.take(Domains.of(key, nodes).at(nodes)) for key, rules in violated.items() if rules.any()]
        if len(found) <= 1:
            return found[0] if found else None
        verdicts: Int32 = np.maximum.reduce(found)
        return verdicts

    def verdicts_if(self, nodes: Nodes) -> Int32:
        """Return the rule that each node violates with its what-if: int32, shape (len(nodes),)."""
        verdicts: Int32 = np.zeros(len(nodes), dtype=np.int32)
        for key in self.existing.keys() | self._added_keys(nodes):
            here = Domains.of(key, nodes).at(nodes)
            terms = nodes.counted(self._count_existing(key))
            if key in self.existing:
                terms = terms + self.existing[key].counts[here]
            verdicts[(terms > 0) & (here > 0)] = EXISTING_ANTI_AFFINITY
        for key, counts in self.anti_affinity.items():
            here = counts.domains.at(nodes)
            difference = nodes.counted(self.counts_anti_affinity[key])
            verdicts[(counts.counts[here] + difference > 0) & (here > 0)] = ANTI_AFFINITY
        if self.affinity:
            difference = nodes.counted(self.count_affinity)
            domains = [(counts, counts.domains.at(nodes)) for counts in self.affinity.values()]
            anywhere = sum(counts.counts.sum() + difference * (here > 0) for counts, here in domains)
            for counts, here in domains:
                unmatched = counts.counts[here] + difference <= 0
                if self.matches_itself:
                    unmatched &= anywhere != 0
                verdicts[unmatched | (here == 0)] = AFFINITY
        return verdicts

    def _count_existing(self, topology_key: str) -> Count:
        """Return the same function at every call, because what-ifs cache counts by the function's identity."""
        return self._existing_counts.setdefault(topology_key, partial(self._count_terms, topology_key))

    def _count_terms(self, topology_key: str, others: Iterable[PodInfo]) -> int:
        return sum(
            term.topology_key == topology_key and term.matches(self.pod, self.namespace_labels)
            for other in others
            for term in bound_terms(other).required_anti
        )

    def _added_keys(self, nodes: Nodes) -> set[str]:
        """Return the topology keys of the anti-affinity terms of hypothetical pods."""
        added = (pod for changes in nodes.changes.values() for pod in changes.added)
        return {term.topology_key for pod in added for term in bound_terms(pod).required_anti}


def _raise_to(violated: dict[str, Int32], counts: DomainCounts, where: Bool, rule: int) -> None:
    """Raise the violated rules of some domains of a topology key to at least `rule`."""
    rules = where * np.int32(rule)
    key = counts.domains.key
    violated[key] = np.maximum(violated[key], rules) if key in violated else rules


def required(pod: PodInfo, namespaces: Namespaces, nodes: Nodes) -> Requirements | None:
    """Evaluate the required terms of a pod, and of pods on nodes; None if there are none. Raises InvalidSelector."""
    terms = terms_of(pod)
    namespace_labels = namespaces.labels(pod.namespace)
    columns = nodes.table.terms.matching(pod, namespace_labels)
    anti = [each for each in columns if each.term.kind is TermKind.REQUIRED_ANTI]
    existing: dict[str, DomainCounts] = {}
    if anti:
        sums, _ = sum_by_topology(((each.term.topology_key, each.counts, 1) for each in anti), nodes)
        existing = {key: counts for key, counts in sums.items() if counts.counts.any()}
    if not terms.required and not terms.required_anti and not existing:
        return None
    affinity = tuple(namespaces.selector(term) for term in terms.required)
    anti_affinity: dict[str, dict[PodSelector, None]] = {}
    for term in terms.required_anti:
        anti_affinity.setdefault(term.topology_key, {})[namespaces.selector(term)] = None
    group = nodes.table.group
    tallies = ((key, group((each,)).counts, 1) for key, selectors in anti_affinity.items() for each in selectors)
    return Requirements(
        {
            key: count_pods(affinity, key, nodes)
            for key in dict.fromkeys([each.topology_key for each in terms.required])
        },
        sum_by_topology(tallies, nodes)[0],
        existing,
        pod_counter(partial(matches_all, affinity)),
        {key: pod_counter(partial(_number_of_matches, tuple(each))) for key, each in anti_affinity.items()},
        pod,
        namespace_labels,
        matches_itself=bool(affinity) and matches_all(affinity, pod),
    )


def _number_of_matches(selectors: Iterable[PodSelector], pod: PodInfo) -> int:
    return sum(selector.matches(pod) for selector in selectors)


def preferences(pod: PodInfo, namespaces: Namespaces, nodes: Nodes, hard_weight: int) -> list[DomainCounts] | None:
    """Return the scores of domains by the preferred terms of a pod and of pods on nodes; None if no term matches a pod.

    `hard_weight`: the weight of required affinity terms of pods on nodes. Raises InvalidSelector.
    """
    terms = terms_of(pod)
    own = (
        (term.topology_key, nodes.table.group((namespaces.selector(term),)).counts, _weight(term, hard_weight))
        for term in (*terms.preferred, *terms.preferred_anti)
    )
    existing = (
        (column.term.topology_key, column.counts, _weight(column.term, hard_weight))
        for column in nodes.table.terms.matching(pod, namespaces.labels(pod.namespace))
        if column.term.kind is not TermKind.REQUIRED_ANTI and (hard_weight or column.term.kind is not TermKind.REQUIRED)
    )
    sums, some = sum_by_topology(chain(own, existing), nodes)
    return [counts for counts in sums.values() if counts.counts.any()] if some else None


def _weight(term: AffinityTerm, hard_weight: int) -> int:
    """Return what a matching pod adds to the score of its domain."""
    if term.kind is TermKind.REQUIRED:
        return hard_weight
    return term.weight if term.kind is TermKind.PREFERRED else -term.weight
