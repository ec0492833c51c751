"""Which claims have to be allocated on a node: there, devices may have to provide extended resources of the pod.

Nodes differ in that: one has the resource itself, another one has devices that stand for it. Nodes with the same needs
are one group, which is searched together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.classes import ExtendedResources
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.extended_resources import (
    CANNOT_FIT,
    STALE,
    is_filled,
    with_requests,
    without_resources,
)
from bayplan.core.plugins.dynamic_resources.state import Needs, PodDevices


class NodeNeeds:
    """Groups nodes by the claims that a pod needs to be allocated there."""

    def __init__(self, extended: ExtendedResources) -> None:
        self._extended = extended

    def of(self, state: PodDevices, pod: PodInfo, nodes: Nodes) -> Iterator[tuple[Rows, Needs | Status]]:
        """The claims to allocate, or the rejection, by positions of nodes."""
        extended = state.extended_claim
        if extended is None:
            claims = [state.claims[place] for place in state.to_allocate()]
            yield np.arange(len(nodes)), Needs(claims)
            return
        for positions, by_devices in without_resources(state.extended_requests, nodes, self._extended):
            if by_devices is None:
                yield positions, CANNOT_FIT
                continue
            needs = state.needs.get(by_devices)
            if needs is None:
                needs = state.needs[by_devices] = self._with(state, extended, pod, by_devices)
            yield positions, needs

    def on(self, state: PodDevices, pod: PodInfo, node: Nodes) -> Needs | Status:
        """The same for a selection of one node."""
        ((_, needs),) = self.of(state, pod, node)
        return needs

    def _with(
        self, state: PodDevices, extended: ResourceClaim, pod: PodInfo, by_devices: frozenset[str]
    ) -> Needs | Status:
        if is_filled(extended):
            return STALE
        if not by_devices and not state.own:
            return Needs([])
        on_node, mappings = with_requests(extended, pod, by_devices, self._extended)
        claims = [state.claims[place] for place in state.to_allocate()]
        return Needs([on_node if claim is extended else claim for claim in claims], on_node, mappings)
