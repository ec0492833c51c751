"""Evaluates the affinity terms of a pending pod, and of the pods on nodes, by topology domain.

Mirrors the counts of plugins/interpodaffinity/{filtering,scoring}.go, by domain instead of by (key, value) pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from bayplan.core.api.kinds import NAMESPACE
from bayplan.core.cluster.affinity_terms import AffinityTerm, TermColumn, TermKind, bound_terms, terms_of
from bayplan.core.cluster.columns import Bool, Int32, Int64
from bayplan.core.cluster.domains import Domains
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import Amounts, Removals
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import GroupKey, PodSelector, by_labels, matches_all
from bayplan.core.cluster.tally import Tally
from bayplan.core.framework.giving_way import ManySteps
from bayplan.core.framework.handle import Handle

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
        """Mirrors mergeAffinityTermNamespacesIfNotEmpty and how its terms are matched.

        Upstream keeps the namespace selector beside the namespaces that it selects, and compares it with no labels. So
        a selector without requirements, and one that no labels satisfy, as with NotIn, match pods of every namespace.
        """
        namespace_selector = term.namespace_selector
        if namespace_selector is None:
            return PodSelector(term.namespaces, term.selector)
        if namespace_selector.matches({}):
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


Weighted = tuple[str, Tally, int]
"""A topology key, a tally and its weight."""


def sum_by_topology(tallies: Iterable[Weighted], nodes: Nodes) -> dict[str, DomainCounts]:
    """Sum tallies by topology key and domain."""
    by_row: dict[str, dict[int, int]] = {}
    sums: dict[str, DomainCounts] = {}
    for key, tally, weight in tallies:
        few, domains = tally.few, sums[key].domains if key in sums else Domains.of(key, nodes)
        if few is not None and len(few) < domains.count:
            numbers = by_row.setdefault(key, {})
            for row, number in few.items():
                numbers[row] = numbers.get(row, 0) + weight * number
            continue
        counts = domains.sum(tally)
        if weight != 1:
            counts *= weight
        if key in sums:
            counts += sums[key].counts
        sums[key] = DomainCounts(domains, counts)
    for key, numbers in by_row.items():
        domains = sums[key].domains if key in sums else Domains.of(key, nodes)
        counts = domains.sum_rows(numbers)
        if key in sums:
            counts += sums[key].counts
        sums[key] = DomainCounts(domains, counts)
    return sums


class Counted(NamedTuple):
    """The pods and terms that match required terms, by topology key and domain.

    A pod may have hundreds of terms, but few topology keys of nodes. A node that violates one of several terms with the
    same key violates their sum, so that all numbers are kept by topology key.

    `affinity`: for the affinity terms of a pod, the pods that match all of these. `anti_affinity`: for its
    anti-affinity terms, the sum of the pods that match each of them. `existing`: the anti-affinity terms of pods on
    nodes that match the pod.
    """

    affinity: dict[str, DomainCounts]
    anti_affinity: dict[str, DomainCounts]
    existing: dict[str, DomainCounts]


Rules = list[tuple[Domains, Int32]]
"""By topology key: its domains, and the rule that the nodes of each violate: int32, shape (domains.count,)."""


class Requirements:
    """The required terms that apply to a pod: its own, and those of pods on nodes.

    Pods with the same namespace, labels and terms can share it while no namespace changes, because everything that
    depends on pods on nodes is looked up when it is asked for. Raises InvalidSelector.

    Attributes:
        affinity: the selectors of the pod's affinity terms; a pod has to match all of them.
        matches_itself: whether the pod matches these, so that it fits a node without any matching pod.
    """

    def __init__(self, pod: PodInfo, namespaces: Namespaces, steps: ManySteps) -> None:
        terms = terms_of(pod)
        steps.begin(len(terms.required) + len(terms.required_anti))
        self._steps = steps
        self.affinity: GroupKey = tuple([namespaces.selector(term) for term in terms.required])
        self.matches_itself = bool(self.affinity) and matches_all(self.affinity, pod)
        self._pod = pod
        self._namespace_labels = namespaces.labels(pod.namespace)
        self._affinity_keys = tuple(dict.fromkeys([term.topology_key for term in terms.required]))
        anti_affinity = dict.fromkeys([(each.topology_key, namespaces.selector(each)) for each in terms.required_anti])
        self._anti_affinity: Sequence[tuple[str, GroupKey]] = [(key, (selector,)) for key, selector in anti_affinity]
        self._counted: tuple[NodeTable, int, Counted] | None = None
        """For a version of a table."""
        self._violated: tuple[Counted, Rules] | None = None
        """For what is counted."""
        self._count_affinity = by_labels(partial(matches_all, self.affinity))
        by_key: dict[str, list[PodSelector]] = {}
        for key, selector in anti_affinity:
            by_key.setdefault(key, []).append(selector)
        self._counts_anti_affinity = {
            key: by_labels(partial(_number_of_matches, selectors)) for key, selectors in by_key.items()
        }
        self._existing_counts: dict[str, Amounts] = {}
        """By topology key: counts the anti-affinity terms of pods that match this pod."""

    def apply(self, nodes: Nodes) -> bool:
        """Return whether there are required terms, or anti-affinity terms of pods on nodes that match the pod."""
        if self.affinity or self._anti_affinity:
            return True
        return any(self._apart(nodes.table)) and bool(self.counted(nodes).existing)

    def by_node(self, nodes: Nodes) -> bool:
        """Return whether each node's verdict depends on no other node: no domain of the terms has two nodes."""
        table = nodes.table
        keys = {key for key, _ in self._anti_affinity} | {column.term.topology_key for column in self._existing(table)}
        return not self.affinity and all(table.labels(key).distinct for key in keys)

    def verdict(self, nodes: Nodes) -> int:
        """Return the rule that the only one of `nodes` violates, without a what-if."""
        table, row = nodes.table, nodes.row(0)
        if self.by_node(nodes):
            found = [rule for rule, key, tally in self._apart(table) if tally.at(row) and table.labels(key).codes[row]]
        else:
            found = [rules.item(domains.codes.item(row)) for domains, rules in self._violations(nodes)]
        return max(found, default=0)

    def _apart(self, table: NodeTable) -> Iterator[tuple[int, str, Tally]]:
        """Yield each anti-affinity term that applies: the rule, the topology key, and what must not be there."""
        for column in self._existing(table):
            yield EXISTING_ANTI_AFFINITY, column.term.topology_key, column.counts
        for done, (key, group) in enumerate(self._anti_affinity, 1):
            yield ANTI_AFFINITY, key, table.group(group).counts
            self._steps.check(self._pod.uid, done)

    def _existing(self, table: NodeTable) -> Iterator[TermColumn]:
        """Yield the anti-affinity terms of pods on nodes that match the pod."""
        for column in table.terms.matching(self._pod, self._namespace_labels):
            if column.term.kind is TermKind.REQUIRED_ANTI:
                yield column

    def counted(self, nodes: Nodes) -> Counted:
        """Return what matches at present."""
        table = nodes.table
        if self._counted is None or self._counted[0] is not table or self._counted[1] != table.version:
            tallies: dict[int, list[tuple[str, Tally, int]]] = {EXISTING_ANTI_AFFINITY: [], ANTI_AFFINITY: []}
            for rule, key, tally in self._apart(table):
                tallies[rule].append((key, tally, 1))
            existing = sum_by_topology(tallies[EXISTING_ANTI_AFFINITY], nodes)
            counted = Counted(
                {key: count_pods(self.affinity, key, nodes) for key in self._affinity_keys},
                sum_by_topology(tallies[ANTI_AFFINITY], nodes),
                {key: counts for key, counts in existing.items() if np.count_nonzero(counts.counts)},
            )
            self._counted = table, table.version, counted
        return self._counted[2]

    def verdicts(self, nodes: Nodes) -> Int32 | None:
        """Return the rule that each node violates, without what-ifs: int32, shape (len(nodes),); None if none does."""
        found = [rules.take(domains.at(nodes)) for domains, rules in self._violations(nodes)]
        if len(found) <= 1:
            return found[0] if found else None
        verdicts: Int32 = np.maximum.reduce(found)
        return verdicts

    def _violations(self, nodes: Nodes) -> Rules:
        """Return the rules that are violated somewhere at present."""
        counted = self.counted(nodes)
        if self._violated is None or self._violated[0] is not counted:
            self._violated = counted, self._find_violations(counted)
        return self._violated[1]

    def _find_violations(self, counted: Counted) -> Rules:
        violated: dict[str, tuple[Domains, Int32]] = {}
        for counts in counted.existing.values():
            _raise_to(violated, counts, counts.counts > 0, EXISTING_ANTI_AFFINITY)
        for counts in counted.anti_affinity.values():
            _raise_to(violated, counts, counts.counts > 0, ANTI_AFFINITY)
        matched = [np.count_nonzero(counts.counts) for counts in counted.affinity.values()]
        first = self.matches_itself and not any(matched)
        for counts, number in zip(counted.affinity.values(), matched, strict=True):
            if counts.domains.everywhere and (first or number == counts.domains.count - 1):
                continue  # no node violates it
            unmatched = np.zeros_like(counts.counts, dtype=np.bool_) if first else counts.counts == 0
            unmatched[0] = not counts.domains.everywhere
            _raise_to(violated, counts, unmatched, AFFINITY)
        return [each for each in violated.values() if np.count_nonzero(each[1])]

    def verdicts_if(self, nodes: Nodes) -> Int32:
        """Return the rule that each node violates with its what-if: int32, shape (len(nodes),)."""
        verdicts: Int32 = np.zeros(len(nodes), dtype=np.int32)
        counted = self.counted(nodes)
        for key in counted.existing.keys() | self._added_keys(nodes):
            here = Domains.of(key, nodes).at(nodes)
            terms = nodes.counted(self._count_existing(key))
            if key in counted.existing:
                terms = terms + counted.existing[key].counts[here]
            verdicts[(terms > 0) & (here > 0)] = EXISTING_ANTI_AFFINITY
        for key, counts in counted.anti_affinity.items():
            here = counts.domains.at(nodes)
            difference = nodes.counted(self._counts_anti_affinity[key])
            verdicts[(counts.counts[here] + difference > 0) & (here > 0)] = ANTI_AFFINITY
        if self.affinity:
            difference = nodes.counted(self._count_affinity)
            domains = [(counts, counts.domains.at(nodes)) for counts in counted.affinity.values()]
            anywhere = sum(counts.counts.sum() + difference * (here > 0) for counts, here in domains)
            for counts, here in domains:
                unmatched = counts.counts[here] + difference <= 0
                if self.matches_itself:
                    unmatched &= anywhere != 0
                verdicts[unmatched | (here == 0)] = AFFINITY
        return verdicts

    def _count_existing(self, topology_key: str) -> Amounts:
        """Return the same function at every call, because what-ifs cache amounts by the function's identity."""
        return self._existing_counts.setdefault(topology_key, partial(self._count_terms, topology_key))

    def _count_terms(self, topology_key: str, others: Iterable[PodInfo]) -> list[int]:
        return [
            sum(
                term.topology_key == topology_key and term.matches(self._pod, self._namespace_labels)
                for term in bound_terms(other).required_anti
            )
            for other in others
        ]

    def _added_keys(self, nodes: Nodes) -> set[str]:
        """Return the topology keys of the anti-affinity terms of hypothetical pods."""
        if isinstance(nodes.changes, Removals):  # dry runs of preemption add no pods
            return set()
        added = (pod for changes in nodes.changes.values() for pod in changes.added)
        return {term.topology_key for pod in added for term in bound_terms(pod).required_anti}


