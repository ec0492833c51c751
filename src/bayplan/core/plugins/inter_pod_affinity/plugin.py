"""InterPodAffinity: filters and scores nodes by the affinity and anti-affinity between pods.

Mirrors plugins/interpodaffinity/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.core.api.labels import InvalidSelector
from bayplan.core.api.objects import encode
from bayplan.core.cluster.affinity_terms import AffinityTerm, TermColumn, TermKind, terms_of, unparsed_terms
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import labels_key
from bayplan.core.cluster.selector_index import anchors_in, narrowest_anchors
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.giving_way import ManySteps
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.hints import labels_of, requeue_if_invalid
from bayplan.core.framework.interface import MAX_NODE_SCORE, CycleState, OnlyNow
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.arguments import InterPodAffinityArgs
from bayplan.core.plugins.inter_pod_affinity.explaining import Matches, explain
from bayplan.core.plugins.inter_pod_affinity.matching import DomainCounts, Namespaces, Requirements, preferences
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.foundations.latest import LruDict

STATUSES = (
    Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
    Status.unschedulable("node(s) didn't match pod anti-affinity rules"),
    Status.unresolvable("node(s) didn't match pod affinity rules"),
)
"""In the order of the rules of `matching`."""

_KINDS = 2
"""Kinds of pods whose requirements are kept, and whose results are shared. With more kinds in turn, more rows change
between two pods of a kind than a template updates at little cost."""

_DEFAULT_ARGUMENTS = InterPodAffinityArgs()


class InterPodAffinity(OnlyPlaces):
    """Evaluates the terms of the pending pod, and of the pods on nodes."""

    name = "InterPodAffinity"
    arguments = InterPodAffinityArgs

    def __init__(
        self, handle: Handle, args: InterPodAffinityArgs = _DEFAULT_ARGUMENTS, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self._namespaces = Namespaces(handle)
        self._steps = ManySteps(partial(handle.give_way, long=True))
        self._hard_weight = args.hardPodAffinityWeight
        self._ignore_existing = args.ignorePreferredTermsOfExistingPods
        self._requirements: LruDict[Hashable, Requirements] = LruDict(_KINDS)
        """By what pods share them by: those of the latest kinds of pods, while no namespace changes."""
        self._version = -1
        """Of the namespaces."""
        self._any_term_keeps_apart = gates.enabled("HintOfAnyAntiAffinityTerm")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count the pods and terms that match, by domain."""
        try:
            requirements = self._known(pod) or self._learn(pod)
        except InvalidSelector as error:
            return Status.unresolvable(f"parsing pod: {error}")
        if not requirements.apply(nodes):
            return SKIP
        cycle.data[self.name] = requirements
        return None

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject a node as `filter_nodes` does."""
        requirements: Requirements = cycle.data[self.name]
        nodes = node.alone
        if not nodes.changes:
            rule = requirements.verdict(nodes)
        else:
            rejections = self.filter_nodes(cycle, pod, nodes)
            rule = 0 if rejections is None else rejections.index.item(0)
        return STATUSES[rule - 1] if rule else None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes by the pod's affinity first, then by its anti-affinity, then by that of pods on nodes."""
        requirements: Requirements = cycle.data[self.name]
        index = requirements.verdicts_if(nodes) if nodes.changes else requirements.verdicts(nodes)
        return Rejections(index, STATUSES) if index is not None and np.count_nonzero(index) else None

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Sum the weights of preferred terms by domain."""
        terms = terms_of(pod)
        own = bool(terms.preferred or terms.preferred_anti)
        if self._ignore_existing and not own:
            return SKIP
        found = preferences(pod, self._namespaces, nodes, self._hard_weight, self._steps)
        if found is None:
            return SKIP
        cycle.data[self.name, "score"] = found
        return None

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Sum the scores of the node's domains. The sum may be negative."""
        found: list[DomainCounts] = cycle.data[self.name, "score"]
        total: Int64 = found[0].at(nodes) if found else np.zeros(len(nodes), dtype=np.int64)
        for counts in found[1:]:
            total += counts.at(nodes)
        return total

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """Scale linearly, so that the lowest score becomes 0 and the highest 100. If all are equal, they become 0."""
        least, most = scores.item(scores.argmin()), scores.item(scores.argmax())
        if most == least:
            return np.zeros(len(scores), dtype=np.int64)
        scaled = (scores - least).astype(np.float64)
        scaled /= float(most - least)
        scaled *= float(MAX_NODE_SCORE)
        return scaled.astype(np.int64)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The pods that conflict, or are missed, in the node's domain."""
        rejections = self.filter_nodes(cycle, pod, node.alone) if node is not None else None
        if node is None or rejections is None:
            return None
        matches: Matches | None = cycle.data.get((self.name, "matches"))
        if matches is None:
            matches = cycle.data[self.name, "matches"] = Matches(pod, node.among, self._namespaces)
        return explain(pod, node, rejections.index.item(0), matches)

    def events(self) -> Iterable[EventHint]:
        """Register changes of pods, and of the labels of nodes."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        hint, topics = after_pod_change_in_1_36, _topics_in_1_36
        if self._any_term_keeps_apart:
            hint, topics = after_pod_change, _topics_of_pod
        yield EventHint(ClusterEvent(POD, pods), hint, Topics(topics, _topics_of_change))
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), after_node_change)

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's terms. Parsing many of them takes long, so that other pods may have their turn first."""
        self._steps.begin(unparsed_terms(pod))
        try:
            return terms_of(pod) or ()
        except InvalidSelector:
            return encode(pod.spec.affinity)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Nothing, for pods that no term applies to; labels and namespaces, for those with anti-affinity between nodes.

        The results of others depend on all nodes, so they are not shared. Nor are those of pods of a kind that didn't
        occur lately: for pods of many kinds in turn, it is better to share the results of the other plugins.
        """
        try:
            terms = terms_of(pod)
        except InvalidSelector:  # PreFilter rejects the pod
            return OnlyNow(labels_key(pod))
        if not terms:
            return OnlyNow(labels_key(pod)) if self._matching(pod, nodes) else ()
        if not (terms.required or terms.preferred or terms.preferred_anti):
            requirements = self._known(pod)
            others = self._matching(pod, nodes)
            only_apart = all(each.term.kind is TermKind.REQUIRED_ANTI for each in others)
            if requirements is not None and only_apart and requirements.by_node(nodes):
                return labels_key(pod), self._namespaces.version
        return OnlyNow(labels_key(pod))

    def _matching(self, pod: PodInfo, nodes: Nodes) -> tuple[TermColumn, ...]:
        return nodes.table.terms.matching(pod, self._namespaces.labels(pod.namespace))

    def _known(self, pod: PodInfo) -> Requirements | None:
        if self._version != self._namespaces.version:
            self._version = self._namespaces.version
            self._requirements.clear()
        return self._requirements.use((labels_key(pod), terms_of(pod)))

    def _learn(self, pod: PodInfo) -> Requirements:
        requirements = self._requirements[labels_key(pod), terms_of(pod)] = Requirements(
            pod, self._namespaces, self._steps
        )
        return requirements


@requeue_if_invalid
def after_pod_change(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    """Requeue for a pod that now matches the affinity terms, or that no anti-affinity term keeps apart any more."""
    return _after_pod_change(pod, old, new, _match_any)


@requeue_if_invalid
def after_pod_change_in_1_36(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    """The same, but a pod counts as kept apart only if all anti-affinity terms match it."""
    return _after_pod_change(pod, old, new, _match_all)


def _after_pod_change(pod: PodInfo, old: PodInfo | None, new: PodInfo | None, apart: _Match) -> Hint:
    if old is not None and new is not None and new.uid == pod.uid:
        return Hint.QUEUE
    if any(other is not None and not (other.node_name or other.nominated_node_name) for other in (old, new)):
        return Hint.SKIP
    terms = terms_of(pod)
    if old is not None and new is not None:
        helps = (not _match_all(terms.required, old) and _match_all(terms.required, new)) or (
            apart(terms.required_anti, old) and not apart(terms.required_anti, new)
        )
    elif new is not None:
        helps = _match_all(terms.required, new)
    else:
        assert old is not None
        helps = apart(terms.required_anti, old) or apart(terms_of(old).required_anti, pod)
    return Hint.QUEUE if helps else Hint.SKIP


@requeue_if_invalid
def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Requeue for a node that joins a domain of the pod's affinity, or that leaves one of its anti-affinity."""
    terms = terms_of(pod)
    was, now = labels_of(old), labels_of(new)
    for term in terms.required:
        key = term.topology_key
        if key in now and (old is None or was.get(key) != now[key]):
            return Hint.QUEUE
    for term in terms.required_anti:
        key = term.topology_key
        if old is None or (key in was and was[key] != now.get(key)):
            return Hint.QUEUE
    return Hint.SKIP


