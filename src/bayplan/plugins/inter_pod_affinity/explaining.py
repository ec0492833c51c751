"""Which pods a rule of affinity or anti-affinity is about, and what would satisfy it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bayplan.cluster.affinity_terms import bound_terms
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.remedies import Remedy, delete_pods

_MOST_DELETED = 20
"""Remedies that delete more pods than that are not considered."""
_RULES = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}


def remedies(pod: PodInfo, node: NodeInfo, reason: str) -> Iterator[Remedy]:
    """Delete the pods that anti-affinity keeps the pod apart from, or make the pod's own terms preferences."""
    own = next((name for name, text in _RULES.items() if text in reason), None)
    if own != "podAffinity":
        enemies = list(_enemies(pod, node))
        if len(enemies) <= _MOST_DELETED:
            yield from delete_pods(pod, enemies)
    if own is not None:
        text = f"make the required {_RULES[own]} of the pod preferred"
        yield Remedy(text, pod=lambda document: _prefer(document["spec"], own))


def _enemies(pod: PodInfo, node: NodeInfo) -> Iterator[PodInfo]:
    """The pods in the node's domains that anti-affinity keeps apart from the pod. Namespaces are known by name only."""
    ours = bound_terms(pod).required_anti
    nodes = node.among
    for position in np.flatnonzero(nodes.live).tolist():
        labels = nodes.info(position).labels
        shared = {key for key, value in node.labels.items() if labels.get(key) == value}
        for other in nodes.pods(position):
            terms = [(term, other) for term in ours] + [(term, pod) for term in bound_terms(other).required_anti]
            if any(term.topology_key in shared and term.matches(matched, {}) for term, matched in terms):
                yield other


def _prefer(spec: dict[str, Any], name: str) -> None:
    required, preferred = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))
    rules = dict(spec["affinity"][name])
    terms = [{"weight": 100, "podAffinityTerm": term} for term in rules.pop(required, None) or ()]
    spec["affinity"] = {**spec["affinity"], name: {**rules, preferred: [*(rules.get(preferred) or ()), *terms]}}
