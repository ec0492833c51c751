"""NodeAffinity: filters nodes by the pod's node selector and required affinity, and scores them by preferred terms.

Terms that name nodes narrow the nodes down in PreFilter. Each requirement is evaluated once per value of its label
(`bayplan.core.cluster.node_selection`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightkube.models import core_v1

from bayplan.core.api.labels import Requirement
from bayplan.core.api.objects import encode
from bayplan.core.api.selectors import (
    NAME_FIELD,
    NodeSelector,
    PreferredTerm,
    RequiredNodeAffinity,
    parse_node_selector,
    parse_preferred_terms,
)
from bayplan.core.api.well_known_labels import HOSTNAME
from bayplan.core.cluster.columns import Bool, Int64
from bayplan.core.cluster.node_selection import match_required, match_selector, match_term
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.interface import CycleState, NodeNames
from bayplan.core.framework.near_names import near_name
from bayplan.core.framework.normalization import scale_to_best
from bayplan.core.framework.remedies import Details, Remedy, add_labels, is_daemon
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status, aggregate
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.arguments import NodeAffinityArgs

NO_MATCH = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
NO_MATCH_ENFORCED = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = Status.unresolvable("pod affinity terms conflict")

_NO_ARGUMENTS = NodeAffinityArgs()


class NodeAffinity(OnlyPlaces):
    """Mirrors plugins/nodeaffinity/node_affinity.go."""

    name = "NodeAffinity"
    reads_pods = False
    arguments = NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs = _NO_ARGUMENTS) -> None:
        added = args.addedAffinity or core_v1.NodeAffinity()
        enforced = added.requiredDuringSchedulingIgnoredDuringExecution
        self._enforced: NodeSelector | None = parse_node_selector(enforced) if enforced is not None else None
        preferred = added.preferredDuringSchedulingIgnoredDuringExecution
        self._preferred = parse_preferred_terms(preferred)
        self._has_preferred = bool(preferred)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | NodeNames | None:
        """Skip a pod without requirements. If every required term names nodes, only these are candidates."""
        required = _required_terms(pod.spec)
        if required is None and self._enforced is None and not pod.spec.nodeSelector:
            return SKIP
        terms = (required.nodeSelectorTerms if required is not None else None) or ()
        named = [_named_nodes(term) for term in terms]
        if not named or None in named:
            return None
        names = frozenset[str]().union(*(names for names in named if names is not None))
        return NodeNames(names) if names else CONFLICT

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes by the added affinity first, then by the pod's own."""
        accepted = match_required(_affinity(pod).required, nodes)
        if self._enforced is None:
            return Rejections.where(~accepted, NO_MATCH) if not accepted.all() else None
        index = np.where(accepted, 0, 2).astype(np.int32)
        index[~match_selector(self._enforced, nodes)] = 1
        return Rejections(index, (NO_MATCH_ENFORCED, NO_MATCH))

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod without preferred terms. An invalid preferred term fails the attempt."""
        affinity = _affinity(pod)
        faults = [str(fault) for preferred in affinity.preferred for fault in preferred.term.errors]
        if faults:
            return Status.error(aggregate(faults))
        return SKIP if not affinity.has_preferred and not self._has_preferred else None

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Sum the weights of the preferred terms that match."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        for preferred in (*self._preferred, *_affinity(pod).preferred):
            scores += preferred.weight * match_term(preferred.term, nodes)
        return scores

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """Scale the highest score to 100."""
        return scale_to_best(scores)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The labels that the node lacks; of several required terms, those of the nearest one."""
        if node is None:
            return None
        unmet = _unmet(pod, node)
        texts = [f"{each}{_nowhere(each, node.among)}" for each in unmet] or _fields(pod)
        text = f"{NO_MATCH.reasons[0]}: {', '.join(texts)}" if texts else ""
        return Details(text, _remedies(pod, node, unmet))

    def events(self) -> Iterable[EventHint]:
        """Register new nodes, and changes of labels."""
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self.after_node_change)

    def after_node_change(self, pod: PodInfo, old: core_v1.Node | None, new: core_v1.Node) -> Hint:
        """Requeue for a node that matches, and is new or did not match before."""
        if self._enforced is not None and not _matches(self._enforced, new):
            return Hint.SKIP
        required = _affinity(pod).required
        if not _matches(required, new):
            return Hint.SKIP
        return Hint.SKIP if old is not None and _matches(required, old) else Hint.QUEUE

    def sign(self, pod: PodInfo) -> Hashable:
        """The node selector and the node affinity."""
        spec = pod.spec
        selector = tuple(sorted(spec.nodeSelector.items())) if spec.nodeSelector else ()
        affinity = spec.affinity.nodeAffinity if spec.affinity else None
        return selector, encode(affinity) if affinity is not None else b""


@dataclass(frozen=True, slots=True)
class _Affinity:
    """A pod's parsed node affinity. `has_preferred`: whether the list of preferred terms is present, even if empty."""

    required: RequiredNodeAffinity
    preferred: tuple[PreferredTerm, ...]
    has_preferred: bool


