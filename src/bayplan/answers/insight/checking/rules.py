"""The rules of check: what each finds, and how bad that is. Their names are stable: pipelines ignore some by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"
LEVELS = (ERROR, WARNING, NOTE)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class FindingRule:
    """What a rule finds, in one sentence, and its level."""

    level: str
    text: str


RULES: Mapping[str, FindingRule] = {
    "refused": FindingRule(ERROR, "The API server would refuse an object."),
    "quota": FindingRule(ERROR, "A quota would keep pods from being created."),
    "kueue-never-admits": FindingRule(
        ERROR, "Kueue would never admit a workload: its queue isn't there, or its whole quota is too small."
    ),
    "pending": FindingRule(ERROR, "Pods would stay pending."),
    "rollout-stuck": FindingRule(ERROR, "A rollout would never end."),
    "evicts": FindingRule(WARNING, "Pods would preempt pods that run."),
    "kueue-waits": FindingRule(
        WARNING, "Kueue would not admit a workload yet: its queue is stopped, or has too little free."
    ),
    "given-twice": FindingRule(WARNING, "The manifests have an object twice, of which only the last one counts."),
    "not-decided": FindingRule(WARNING, "Only a controller knows the pods of an object, or where they go."),
    "uneven-spread": FindingRule(WARNING, "The next rollout would leave pods less evenly spread than they should be."),
    "next-version": FindingRule(WARNING, "The next version of Kubernetes would decide otherwise."),
    "selector-matches-nothing": FindingRule(WARNING, "A selector matches no pods."),
    "affinity-matches-nothing": FindingRule(WARNING, "A required pod affinity matches no pods."),
    "spread-misses-itself": FindingRule(WARNING, "A spread constraint doesn't count the pods that it is about."),
    "no-node-has-label": FindingRule(WARNING, "A pod wants a node label that no node has."),
    "tolerates-no-taint": FindingRule(WARNING, "A toleration is for a taint that no node has, but a similar one."),
    "budget-blocks-drains": FindingRule(
        WARNING, "A disruption budget lets no pod be evicted, so that drains wait forever."
    ),
    "selectors-overlap": FindingRule(WARNING, "Two workloads select each other's pods."),
    "volume-of-one-node": FindingRule(WARNING, "A rolling update needs a volume on two nodes that only one can have."),
    "replicas-beside-autoscaler": FindingRule(WARNING, "Each apply undoes what a HorizontalPodAutoscaler has set."),
    "tiny-memory": FindingRule(WARNING, "An amount of memory is less than 1 MiB: probably its unit is wrong."),
    "no-requests": FindingRule(NOTE, "Containers request neither cpu nor memory, so that any node has room for them."),
}
"""name -> the rule"""