_Match = Callable[[tuple[AffinityTerm, ...], PodInfo], bool]

_INVALID = "invalid"
"""The topic of pods with invalid terms, which every change requeues."""


def _topics_of_pod(pod: PodInfo) -> Collection[Hashable]:
    """Return what a pod waits for: a change of itself, and of pods that may match its required terms."""
    return _topics(pod, most_anti=None)


def _topics_in_1_36(pod: PodInfo) -> Collection[Hashable]:
    """The same, where all anti-affinity terms have to match, so that one of them is enough."""
    return _topics(pod, most_anti=1)


def _topics(pod: PodInfo, most_anti: int | None) -> Collection[Hashable]:
    try:
        terms = terms_of(pod)
    except InvalidSelector:
        return (_INVALID,)
    topics: list[Hashable] = [pod.uid]
    # All affinity terms have to match, so one of them is enough. A selector of None matches nothing.
    for term in (*terms.required[:1], *terms.required_anti[:most_anti]):
        if term.selector is not None:
            topics.extend(narrowest_anchors(None, term.selector.requirements))
    return topics


def _topics_of_change(old: PodInfo | None, new: PodInfo | None) -> Collection[Hashable] | None:
    """Return the topics of a changed pod; None for one that leaves a node and was apart from other pods."""
    if old is not None and new is None:
        try:
            if terms_of(old).required_anti:
                return None
        except InvalidSelector:
            return None
    topics: list[Hashable] = [_INVALID]
    for pod in (old, new):
        if pod is not None:
            topics += [pod.uid, *anchors_in(None, pod.labels)]
    return topics


def _match_all(terms: tuple[AffinityTerm, ...], other: PodInfo) -> bool:
    """Whether there are terms, and all of them match a pod.

    As upstream, terms are matched without namespace labels: a namespace selector matches only if it is empty.
    """
    return bool(terms) and all(term.matches(other, {}) for term in terms)


def _match_any(terms: tuple[AffinityTerm, ...], other: PodInfo) -> bool:
    """Whether a term matches a pod. Namespace selectors are as in `_match_all`."""
    return any(term.matches(other, {}) for term in terms)
