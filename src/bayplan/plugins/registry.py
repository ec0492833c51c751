"""The in-tree plugins in their default order, with their default weights.

The order is visible to users: a node's message is that of the first plugin that rejects it. Mirrors
apis/config/v1/default_plugins.go and plugins/registry.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.plugins import arguments
from bayplan.plugins.coscheduling.arguments import CoschedulingArgs
from bayplan.plugins.coscheduling.plugin import Coscheduling
from bayplan.plugins.default_binder import DefaultBinder
from bayplan.plugins.default_preemption.plugin import DefaultPreemption
from bayplan.plugins.default_preemption.whole_groups import WorkloadAwarePreemption
from bayplan.plugins.dynamic_resources.plugin import DynamicResources
from bayplan.plugins.gang_scheduling.plugin import GangScheduling
from bayplan.plugins.image_locality import ImageLocality
from bayplan.plugins.inter_pod_affinity.plugin import InterPodAffinity
from bayplan.plugins.node_affinity import NodeAffinity
from bayplan.plugins.node_declared_features import NodeDeclaredFeatures
from bayplan.plugins.node_name import NodeName
from bayplan.plugins.node_ports import NodePorts
from bayplan.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.plugins.node_resources.fit import NodeResourcesFit
from bayplan.plugins.node_unschedulable import NodeUnschedulable
from bayplan.plugins.node_volume_limits.plugin import NodeVolumeLimits
from bayplan.plugins.pod_group_pods_count import PodGroupPodsCount
from bayplan.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.plugins.priority_sort import PrioritySort
from bayplan.plugins.scheduling_gates import SchedulingGates
from bayplan.plugins.taint_toleration import TaintToleration
from bayplan.plugins.topology_placement import TopologyPlacementGenerator
from bayplan.plugins.volume_binding.plugin import VolumeBinding
from bayplan.plugins.volume_restrictions import VolumeRestrictions
from bayplan.plugins.volume_zone import VolumeZone


@dataclass(frozen=True, slots=True)
class Entry:
    """An in-tree plugin with its default weight and its argument type."""

    name: str
    factory: type[Any]
    weight: int = 0
    """The default weight of its scores; 0 stands for 1."""
    arguments: type[arguments.PluginArgs] | None = None


DEFAULT_PLUGINS: tuple[Entry, ...] = (
    # Gates first: a gated pod is not queued.
    Entry("SchedulingGates", SchedulingGates),
    Entry("PrioritySort", PrioritySort),
    # Then cheap checks of the node object alone.
    Entry("NodeUnschedulable", NodeUnschedulable),
    Entry("NodeName", NodeName),
    # Taints have the highest weight: administrators set them, while users set affinity.
    Entry("TaintToleration", TaintToleration, weight=3),
    Entry("NodeAffinity", NodeAffinity, weight=2, arguments=arguments.NodeAffinityArgs),
    # Then checks that depend on the pods of the node.
    Entry("NodePorts", NodePorts),
    Entry("NodeResourcesFit", NodeResourcesFit, weight=1, arguments=arguments.NodeResourcesFitArgs),
    # Then volumes: conflicts, limits, binding, zones.
    Entry("VolumeRestrictions", VolumeRestrictions),
    Entry("NodeVolumeLimits", NodeVolumeLimits),
    Entry("VolumeBinding", VolumeBinding, arguments=arguments.VolumeBindingArgs),
    Entry("VolumeZone", VolumeZone),
    # Then checks that depend on the pods of all nodes.
    Entry("PodTopologySpread", PodTopologySpread, weight=2, arguments=arguments.PodTopologySpreadArgs),
    Entry("InterPodAffinity", InterPodAffinity, weight=2, arguments=arguments.InterPodAffinityArgs),
    # Its PostFilter runs before preemption: deallocating an unused claim is better than evicting a pod.
    Entry("DynamicResources", DynamicResources, weight=2, arguments=arguments.DynamicResourcesArgs),
    Entry("DefaultPreemption", DefaultPreemption, arguments=arguments.DefaultPreemptionArgs),
    # These only score or bind, so their order does not matter.
    Entry(
        "NodeResourcesBalancedAllocation",
        NodeResourcesBalancedAllocation,
        weight=1,
        arguments=arguments.NodeResourcesBalancedAllocationArgs,
    ),
    Entry("ImageLocality", ImageLocality, weight=1),
    Entry("DefaultBinder", DefaultBinder),
    # Last, because upstream appends it by its feature gate.
    Entry("NodeDeclaredFeatures", NodeDeclaredFeatures),
)

OTHER_PLUGINS: tuple[Entry, ...] = (
    # From the scheduler-plugins project.
    Entry("Coscheduling", Coscheduling, arguments=CoschedulingArgs),
    # Alpha: feature gates add these to the default configuration. As upstream, a configuration may name them without.
    Entry("GangScheduling", GangScheduling),
    Entry("TopologyPlacementGenerator", TopologyPlacementGenerator),
    Entry("PodGroupPodsCount", PodGroupPodsCount, weight=1),
    Entry("WorkloadAwarePreemption", WorkloadAwarePreemption),
)
"""In-tree plugins that are not in the default configuration."""

PLUGINS: dict[str, Entry] = {entry.name: entry for entry in (*DEFAULT_PLUGINS, *OTHER_PLUGINS)}
