"""In-tree plugins of former releases that are gone, and what does their work now."""

from __future__ import annotations

from bayplan.plugins.arguments import LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO

STRATEGIES = {
    "NodeResourcesLeastAllocated": LEAST_ALLOCATED,
    "NodeResourcesMostAllocated": MOST_ALLOCATED,
    "RequestedToCapacityRatio": REQUESTED_TO_CAPACITY_RATIO,
}
"""Until v1beta1 each scoring strategy of NodeResourcesFit was a plugin."""

LIMITS = dict.fromkeys(
    ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "NodeVolumeLimits counts its volumes"
)
SCORES = {
    "SelectorSpread": "PodTopologySpread spreads the pods of a service by default",
    "DefaultPodTopologySpread": "PodTopologySpread spreads the pods of a service by default",
    "NodePreferAvoidPods": "taints keep pods away from nodes",
}
FILTERS = {
    "NodeLabel": "demand the labels of all pods with addedAffinity in the arguments of NodeAffinity",
    "ServiceAffinity": "give the pods an affinity to each other",
}

INSTEAD = (
    LIMITS
    | SCORES
    | FILTERS
    | {name: f"it is NodeResourcesFit with scoringStrategy.type {strategy}" for name, strategy in STRATEGIES.items()}
)
"""All of them, with what to say to those who name them."""
