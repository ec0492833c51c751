"""InterPodAffinity: nodes are out that are too far from some pods or too near to others; the rest score by that.

Mirrors plugins/interpodaffinity/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.api.labels import InvalidSelector
from bayplan.cluster.affinity_terms import AffinityTerm, terms_of
from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import MAX_NODE_SCORE, CycleState, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Rejections
from bayplan.plugins.arguments import InterPodAffinityArgs
from bayplan.plugins.inter_pod_affinity.matching import DomainCounts, Namespaces, Requirements, preferences, required

TOO_FAR = Status.unresolvable("node(s) didn't match pod affinity rules")
TOO_NEAR = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_DEFAULT_ARGUMENTS = InterPodAffinityArgs()


class InterPodAffinity(Plugin):
    """Keeps pods together and apart, as they and the pods that are there ask for."""

    name = "InterPodAffinity"
    arguments = InterPodAffinityArgs

    def __init__(self, handle: Handle, args: InterPodAffinityArgs = _DEFAULT_ARGUMENTS) -> None:
        self._namespaces = Namespaces(handle)
        self._hard_weight = args.hardPodAffinityWeight
        self._ignore_existing = args.ignorePreferredTermsOfExistingPods

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count by domain who is wanted near, who is not, and who wants this pod away."""
        try:
            requirements = required(pod, self._namespaces, nodes)
        except InvalidSelector as error:
            return Status.unresolvable(f"parsing pod: {error}")
        if requirements is None:
            return SKIP
        cycle.data[self.name] = requirements
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """The pod's own affinity comes first, then its anti-affinity, then that of others."""
        requirements: Requirements = cycle.data[self.name]
        index = requirements.verdicts_if(nodes) if nodes.changes else requirements.verdicts(nodes)
        return Rejections(index, (UNWELCOME, TOO_NEAR, TOO_FAR)) if index.any() else None

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Sum by domain what preferred terms are worth, the pod's own and those of others."""
        terms = terms_of(pod)
        own = bool(terms.preferred or terms.preferred_anti)
        if self._ignore_existing and not own:
            return SKIP
        found = preferences(pod, self._namespaces, nodes, self._hard_weight)
        if found is None:
            return SKIP
        cycle.data[self.name, "score"] = found
        return None

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """The sum over the node's domains; may be negative."""
        found: list[DomainCounts] = cycle.data[self.name, "score"]
        total: Int64 = np.zeros(len(nodes), dtype=np.int64)
        for counts in found:
            total += counts.at(nodes)
        return total

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """From the worst, 0, to the best, 100; all 0 where they are alike."""
        least, most = int(scores.min()), int(scores.max())
        if most == least:
            return np.zeros_like(scores)
        return (float(MAX_NODE_SCORE) * ((scores - least).astype(np.float64) / float(most - least))).astype(np.int64)

    def events(self) -> Iterable[EventHint]:
        """Pods that terms mean come, go or change; nodes come or change their domain."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        yield EventHint(ClusterEvent(POD, pods), self.after_pod_change)
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), after_node_change)

    def sign(self, pod: PodInfo) -> Hashable:
        """What the terms of others look at; pods with terms of their own depend on where others are."""
        return (pod.namespace, tuple(sorted(pod.labels.items()))) if not terms_of(pod) else None

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Which terms there are; nothing can be shared between pods that one of them means."""
        terms = nodes.table.terms
        if terms.matching(pod, self._namespaces.labels(pod.namespace)):
            return None
        return terms.version, self._namespaces.version

    def after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        """A pod helps that is wanted near and came, or is not wanted and went, or changed its labels that way."""
        if old is not None and new is not None and new.uid == pod.uid:
            return Hint.QUEUE
        if any(other is not None and not (other.node_name or other.nominated_node_name) for other in (old, new)):
            return Hint.SKIP
        terms = terms_of(pod)
        if old is not None and new is not None:
            helps = (not self._meets(terms.required, old) and self._meets(terms.required, new)) or (
                self._meets(terms.required_anti, old) and not self._meets(terms.required_anti, new)
            )
        elif new is not None:
            helps = self._meets(terms.required, new)
        else:
            assert old is not None
            helps = self._meets(terms.required_anti, old) or self._meets(terms_of(old).required_anti, pod)
        return Hint.QUEUE if helps else Hint.SKIP

    def _meets(self, terms: tuple[AffinityTerm, ...], other: PodInfo) -> bool:
        """Whether a pod is meant by all terms, of which there is one at least.

        Namespace selectors are not looked at, as upstream does not: an empty one matches, any other needs its name.
        """
        return bool(terms) and all(term.matches(other, {}) for term in terms)


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """A node helps that brings a topology the pod wants to be near in, or leaves one it wants to be away in."""
    terms = terms_of(pod)
    was, now = _labels(old), _labels(new)
    for term in terms.required:
        key = term.topology_key
        if key in now and (old is None or was.get(key) != now[key]):
            return Hint.QUEUE
    for term in terms.required_anti:
        key = term.topology_key
        if old is None or (key in was and was[key] != now.get(key)):
            return Hint.QUEUE
    return Hint.SKIP


def _labels(node: Node | None) -> dict[str, str]:
    return (node.metadata.labels if node is not None and node.metadata else None) or {}
