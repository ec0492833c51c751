"""What to say of a node that was rejected for its zones."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.plugin import Details, NodeInfo, amount_text
from bayplan_plugins.node_resource_topology.cache import DISCARD, TopologyCache
from bayplan_plugins.node_resource_topology.columns import ZonesView
from bayplan_plugins.node_resource_topology.demand import ZoneDemand, lacking
from bayplan_plugins.node_resource_topology.topologies import Amounts

_SHOWN = 8
"""How many zones are told of a node."""


def details(cache: TopologyCache, demand: ZoneDemand, node: NodeInfo) -> Details | None:
    """Say what each zone lacks, or why the topology of the node doesn't count."""
    name = node.name
    if not cache.fresh(name):
        if cache.kind == DISCARD:
            return Details(f"a pod is being bound to node {name}")
        return Details(f"another scheduler brought pods to node {name} that its NodeResourceTopology doesn't count yet")
    topology, view = cache.topology(name), cache.columns.view(node.alone)
    if topology is None:
        return None

    def short(request: Amounts) -> list[str]:
        zones = enumerate(topology.zones)
        return [_told(lacking(topology, _left(view, at), request, demand), request, zone.number) for at, zone in zones]

    requests = (
        [("the pod", demand.whole)]
        if topology.pod_scope
        else [(f"container {wanted.name}", wanted.amounts) for wanted in demand.containers]
    )
    for of, request in requests:
        told = short(request)
        if all(told):
            rest = f"; and {len(told) - _SHOWN} more zones have too little" if len(told) > _SHOWN else ""
            return Details(f"no zone of node {name} has enough for {of}: {'; '.join(told[:_SHOWN])}{rest}")
    return Details(f"the containers don't fit into the zones of node {name} together")


def _told(found: dict[str, int | None], request: Amounts, number: int) -> str:
    """Say what a zone lacks; "" if it lacks nothing."""
    each = [
        f"no {name}" if has is None else f"{amount_text(name, has)} of {amount_text(name, request[name])} {name}"
        for name, has in sorted(found.items())
    ]
    return f"node-{number} has {', '.join(each)}" if each else ""


def _left(view: ZonesView, zone: int) -> Callable[[str], int | None]:
    """Return a function for what a zone of one node has of a resource."""

    def left(resource: str) -> int | None:
        column = view.available(resource)
        has = -1 if column is None else column.item(zone, 0)
        return None if has < 0 else has

    return left
