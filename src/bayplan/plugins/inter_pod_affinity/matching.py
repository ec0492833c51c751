"""What the affinity terms of a pod, and those of the pods that are there, mean for each domain.

Mirrors the counts of plugins/interpodaffinity/{filtering,scoring}.go, by domain instead of by (key, value) pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bayplan.api.kinds import NAMESPACE
from bayplan.cluster.affinity_terms import AffinityTerm, TermColumn, TermKind, bound_terms, terms_of
from bayplan.cluster.columns import Bool, Int32, Int64
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Count, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.selector_groups import GroupKey, PodSelector, matches_all, pod_counter
from bayplan.framework.handle import Handle

_REMEMBERED = 1024

UNWELCOME, TOO_NEAR, TOO_FAR = 1, 2, 3
"""What is wrong with a node, 0 for nothing; of several the highest number counts."""


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
        self._store = handle.objects(NAMESPACE)
        self._version = -1
        self._selectors: dict[AffinityTerm, PodSelector] = {}

    @property
    def version(self) -> int:
        """Grows whenever a namespace comes, goes or changes."""
        return self._store.version

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none of one that is not known."""
        namespace = self._store.get(name)
        return (namespace.metadata.labels if namespace is not None else None) or {}

    def selector(self, term: AffinityTerm) -> PodSelector:
        """The pods that a pending pod's own term means."""
        if self._version != self.version or len(self._selectors) >= _REMEMBERED:
            self._version = self.version
            self._selectors.clear()
        selector = self._selectors.get(term)
        if selector is None:
            selector = self._selectors[term] = self._resolve(term)
        return selector

    def _resolve(self, term: AffinityTerm) -> PodSelector:
        chosen = term.namespace_selector
        if chosen is None:
            return PodSelector(term.namespaces, term.selector)
        if not chosen.requirements:
            return PodSelector(None, term.selector)
        named = {
            namespace.metadata.name
            for namespace in self._store.values()
            if chosen.matches(namespace.metadata.labels or {})
        }
        return PodSelector(term.namespaces | named, term.selector)


def count_pods(key: GroupKey, topology_key: str, nodes: Nodes) -> DomainCounts:
    """The pods that all selectors of a key pick, by domain."""
    domains = Domains.of(topology_key, nodes)
    return DomainCounts(domains, domains.sum(nodes.table.group(key).counts))


def sum_existing(columns: Iterable[tuple[TermColumn, int]], nodes: Nodes) -> dict[str, DomainCounts]:
    """What terms of pods that are on nodes are worth, by topology key and domain: each column counts so much a pod."""
    found: dict[str, DomainCounts] = {}
    for column, worth in columns:
        domains = Domains.of(column.term.topology_key, nodes)
        counts = domains.sum(column.counts)
        if worth != 1:
            counts *= worth
        if domains.key in found:
            counts += found[domains.key].counts
        found[domains.key] = DomainCounts(domains, counts)
    return found


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
    count_near: Count
    counts_away: list[Count]
    """How many of some pods `near` counts, and each of `away`."""
    pod: PodInfo
    namespace_labels: Mapping[str, str]
    first: bool
    _against: dict[str, Count] = field(default_factory=dict)
    """By topology key, how many anti-affinity terms of some pods mean this one."""

    def verdicts(self, nodes: Nodes) -> Int32:
        """What is wrong with each node as it is. int32, one a node."""
        wrong: dict[str, Int32] = {}
        alone = self.first and not any(counts.counts.any() for counts in self.near)  # somebody has to be the first
        for counts in self.kept_away.values():
            _raise_to(wrong, counts, counts.counts > 0, UNWELCOME)
        for counts in self.away:
            _raise_to(wrong, counts, counts.counts > 0, TOO_NEAR)
        for counts in self.near:
            far = np.zeros_like(counts.counts, dtype=np.bool_) if alone else counts.counts == 0
            far[0] = True
            _raise_to(wrong, counts, far, TOO_FAR)
        found = [numbers[Domains.of(key, nodes).at(nodes)] for key, numbers in wrong.items()]
        verdicts: Int32 = found[0] if len(found) == 1 else np.maximum.reduce(found)
        return verdicts

    def verdicts_if(self, nodes: Nodes) -> Int32:
        """The same, each node under its what-if."""
        verdicts: Int32 = np.zeros(len(nodes), dtype=np.int32)
        for key in self.kept_away.keys() | self._brought_terms(nodes):
            here = Domains.of(key, nodes).at(nodes)
            pods = nodes.counted(self._counter_against(key))
            if key in self.kept_away:
                pods += self.kept_away[key].counts[here]
            verdicts[(pods > 0) & (here > 0)] = UNWELCOME
        for counts, count in zip(self.away, self.counts_away, strict=True):
            here = counts.domains.at(nodes)
            verdicts[(counts.counts[here] + nodes.counted(count) > 0) & (here > 0)] = TOO_NEAR
        if self.near:
            change = nodes.counted(self.count_near)
            domains = [counts.domains.at(nodes) for counts in self.near]
            anywhere = sum(
                counts.counts.sum() + change * (here > 0) for counts, here in zip(self.near, domains, strict=True)
            )
            for counts, here in zip(self.near, domains, strict=True):
                far = counts.counts[here] + change <= 0
                if self.first:
                    far &= anywhere != 0
                verdicts[far | (here == 0)] = TOO_FAR
        return verdicts

    def _counter_against(self, topology_key: str) -> Count:
        """The very same at every call, since what-ifs know it by its identity."""
        return self._against.setdefault(topology_key, partial(self._count_against, topology_key))

    def _count_against(self, topology_key: str, others: Iterable[PodInfo]) -> int:
        return sum(
            term.topology_key == topology_key and term.matches(self.pod, self.namespace_labels)
            for other in others
            for term in bound_terms(other).required_anti
        )

    def _brought_terms(self, nodes: Nodes) -> set[str]:
        """The topology keys of pods that are thought to be there; what others have, is in `kept_away`."""
        added = (pod for changes in nodes.changes.values() for pod in changes.added)
        return {term.topology_key for pod in added for term in bound_terms(pod).required_anti}


