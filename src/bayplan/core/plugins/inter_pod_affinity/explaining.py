"""Which pods a rule of affinity or anti-affinity is about, in which domain, and what would satisfy the rule.

It counts pods as Filter does, but names them, which takes longer; it affects no decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayplan.core.cluster.affinity_terms import AffinityTerm, bound_terms
from bayplan.core.cluster.domains import Domains
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Details, Remedy, add_labels, delete_pods
from bayplan.core.plugins.inter_pod_affinity.matching import AFFINITY, ANTI_AFFINITY, Namespaces

_MOST_DELETED = 20
"""Remedies that delete more pods than that are not considered."""
_SHOWN = 3
"""The most pods to name."""
_FIELDS = {AFFINITY: "podAffinity", ANTI_AFFINITY: "podAntiAffinity"}
_TEXTS = {AFFINITY: "pod affinity", ANTI_AFFINITY: "pod anti-affinity"}


Where = tuple[tuple[AffinityTerm, str], ...]
"""Terms, each with a domain."""


class Matches:
    """The pods on nodes that a pod's required terms match, or whose required anti-affinity matches the pod.

    Both by term and domain; the domain is "" for nodes without the topology key. Made once for all nodes.
    """

    def __init__(self, pod: PodInfo, nodes: Nodes, namespaces: Namespaces) -> None:
        terms = bound_terms(pod)
        self.own: dict[AffinityTerm, dict[str, list[PodInfo]]] = {
            term: {} for term in (*terms.required, *terms.required_anti)
        }
        self.theirs: dict[AffinityTerm, dict[str, list[PodInfo]]] = {}
        self.conflicts: dict[Where, Conflict] = {}
        """What has been found so far, by terms with their domains: all nodes of a zone may have the same."""
        self._names: dict[AffinityTerm, tuple[str, int]] = {}
        labels_of_namespace = namespaces.labels(pod.namespace)
        for position in np.flatnonzero(nodes.live).tolist():
            labels = nodes.info(position).labels
            for other in nodes.pods(position):
                for term, by_domain in self.own.items():
                    if term.matches(other, namespaces.labels(other.namespace)):
                        by_domain.setdefault(labels.get(term.topology_key, ""), []).append(other)
                for term in bound_terms(other).required_anti:
                    if term.topology_key in labels and term.matches(pod, labels_of_namespace):
                        found = self.theirs.setdefault(term, {})
                        found.setdefault(labels[term.topology_key], []).append(other)

    def peers(self, term: AffinityTerm) -> tuple[str, int]:
        """The pods that a term of the pod matches, by name, and how many they are."""
        if term not in self._names:
            peers = _distinct(other for others in self.own[term].values() for other in others)
            self._names[term] = _named(peers), len(peers)
        return self._names[term]


@dataclass(frozen=True, slots=True)
class Conflict:
    """The pods that anti-affinity keeps a pod from in some domains, and both as text."""

    others: Sequence[PodInfo]
    text: str

    @classmethod
    def of(cls, by_term: Mapping[AffinityTerm, Mapping[str, Sequence[PodInfo]]], where: Where) -> Conflict:
        """Return the conflict of terms in their domains."""
        others = _distinct(other for term, domain in where for other in by_term[term][domain])
        domains = ", ".join(dict.fromkeys(f"{term.topology_key}={domain}" for term, domain in where))
        return cls(others, f"{_named(others)} in {domains}" if others else "")


def explain(pod: PodInfo, node: NodeInfo, rule: int, matches: Matches) -> Details:
    """Explain the rule that a node breaks: AFFINITY, ANTI_AFFINITY or EXISTING_ANTI_AFFINITY."""
    terms = bound_terms(pod)
    if rule == AFFINITY:
        missed = [term for term in terms.required if not _in_domain(matches.own[term], term, node)]
        text = "; ".join(_missed(term, matches, node) for term in missed)
        return Details(text, _instead(node, {term: matches.own[term] for term in missed}), (rule, tuple(missed)))
    found = {term: matches.own[term] for term in terms.required_anti} if rule == ANTI_AFFINITY else matches.theirs
    where = tuple(
        (term, node.labels[term.topology_key]) for term, by_domain in found.items() if _in_domain(by_domain, term, node)
    )
    if where not in matches.conflicts:
        matches.conflicts[where] = Conflict.of(found, where)
    conflict = matches.conflicts[where]
    whose = "the pod's anti-affinity" if rule == ANTI_AFFINITY else "the anti-affinity of pods there"
    text = f"{whose} keeps it from {conflict.text}" if conflict.others else ""
    everywhere = _taken(pod, node, [term for term, _ in where], matches) if rule == ANTI_AFFINITY else ""
    return Details(text, _apart(pod, conflict.others, rule), everywhere=everywhere)


def _taken(pod: PodInfo, node: NodeInfo, terms: Sequence[AffinityTerm], matches: Matches) -> str:
    """Say that each domain of one of the pod's own terms has a pod already; "" if one has none."""
    nodes = node.among
    for term in terms:
        key, by_domain = term.topology_key, matches.own[term]
        domains = np.unique(Domains.of(key, nodes).at(nodes)[nodes.live])
        number = int(np.count_nonzero(domains))
        if number and number == sum(map(bool, by_domain.values())):
            names = ", ".join([*list(by_domain)[:_SHOWN], *(["..."] if number > _SHOWN else [])])
            like = next(iter(by_domain.values()))[0].key
            have = f"all {number:,} of them ({names}) have" if number > 1 else f"the only one ({names}) has"
            return f"the pod's anti-affinity keeps it from each {key} with a pod like {like}, and {have} one"
    return ""