def _raise_to(violated: dict[str, tuple[Domains, Int32]], counts: DomainCounts, where: Bool, rule: int) -> None:
    """Raise the violated rules of some domains of a topology key to at least `rule`."""
    rules = where * np.int32(rule)
    key = counts.domains.key
    violated[key] = counts.domains, np.maximum(violated[key][1], rules) if key in violated else rules


def _number_of_matches(selectors: Iterable[PodSelector], pod: PodInfo) -> int:
    return sum(selector.matches(pod) for selector in selectors)


def preferences(
    pod: PodInfo, namespaces: Namespaces, nodes: Nodes, hard_weight: int, steps: ManySteps
) -> list[DomainCounts] | None:
    """Return the scores of domains by the preferred terms of a pod and of pods on nodes; None if no term matches a pod.

    `hard_weight`: the weight of required affinity terms of pods on nodes. Raises InvalidSelector and GiveWay.
    """
    terms = terms_of(pod)
    steps.begin(len(terms.preferred) + len(terms.preferred_anti))
    own: list[Weighted] = []
    for term in (*terms.preferred, *terms.preferred_anti):
        counts = nodes.table.group((namespaces.selector(term),)).counts
        own.append((term.topology_key, counts, _weight(term, hard_weight)))
        steps.check(pod.uid, len(own))
    existing = (
        (column.term.topology_key, column.counts, _weight(column.term, hard_weight))
        for column in nodes.table.terms.matching(pod, namespaces.labels(pod.namespace))
        if column.term.kind is not TermKind.REQUIRED_ANTI and (hard_weight or column.term.kind is not TermKind.REQUIRED)
    )
    tallies = [*own, *existing]
    found = [counts for counts in sum_by_topology(tallies, nodes).values() if np.count_nonzero(counts.counts)]
    return found if found or any(_occurs(key, tally, nodes) for key, tally, _ in tallies) else None


def _occurs(topology_key: str, tally: Tally, nodes: Nodes) -> bool:
    """Return whether a domain has a pod of the tally; weighted sums may be 0 nevertheless."""
    return bool(np.count_nonzero(Domains.of(topology_key, nodes).sum(tally)))


def _weight(term: AffinityTerm, hard_weight: int) -> int:
    """Return what a matching pod adds to the score of its domain."""
    if term.kind is TermKind.REQUIRED:
        return hard_weight
    return term.weight if term.kind is TermKind.PREFERRED else -term.weight
