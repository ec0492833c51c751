"""What the reasons of a pod's end mean: it ended by itself, was deleted, or was disrupted."""

from __future__ import annotations

ENDS_BY_ITSELF = frozenset({"Succeeded", "Failed"})
DISRUPTIONS = {
    "PreemptionByScheduler": "preempted",
    "Preempting": "preempted",
    "EvictionByEvictionAPI": "drained",
    "Evicted": "by the kubelet",
    "TerminationByKubelet": "by the kubelet",
    "NodeShutdown": "node lost",
    "Terminated": "node lost",
    "DeletionByTaintManager": "node lost",
    "DeletionByPodGC": "node lost",
    "NodeLost": "node lost",
}
"""Why pods were evicted, by the reason of their end."""
PREEMPTIONS = frozenset({"PreemptionByScheduler"})
"""The reasons that a scheduler causes. The kubelet's own preemption, `Preempting`, is none of them."""