def _in_domain(by_domain: Mapping[str, Sequence[PodInfo]], term: AffinityTerm, node: NodeInfo) -> Sequence[PodInfo]:
    domain = node.labels.get(term.topology_key)
    return () if domain is None else by_domain.get(domain, ())


def _apart(pod: PodInfo, others: Sequence[PodInfo], rule: int) -> Iterator[Remedy]:
    """Delete the pods that anti-affinity keeps the pod apart from, or make its own terms preferences."""
    if len(others) <= _MOST_DELETED:
        yield from delete_pods(pod, others)
    if rule == ANTI_AFFINITY:
        yield _preferred(rule)


def _instead(node: NodeInfo, missed: Mapping[AffinityTerm, Mapping[str, Sequence[PodInfo]]]) -> Iterator[Remedy]:
    """A new node in a domain of the pods that are missed, or preferences instead of requirements."""
    labels = {term.topology_key: next(filter(None, by_domain), "") for term, by_domain in missed.items()}
    if all(labels.values()):
        yield replace(add_labels(node, labels), node=None)
    yield _preferred(AFFINITY)


def _missed(term: AffinityTerm, matches: Matches, node: NodeInfo) -> str:
    """Which pods a term misses in the node's domain, and where they are."""
    by_domain = matches.own[term]
    key = term.topology_key
    domain = node.labels.get(key)
    here = f"{key}={domain}" if domain is not None else f"a node without the label {key}"
    selector = ", ".join(map(str, term.selector.requirements)) if term.selector is not None else ""
    text = f"the pod's affinity misses a pod{f' with {selector}' if selector else ''} in {here}"
    if not by_domain:
        where = ", ".join(sorted(term.namespaces)) or "the selected namespaces"
        return f"{text}; no pod of {where} matches"
    names, number = matches.peers(term)
    domains = [f"{key}={value}" if value else "nodes without the label" for value in by_domain]
    more = f" and {len(domains) - _SHOWN} more" if len(domains) > _SHOWN else ""
    verb = "is" if number == 1 else "are"
    return f"{text}; {names} {verb} in {', '.join(domains[:_SHOWN])}{more}"


def _distinct(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return list({pod.key: pod for pod in pods}.values())


def _named(pods: Sequence[PodInfo]) -> str:
    names = ", ".join(pod.key for pod in pods[:_SHOWN])
    return f"{names} and {len(pods) - _SHOWN} more pods" if len(pods) > _SHOWN else names


def _preferred(rule: int) -> Remedy:
    """The remedy that turns the pod's required terms into preferred ones."""

    def edit(document: dict[str, Any]) -> None:
        required, preferred = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))
        spec, name = document["spec"], _FIELDS[rule]
        rules = dict(spec["affinity"][name])
        terms = [{"weight": 100, "podAffinityTerm": term} for term in rules.pop(required, None) or ()]
        spec["affinity"] = {**spec["affinity"], name: {**rules, preferred: [*(rules.get(preferred) or ()), *terms]}}

    return Remedy(f"make the required {_TEXTS[rule]} of the pod preferred", pod=edit)
