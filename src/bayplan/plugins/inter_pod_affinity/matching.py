"""What the affinity terms of a pod, and those of the pods that are there, mean for each domain.

Mirrors the counts of plugins/interpodaffinity/{filtering,scoring}.go, by domain instead of by (key, value) pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bayplan.api.kinds import NAMESPACE
from bayplan.cluster.affinity_terms import AffinityTerm, TermColumn, TermKind, terms_of
from bayplan.cluster.columns import Bool, Int32, Int64
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.selector_groups import GroupKey, PodSelector
from bayplan.framework.interface import Handle

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
        self._handle = handle
        self._version = -1
        self._selectors: dict[AffinityTerm, PodSelector] = {}

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
            for namespace in self._handle.objects(NAMESPACE).values()
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
        counts = domains.sum(column.counts) * worth
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
    near_selectors: GroupKey
    away_selectors: GroupKey
    namespace_labels: Mapping[str, str]
    first: bool
    _concerned: dict[str, bool] = field(default_factory=dict)
    """By pod uid, whether it matters where the pod is: preemption asks for each again and again."""

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
        verdicts: Int32 = np.zeros(len(nodes), dtype=np.int32)
        for key, numbers in wrong.items():
            np.maximum(verdicts, numbers[Domains.of(key, nodes).at(nodes)], out=verdicts)
        return verdicts

    def verdicts_if(self, pod: PodInfo, nodes: Nodes) -> Int32:
        """The same, each node under its what-if."""
        found = self._at(pod, nodes)
        verdicts: Int32 = np.zeros(len(nodes), dtype=np.int32)
        for pods in found.kept_away.values():
            verdicts[pods > 0] = UNWELCOME
        for pods in found.away:
            verdicts[pods > 0] = TOO_NEAR
        for counts, pods in zip(self.near, found.near, strict=True):
            far = (pods == 0) & (found.anywhere > 0) if self.first else pods == 0
            verdicts[far | (counts.domains.at(nodes) == 0)] = TOO_FAR
        return verdicts

    def _at(self, pod: PodInfo, nodes: Nodes) -> RequirementsAt:
        found = RequirementsAt(
            [counts.at(nodes) for counts in self.near],
            [counts.at(nodes) for counts in self.away],
            {key: counts.at(nodes) for key, counts in self.kept_away.items()},
            np.full(len(nodes), sum(int(counts.counts.sum()) for counts in self.near)),
        )
        for position, changes in nodes.changes.items():
            for other, sign in changes.signed():
                if self._concerns(other, pod):
                    self._count(found, pod, other, sign, nodes, position)
        return found

    def _concerns(self, other: PodInfo, pod: PodInfo) -> bool:
        concerned = self._concerned.get(other.uid)
        if concerned is None:
            concerned = self._concerned[other.uid] = (
                (bool(self.near_selectors) and all(selector.matches(other) for selector in self.near_selectors))
                or any(selector.matches(other) for selector in self.away_selectors)
                or any(term.matches(pod, self.namespace_labels) for term in terms_of(other).required_anti)
            )
        return concerned

    def _count(
        self, found: RequirementsAt, pod: PodInfo, other: PodInfo, sign: int, nodes: Nodes, position: int
    ) -> None:
        """Let another pod come to a node (+1) or go from it (-1)."""
        row = nodes.row(position)
        if self.near_selectors and all(selector.matches(other) for selector in self.near_selectors):
            for numbers, counts in zip(found.near, self.near, strict=True):
                if counts.domains.codes[row]:
                    numbers[position] += sign
                    found.anywhere[position] += sign
        for numbers, counts, selector in zip(found.away, self.away, self.away_selectors, strict=True):
            if counts.domains.codes[row] and selector.matches(other):
                numbers[position] += sign
        for term in terms_of(other).required_anti:
            key = term.topology_key
            if term.matches(pod, self.namespace_labels) and nodes.table.labels(key).codes[row]:
                found.kept_away.setdefault(key, np.zeros(len(nodes), dtype=np.int64))[position] += sign


@dataclass(slots=True)
class RequirementsAt:
    """Requirements for each of some nodes. All int64, one a node: pods in its domain.

    `anywhere`: pods in any domain that meet the affinity terms.
    """

    near: list[Int64]
    away: list[Int64]
    kept_away: dict[str, Int64]
    anywhere: Int64


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
