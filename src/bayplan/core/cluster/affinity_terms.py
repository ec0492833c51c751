"""Pod affinity terms: parsed once per pod, and counted by row for the pods that are on nodes.

Pods of one workload have the same terms, so a pending pod is matched against distinct terms instead of against all
pods. They are grouped as selectors are (`selector_groups.py`). Mirrors framework.AffinityTerm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from sys import intern

import msgspec
from lightkube.models import core_v1

from bayplan.core.api.labels import InvalidSelector, LabelSelector
from bayplan.core.api.objects import decode, encode
from bayplan.core.api.selectors import label_selector
from bayplan.core.api.sharing import shared_while_used
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import LabelsKey, labels_key
from bayplan.core.cluster.selector_index import SelectorIndex
from bayplan.core.cluster.tally import Tally, Usage
from bayplan.foundations.shrinking import shrink

_MEMO_CAPACITY = 1024


class TermKind(Enum):
    """The kinds of affinity term."""

    REQUIRED = "required"
    REQUIRED_ANTI = "required anti"
    PREFERRED = "preferred"
    PREFERRED_ANTI = "preferred anti"


class AffinityTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A parsed affinity term: namespaces, a label selector for pods, and a topology key.

    A namespace is included if it is in `namespaces`, or if its labels match `namespace_selector`. A selector of None
    matches nothing. `weight` is 0 for required terms.
    """

    kind: TermKind
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None
    topology_key: str
    weight: int = 0

    def matches(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term matches a pod. `namespace_labels`: the labels of the pod's namespace."""
        if self.selector is None or not self.selector.matches(pod.labels):
            return False
        if pod.namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)


