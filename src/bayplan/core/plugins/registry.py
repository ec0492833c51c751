"""The in-tree plugins in their default order, with their default weights.

The order is visible to users: a node's message is that of the first plugin that rejects it. Mirrors
apis/config/v1/default_plugins.go and plugins/registry.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.core.framework.arguments import PluginArgs
from bayplan.core.plugins import arguments
from bayplan.core.plugins.default_binder import DefaultBinder
from bayplan.core.plugins.default_preemption.plugin import DefaultPreemption
from bayplan.core.plugins.default_preemption.whole_groups import WorkloadAwarePreemption
from bayplan.core.plugins.deferred_pod_scheduling import DeferredPodScheduling
from bayplan.core.plugins.dynamic_resources.plugin import DynamicResources
from bayplan.core.plugins.gang_scheduling.plugin import GangScheduling
from bayplan.core.plugins.image_locality import ImageLocality
from bayplan.core.plugins.inter_pod_affinity.plugin import InterPodAffinity
from bayplan.core.plugins.node_affinity import NodeAffinity
from bayplan.core.plugins.node_declared_features import NodeDeclaredFeatures
from bayplan.core.plugins.node_name import NodeName
from bayplan.core.plugins.node_ports import NodePorts
from bayplan.core.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.core.plugins.node_unschedulable import NodeUnschedulable
from bayplan.core.plugins.node_volume_limits.plugin import NodeVolumeLimits
from bayplan.core.plugins.pod_group_pods_count import PodGroupPodsCount
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.core.plugins.priority_sort import PrioritySort
from bayplan.core.plugins.scheduling_gates import SchedulingGates
from bayplan.core.plugins.taint_toleration import TaintToleration
from bayplan.core.plugins.topology_placement import TopologyPlacementGenerator
from bayplan.core.plugins.volume_binding.plugin import VolumeBinding
from bayplan.core.plugins.volume_restrictions import VolumeRestrictions
from bayplan.core.plugins.volume_zone import VolumeZone


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """An in-tree plugin with its default weight and its argument type."""

    name: str
    factory: type[Any]
    weight: int = 0
    """The default weight of its scores; 0 stands for 1."""
    arguments: type[PluginArgs] | None = None
    gated: bool = False
    """Whether it is a default plugin only if a feature gate says so."""


DEFAULT_PLUGINS: tuple[RegisteredPlugin, ...] = (
    # Gates first: a gated pod is not queued.
    RegisteredPlugin("SchedulingGates", SchedulingGates),
    RegisteredPlugin("PrioritySort", PrioritySort),
    # Then cheap checks of the node object alone.
    RegisteredPlugin("NodeUnschedulable", NodeUnschedulable),
    RegisteredPlugin("NodeName", NodeName),
    # Where upstream has it isn't known. A node that forbids the preemption must be its rejection to requeue the pod.
    RegisteredPlugin("DeferredPodScheduling", DeferredPodScheduling, gated=True),
    # Taints have the highest weight: administrators set them, while users set affinity.
    RegisteredPlugin("TaintToleration", TaintToleration, weight=3),
    RegisteredPlugin("NodeAffinity", NodeAffinity, weight=2, arguments=arguments.NodeAffinityArgs),
    # Then checks that depend on the pods of the node.
    RegisteredPlugin("NodePorts", NodePorts),
    RegisteredPlugin("NodeResourcesFit", NodeResourcesFit, weight=1, arguments=arguments.NodeResourcesFitArgs),
    # Then volumes: conflicts, limits, binding, zones.
    RegisteredPlugin("VolumeRestrictions", VolumeRestrictions),
    RegisteredPlugin("NodeVolumeLimits", NodeVolumeLimits),
    RegisteredPlugin("VolumeBinding", VolumeBinding, arguments=arguments.VolumeBindingArgs),
    RegisteredPlugin("VolumeZone", VolumeZone),
    # Then checks that depend on the pods of all nodes.
    RegisteredPlugin("PodTopologySpread", PodTopologySpread, weight=2, arguments=arguments.PodTopologySpreadArgs),
    RegisteredPlugin("InterPodAffinity", InterPodAffinity, weight=2, arguments=arguments.InterPodAffinityArgs),
    # Its PostFilter runs before preemption: deallocating an unused claim is better than evicting a pod.
    RegisteredPlugin("DynamicResources", DynamicResources, weight=2, arguments=arguments.DynamicResourcesArgs),
    RegisteredPlugin("DefaultPreemption", DefaultPreemption, arguments=arguments.DefaultPreemptionArgs),
    # These only score or bind, so their order does not matter.
    RegisteredPlugin(
        "NodeResourcesBalancedAllocation",
        NodeResourcesBalancedAllocation,
        weight=1,
        arguments=arguments.NodeResourcesBalancedAllocationArgs,
    ),
    RegisteredPlugin("ImageLocality", ImageLocality, weight=1),
    RegisteredPlugin("DefaultBinder", DefaultBinder),
)

OTHER_PLUGINS: tuple[RegisteredPlugin, ...] = (
    # Feature gates append these to the default configuration. As upstream, a configuration may name them without.
    RegisteredPlugin("NodeDeclaredFeatures", NodeDeclaredFeatures),
    RegisteredPlugin("GangScheduling", GangScheduling),
    RegisteredPlugin("TopologyPlacementGenerator", TopologyPlacementGenerator),
    RegisteredPlugin("PodGroupPodsCount", PodGroupPodsCount, weight=1),
    RegisteredPlugin("WorkloadAwarePreemption", WorkloadAwarePreemption),
)
"""In-tree plugins that are in the default configuration only if a feature gate says so, in order."""

PLUGINS: dict[str, RegisteredPlugin] = {entry.name: entry for entry in (*DEFAULT_PLUGINS, *OTHER_PLUGINS)}
