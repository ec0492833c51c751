"""In-tree plugins of former releases that were removed, and their replacements."""

from __future__ import annotations

from bayplan.core.plugins.arguments import LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO

STRATEGIES = {
    "NodeResourcesLeastAllocated": LEAST_ALLOCATED,
    "NodeResourcesMostAllocated": MOST_ALLOCATED,
    "RequestedToCapacityRatio": REQUESTED_TO_CAPACITY_RATIO,
}
"""plugin of v1beta1 -> the scoring strategy of NodeResourcesFit that it has become"""

LIMITS = dict.fromkeys(
    ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "NodeVolumeLimits counts its volumes"
)
SCORES = {
    "SelectorSpread": "PodTopologySpread spreads the pods of a service by default",
    "DefaultPodTopologySpread": "PodTopologySpread spreads the pods of a service by default",
    "NodePreferAvoidPods": "taints keep pods away from nodes",
}
FILTERS = {
    "NodeLabel": "require the labels with addedAffinity in the arguments of NodeAffinity",
    "ServiceAffinity": "use pod affinity",
}

REPLACEMENTS = (
    LIMITS
    | SCORES
    | FILTERS
    | {name: f"use NodeResourcesFit with scoringStrategy.type {strategy}" for name, strategy in STRATEGIES.items()}
)
"""All removed plugins, with the hint for users who name them."""