def _raise_to(wrong: dict[str, Int32], counts: DomainCounts, where: Bool, number: int) -> None:
    """Say of some domains of a topology key that at least so much is wrong with them."""
    numbers = where * np.int32(number)
    key = counts.domains.key
    wrong[key] = np.maximum(wrong[key], numbers) if key in wrong else numbers


def required(pod: PodInfo, namespaces: Namespaces, nodes: Nodes) -> Requirements | None:
    """What a pod's terms, and the anti-affinity of others, require; None for nothing. Raises InvalidSelector."""
    terms = terms_of(pod)
    namespace_labels = namespaces.labels(pod.namespace)
    existing = nodes.table.terms.matching(pod, namespace_labels)
    kept_away = sum_existing(((each, 1) for each in existing if each.term.kind is TermKind.REQUIRED_ANTI), nodes)
    kept_away = {key: counts for key, counts in kept_away.items() if counts.counts.any()}
    if not terms.required and not terms.required_anti and not kept_away:
        return None
    near = tuple(namespaces.selector(term) for term in terms.required)
    away = tuple(namespaces.selector(term) for term in terms.required_anti)
    return Requirements(
        [count_pods(near, term.topology_key, nodes) for term in terms.required],
        [
            count_pods((selector,), term.topology_key, nodes)
            for selector, term in zip(away, terms.required_anti, strict=True)
        ],
        kept_away,
        pod_counter(partial(matches_all, near)),
        [pod_counter(selector.matches) for selector in away],
        pod,
        namespace_labels,
        first=bool(near) and matches_all(near, pod),
    )


def preferences(pod: PodInfo, namespaces: Namespaces, nodes: Nodes, hard_weight: int) -> list[DomainCounts] | None:
    """What the preferred terms of a pod and of others make of each domain; None where none means anybody.

    `hard_weight`: what a pod is worth whose required affinity means this one. Raises InvalidSelector.
    """
    terms = terms_of(pod)
    own = []
    for term in (*terms.preferred, *terms.preferred_anti):
        pods = count_pods((namespaces.selector(term),), term.topology_key, nodes)
        own.append(DomainCounts(pods.domains, pods.counts * _worth(term, hard_weight)))
    existing = [
        (column, _worth(column.term, hard_weight))
        for column in nodes.table.terms.matching(pod, namespaces.labels(pod.namespace))
        if column.term.kind is not TermKind.REQUIRED_ANTI and (hard_weight or column.term.kind is not TermKind.REQUIRED)
    ]
    found = [each for each in (*own, *sum_existing(existing, nodes).values()) if each.counts.any()]
    if found or any(Domains.of(column.term.topology_key, nodes).sum(column.counts).any() for column, _ in existing):
        return found
    return None


def _worth(term: AffinityTerm, hard_weight: int) -> int:
    """What a pod that a term means adds to the score of its domain."""
    if term.kind is TermKind.REQUIRED:
        return hard_weight
    return term.weight if term.kind is TermKind.PREFERRED else -term.weight