def _affinity(pod: PodInfo) -> _Affinity:
    found: _Affinity | None = pod.cache.get(NodeAffinity)
    if found is None:
        spec = pod.spec
        terms = (
            spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution
            if spec.affinity and spec.affinity.nodeAffinity
            else None
        )
        found = _Affinity(RequiredNodeAffinity.of(spec), parse_preferred_terms(terms), terms is not None)
        pod.cache[NodeAffinity] = found
    return found


def _required_terms(spec: core_v1.PodSpec) -> core_v1.NodeSelector | None:
    if spec.affinity is None or spec.affinity.nodeAffinity is None:
        return None
    return spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution


def _named_nodes(term: core_v1.NodeSelectorTerm) -> frozenset[str] | None:
    """Return the node names that a term's `matchFields` allow; None if they do not restrict names."""
    named: frozenset[str] | None = None
    for field in term.matchFields or ():
        if field.key == NAME_FIELD and field.operator == "In":
            values = frozenset(field.values or ())
            named = values if named is None else named & values
    return named


def _unmet(pod: PodInfo, node: NodeInfo) -> tuple[Requirement, ...]:
    required = _affinity(pod).required
    unmet = tuple(
        each for each in (required.labels.requirements if required.labels else ()) if not each.matches(node.labels)
    )
    selector = required.selector
    if selector is not None and selector.terms and not selector.matches(node.labels, node.name):
        unmet_terms: list[tuple[Requirement, ...]] = [
            tuple(each for each in term.labels.requirements if not each.matches(node.labels)) for term in selector.terms
        ]
        unmet += min(unmet_terms, key=len)
    return unmet


def _nowhere(unmet: Requirement, nodes: Nodes) -> str:
    """What to add about a requirement that no node meets: the nearest value or key, if there is one."""
    if unmet.operator not in {"in", "=", "==", "exists"}:
        return ""
    values = nodes.label_values(unmet.key)
    if not set(values).isdisjoint(unmet.values) or (unmet.operator == "exists" and values):
        return ""
    if unmet.key == HOSTNAME:
        return f" (no node is named {' or '.join(sorted(unmet.values))})"
    if values:
        near = next((near for value in sorted(unmet.values) if (near := near_name(value, values))), None)
        instead = _did_you_mean(f"{unmet.key}={near}", nodes.label_in(unmet.key, [near])) if near else ""
        return f" (no node has it{instead})"
    near = near_name(unmet.key, nodes.table.label_keys())
    return f" (no node has the label{_did_you_mean(near, nodes.has_label(near)) if near else ''})"


def _did_you_mean(text: str, nodes: Bool) -> str:
    count = int(np.count_nonzero(nodes))
    return f"; did you mean {text}, which {count} {'node has' if count == 1 else 'nodes have'}?"


def _fields(pod: PodInfo) -> list[str]:
    """The fields of nodes that the pod's required terms name."""
    selector = _affinity(pod).required.selector
    return [str(term.fields) for term in selector.terms if term.fields.terms] if selector is not None else []


def _remedies(pod: PodInfo, node: NodeInfo, unmet: Sequence[Requirement]) -> Iterator[Remedy]:
    """Label the node, or ask for less. A pod of a DaemonSet belongs to its node."""
    if is_daemon(pod):
        return
    labels = {each.key: min(each.values) for each in unmet if each.operator in {"in", "=", "=="}}
    labels |= {each.key: "true" for each in unmet if each.operator == "exists"}
    if unmet and len(labels) == len(unmet):
        yield add_labels(node, labels)
    selector = pod.spec.nodeSelector or {}
    if unmet and all(selector.get(each.key) in each.values for each in unmet):
        texts = ", ".join(map(str, unmet))
        yield Remedy(f"remove {texts} from the pod's nodeSelector", pod=lambda doc: _unselect(doc, labels))
    elif _required_terms(pod.spec) and all(each.key not in selector for each in unmet):
        yield Remedy("make the required node affinity of the pod preferred", pod=_prefer_nodes)


def _unselect(pod: dict[str, Any], keys: Collection[str]) -> None:
    selector = pod["spec"]["nodeSelector"]
    pod["spec"]["nodeSelector"] = {key: value for key, value in selector.items() if key not in keys}


def _prefer_nodes(pod: dict[str, Any]) -> None:
    required, preferred = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))
    rules = dict(pod["spec"]["affinity"]["nodeAffinity"])
    terms = [{"weight": 100, "preference": term} for term in rules.pop(required)["nodeSelectorTerms"]]
    rules[preferred] = [*(rules.get(preferred) or ()), *terms]
    pod["spec"]["affinity"] = {**pod["spec"]["affinity"], "nodeAffinity": rules}


def _matches(selector: NodeSelector | RequiredNodeAffinity, node: core_v1.Node) -> bool:
    metadata = node.metadata
    return metadata is not None and selector.matches(metadata.labels or {}, metadata.name or "")
