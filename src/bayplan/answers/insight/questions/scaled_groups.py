"""The groups that an autoscaler may grow in a cluster that is known by a snapshot: its pools, zone by zone."""

from __future__ import annotations

from lightkube.models.core_v1 import Node

from bayplan.answers.insight.questions.node_groups import NodeGroup, maker, node_groups
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.parameters import AutoscalerParameters
from bayplan.answers.simulation.world import World


def scaled_groups(world: World, parameters: AutoscalerParameters) -> list[ScaledGroup]:
    """Return a group for each pool and zone. New nodes are like those that the world has now."""
    return [_scaled(world, group, zone, parameters) for group in node_groups(world) for zone in sorted(group.like)]


def _scaled(world: World, group: NodeGroup, zone: str, parameters: AutoscalerParameters) -> ScaledGroup:
    names = frozenset(group.names[zone])
    parts = (group.pool, group.instance_type, zone)
    name = "-".join(filter(None, parts)) or "node"
    least, most = parameters.limits(*parts)

    def has(node: Node) -> bool:
        return node.metadata is not None and node.metadata.name in names

    make = maker(world, group.like[zone])
    return ScaledGroup(name, make, has, least, most, delay=parameters.node_startup_seconds)
