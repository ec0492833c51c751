"""The in-tree plugins in the order in which they are asked by default, with their weights and the reason for the place.

The order is part of what users see: a filter stops at the first plugin that turns a node down. Mirrors
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
from bayplan.plugins.node_volume_limits import NodeVolumeLimits
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
    """An in-tree plugin, and how it is in the default configuration, if it is in it."""

    name: str
    factory: type[Any]
    weight: int = 0
    """The default weight of its score; 0 leaves it at 1, should it score."""
    arguments: type[arguments.PluginArgs] | None = None


DEFAULT_PLUGINS: tuple[Entry, ...] = (
    # Gates come before everything: a gated pod does not even queue.
    Entry("SchedulingGates", SchedulingGates),
    Entry("PrioritySort", PrioritySort),
    # Then what a glance at the node settles: it is closed, it is another one, it keeps pods off, it is the wrong kind.
    Entry("NodeUnschedulable", NodeUnschedulable),
    Entry("NodeName", NodeName),
    # Taints weigh most in scores: they are the administrator's word, affinity is the user's.
    Entry("TaintToleration", TaintToleration, weight=3),
    Entry("NodeAffinity", NodeAffinity, weight=2, arguments=arguments.NodeAffinityArgs),
    # Then what depends on the pods that are there, cheap before dear.
    Entry("NodePorts", NodePorts),
    Entry("NodeResourcesFit", NodeResourcesFit, weight=1, arguments=arguments.NodeResourcesFitArgs),
    # Volumes: what is in use, how many, whether they can be had there, and whether they are in the node's zone.
    Entry("VolumeRestrictions", VolumeRestrictions),
    Entry("NodeVolumeLimits", NodeVolumeLimits),
    Entry("VolumeBinding", VolumeBinding, arguments=arguments.VolumeBindingArgs),
    Entry("VolumeZone", VolumeZone),
    # Then what has to look at pods on other nodes too.
    Entry("PodTopologySpread", PodTopologySpread, weight=2, arguments=arguments.PodTopologySpreadArgs),
    Entry("InterPodAffinity", InterPodAffinity, weight=2, arguments=arguments.InterPodAffinityArgs),
    # Before preemption: giving up an idle claim is better than evicting a pod.
    Entry("DynamicResources", DynamicResources, weight=2, arguments=arguments.DynamicResourcesArgs),
    Entry("DefaultPreemption", DefaultPreemption, arguments=arguments.DefaultPreemptionArgs),
    # These only score, so that their place decides nothing but the order in listings.
    Entry(
        "NodeResourcesBalancedAllocation",
        NodeResourcesBalancedAllocation,
        weight=1,
        arguments=arguments.NodeResourcesBalancedAllocationArgs,
    ),
    Entry("ImageLocality", ImageLocality, weight=1),
    Entry("DefaultBinder", DefaultBinder),
    # Appended by its feature gate, so that it comes last.
    Entry("NodeDeclaredFeatures", NodeDeclaredFeatures),
)

OTHER_PLUGINS: tuple[Entry, ...] = (
    # Of the scheduler-plugins project: pods of a group together or not at all.
    Entry("Coscheduling", Coscheduling, arguments=CoschedulingArgs),
    # Alpha: in the default configuration by its feature gate only. Who names it has it, as upstream, without the gate.
    Entry("GangScheduling", GangScheduling),
    Entry("TopologyPlacementGenerator", TopologyPlacementGenerator),
    Entry("PodGroupPodsCount", PodGroupPodsCount, weight=1),
    Entry("WorkloadAwarePreemption", WorkloadAwarePreemption),
)
"""In-tree plugins that the default configuration leaves out."""

PLUGINS: dict[str, Entry] = {entry.name: entry for entry in (*DEFAULT_PLUGINS, *OTHER_PLUGINS)}
