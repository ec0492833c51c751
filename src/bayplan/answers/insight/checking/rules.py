"""The rules of check: what each finds, and how bad that is. Their names are stable: pipelines ignore some by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"
LEVELS = (ERROR, WARNING, NOTE)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule finds, in one sentence, and its level."""

    level: str
    text: str


RULES: Mapping[str, Rule] = {
    "refused": Rule(ERROR, "The API server would refuse an object."),
    "quota": Rule(ERROR, "A quota would keep pods from being created."),
    "pending": Rule(ERROR, "Pods would stay pending."),
    "rollout-stuck": Rule(ERROR, "A rollout would never end."),
    "evicts": Rule(WARNING, "Pods would preempt pods that run."),
    "given-twice": Rule(WARNING, "The manifests have an object twice, of which only the last one counts."),
    "not-decided": Rule(WARNING, "Only a controller knows the pods of an object, or where they go."),
    "uneven-spread": Rule(WARNING, "Pods would be spread less evenly than a constraint says, after the next rollout."),
    "next-version": Rule(WARNING, "The next version of Kubernetes would decide otherwise."),
    "selector-matches-nothing": Rule(WARNING, "A selector matches no pods."),
    "affinity-matches-nothing": Rule(WARNING, "A required pod affinity matches no pods."),
    "spread-misses-itself": Rule(WARNING, "A spread constraint doesn't count the pods that it is about."),
    "no-node-has-label": Rule(WARNING, "A pod wants a node label that no node has."),
    "tolerates-no-taint": Rule(WARNING, "A toleration is for a taint that no node has, but a similar one."),
    "budget-blocks-drains": Rule(WARNING, "A disruption budget lets no pod be evicted, so that drains wait forever."),
    "selectors-overlap": Rule(WARNING, "Two workloads select each other's pods."),
    "volume-of-one-node": Rule(WARNING, "A rolling update needs a volume on two nodes that only one can have."),
    "replicas-beside-autoscaler": Rule(WARNING, "Each apply undoes what a HorizontalPodAutoscaler has set."),
    "tiny-memory": Rule(WARNING, "An amount of memory is less than 1 MiB: probably its unit is wrong."),
    "no-requests": Rule(NOTE, "Containers request neither cpu nor memory, so that any node has room for them."),
}
"""name -> the rule"""
