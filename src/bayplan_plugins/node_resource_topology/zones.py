"""Filter: into which zones of each node the containers of a pod fit, or the pod as a whole.

Mirrors filter.go: a zone fits if it has enough of each resource. Cpu, memory and huge pages of pods that aren't
guaranteed are shared, so that any zone that lists them fits. The kubelet takes the first zone that fits, so the next
container finds less there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayplan.plugin import Rejections, Status
from bayplan_plugins.node_resource_topology.columns import Bool, Int64, ZonesView
from bayplan_plugins.node_resource_topology.demand import ContainerDemand, ZoneDemand, is_affine, is_host_level
from bayplan_plugins.node_resource_topology.topologies import Amounts

INVALID = "invalid node topology data"
NOT_THE_POD = "cannot align pod"
MESSAGES = {"init": "cannot align init container", "sidecar": "cannot align sidecar container"}
NOT_A_CONTAINER = "cannot align container"
ON_EVERY_NODE = {"cpu", "memory", "ephemeral-storage"}
_REASONS = (INVALID, NOT_THE_POD, *MESSAGES.values(), NOT_A_CONTAINER)
STATUSES = [Status.unschedulable(reason) for reason in _REASONS]
STALE, POD, CODES = 1, 2, {"init": 3, "sidecar": 4, "app": 5}
"""One more than the place of the reason, because 0 accepts a node. Containers by their kinds."""

Available = Callable[[str], Int64 | None]


def rejections(view: ZonesView, demand: ZoneDemand, available: Available | None = None) -> Rejections | None:
    """Return which nodes a pod can't use. `available`: what the zones have left, if not what the view says."""
    codes = np.where(view.fresh, 0, STALE).astype(np.int32)
    relevant = view.known & view.single & view.fresh
    if relevant.any():
        read = available or view.available
        whole = relevant & view.pod_scope
        if whole.any():
            codes[whole & ~fits(view, demand.whole, read, guaranteed=demand.guaranteed).any(axis=0)] = POD
        each = relevant & ~view.pod_scope
        if each.any():
            found = align(view, demand, read)
            codes[each] = found[each]
    return Rejections(codes, STATUSES) if codes.any() else None


def fits(view: ZonesView, request: Amounts, available: Available, *, guaranteed: bool) -> Bool:
    """Return which zones have enough for a request: shape (depth, nodes)."""
    zones = np.ones((view.depth, len(view.nodes)), dtype=np.bool_)
    for resource, amount in request.items():
        if amount <= 0:
            continue
        if resource not in ON_EVERY_NODE:
            zones &= view.nodes.allocatable(resource) > 0
        has = available(resource)
        if has is None:
            if not is_host_level(resource):
                zones[:] = False
            continue
        enough = has >= (amount if guaranteed or not is_affine(resource) else 0)
        if is_host_level(resource):
            enough |= (has < 0).all(axis=0)
        zones &= enough
    return zones


def align(view: ZonesView, demand: ZoneDemand, available: Available) -> Int64:
    """Return a code for each node: of the first container that fits into no zone; 0 if all of them fit."""
    codes = np.zeros(len(view.nodes), dtype=np.int64)
    taken: dict[str, Int64] = {}

    def left(resource: str) -> Int64 | None:
        return taken[resource] if resource in taken else available(resource)

    last = demand.containers[-1] if demand.containers else None
    for wanted in demand.containers:
        zones = fits(view, wanted.amounts, left, guaranteed=demand.guaranteed)
        codes[(codes == 0) & ~zones.any(axis=0)] = CODES[wanted.kind]
        if wanted.kind == "app" and wanted is not last:
            _take(wanted, zones.argmax(axis=0), left, taken, demand)
    return codes


def _take(wanted: ContainerDemand, zone: Int64, left: Available, taken: dict[str, Int64], demand: ZoneDemand) -> None:
    """Take what a container requests from the zone that it gets on each node."""
    nodes = np.arange(len(zone))
    for resource, amount in wanted.amounts.items():
        has = left(resource)
        if amount <= 0 or has is None or not demand.takes(resource):
            continue
        mine = has[zone, nodes]
        taken[resource] = has.copy() if resource not in taken else has
        taken[resource][zone, nodes] = np.where(mine < 0, mine, np.maximum(mine - amount, 0))