class PodTerms(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """All affinity terms of a pod. The hash is kept, because the terms are part of signatures."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    preferred_anti: tuple[AffinityTerm, ...] = ()

    def __iter__(self) -> Iterator[AffinityTerm]:
        return iter((*self.required, *self.required_anti, *self.preferred, *self.preferred_anti))

    def __bool__(self) -> bool:
        return bool(self.required or self.required_anti or self.preferred or self.preferred_anti)


NO_TERMS = PodTerms()


def terms_of(pod: PodInfo) -> PodTerms:
    """Return the affinity terms of a pod, which pods with equal terms share. Raises InvalidSelector."""
    terms: PodTerms | None = pod.cache.get(PodTerms)
    if terms is None:
        affinity = pod.spec.affinity
        has_terms = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
        terms = pod.cache[PodTerms] = _parse(encode(affinity), pod.namespace) if has_terms else NO_TERMS
    return terms


def unparsed_terms(pod: PodInfo) -> int:
    """Return how many affinity terms of a pod `terms_of` would have to parse."""
    affinity = pod.spec.affinity if PodTerms not in pod.cache else None
    sides = (affinity.podAffinity, affinity.podAntiAffinity) if affinity is not None else ()
    return sum(
        len(each.requiredDuringSchedulingIgnoredDuringExecution or ())
        + len(each.preferredDuringSchedulingIgnoredDuringExecution or ())
        for each in sides
        if each is not None
    )


def bound_terms(pod: PodInfo) -> PodTerms:
    """Return the affinity terms of a pod that is on a node; NO_TERMS if one of them is invalid."""
    try:
        return terms_of(pod)
    except InvalidSelector:
        return NO_TERMS


@dataclass(slots=True, eq=False)
class TermColumn:
    """A distinct term. `counts`: how many pods of each row have it; `pods`: the sum over all rows."""

    term: AffinityTerm
    counts: Tally
    pods: int = 0


@dataclass(slots=True)
class ExistingTerms:
    """The distinct terms of the pods that are on nodes."""

    capacity: int
    _columns: dict[AffinityTerm, TermColumn] = field(default_factory=dict)
    _index: SelectorIndex[TermColumn] = field(default_factory=SelectorIndex)
    _usage: Usage = field(default_factory=Usage)
    _memo: dict[tuple[LabelsKey, tuple[tuple[str, str], ...]], tuple[TermColumn, ...]] = field(default_factory=dict)

    def account(self, row: int, pod: PodInfo, by: int) -> None:
        """Count a pod that was added to a row (`by` 1), or removed from it (-1). Invalid terms are ignored."""
        for term in bound_terms(pod):
            column = self._columns.get(term)
            if column is None:
                column = self._add(term)
            column.counts.add(row, by)
            column.pods += by
            if column.pods == 0:
                self._remove(column)

    def matching(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> tuple[TermColumn, ...]:
        """Return the terms that match a pod. `namespace_labels`: the labels of the pod's namespace."""
        if not self._columns:
            return ()
        key = (labels_key(pod), tuple(sorted(namespace_labels.items())))
        columns = self._memo.get(key)
        if columns is None:
            if len(self._memo) >= _MEMO_CAPACITY:
                self._memo.clear()
            columns = self._memo[key] = tuple(
                column
                for column in self._index.candidates(pod.namespace, pod.labels)
                if column.term.matches(pod, namespace_labels)
            )
        return columns

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.capacity = capacity
        for column in self._columns.values():
            column.counts.grow(capacity)

    def _add(self, term: AffinityTerm) -> TermColumn:
        column = self._columns[term] = TermColumn(term, Tally(self.capacity, self._usage))
        if term.selector is not None:
            self._index.add(column, _within(term), term.selector.requirements)
        self._memo.clear()
        return column

    def _remove(self, column: TermColumn) -> None:
        term = column.term
        del self._columns[term]
        shrink(self._columns)
        if term.selector is not None:
            self._index.remove(column, _within(term), term.selector.requirements)
        self._memo.clear()


def _within(term: AffinityTerm) -> frozenset[str] | None:
    """Return the namespaces in which a term may match pods; None for all."""
    return term.namespaces if term.namespace_selector is None else None


@shared_while_used
def _parse(affinity_json: bytes, namespace: str) -> PodTerms:
    """Parse the terms of a pod in a namespace. Takes JSON, because decoded affinities are not hashable."""
    affinity = decode(core_v1.Affinity, affinity_json)
    own = affinity.podAffinity or core_v1.PodAffinity()
    anti = affinity.podAntiAffinity or core_v1.PodAntiAffinity()
    here = frozenset({namespace})
    return PodTerms(
        _required(TermKind.REQUIRED, own.requiredDuringSchedulingIgnoredDuringExecution, here),
        _required(TermKind.REQUIRED_ANTI, anti.requiredDuringSchedulingIgnoredDuringExecution, here),
        _preferred(TermKind.PREFERRED, own.preferredDuringSchedulingIgnoredDuringExecution, here),
        _preferred(TermKind.PREFERRED_ANTI, anti.preferredDuringSchedulingIgnoredDuringExecution, here),
    )


def _required(
    kind: TermKind, terms: Iterable[core_v1.PodAffinityTerm] | None, here: frozenset[str]
) -> tuple[AffinityTerm, ...]:
    return tuple(_term(kind, term, here) for term in terms or ())


def _preferred(
    kind: TermKind, terms: Iterable[core_v1.WeightedPodAffinityTerm] | None, here: frozenset[str]
) -> tuple[AffinityTerm, ...]:
    return tuple(_term(kind, term.podAffinityTerm, here, term.weight) for term in terms or ())


def _term(kind: TermKind, term: core_v1.PodAffinityTerm, here: frozenset[str], weight: int = 0) -> AffinityTerm:
    """Parse one term. Without namespaces and a namespace selector, it applies to the pod's own namespace, `here`."""
    namespaces = frozenset(term.namespaces or ())
    if not namespaces and term.namespaceSelector is None:
        namespaces = here
    return AffinityTerm(
        kind,
        namespaces,
        label_selector(term.namespaceSelector),
        label_selector(term.labelSelector),
        intern(term.topologyKey),
        weight,
    )
