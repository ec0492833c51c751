"""VolumeBinding: a node must be able to access or provision a pod's volumes. PreBind binds the claims.

Reserve assumes volumes in memory; PreBind writes them, and waits until the volume controller has bound all claims. What
isn't written is undone. `search.py` finds volumes for all nodes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from bayplan.core.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
)
from bayplan.core.api.volumes import class_of_claim
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import EventHint
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.missing_volumes import MissingVolumes
from bayplan.core.framework.normalization import MAX_SHAPE_SCORE, utilization_curve
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.arguments import VolumeBindingArgs
from bayplan.core.plugins.volume_binding.capacity import Capacities, Planned
from bayplan.core.plugins.volume_binding.claims import PodClaims, sort_claims
from bayplan.core.plugins.volume_binding.explaining import VolumeExplanations, unbound_text
from bayplan.core.plugins.volume_binding.hints import volume_events
from bayplan.core.plugins.volume_binding.reservation import BindingFailed, Progress, Reservation
from bayplan.core.plugins.volume_binding.scoring import scores
from bayplan.core.plugins.volume_binding.search import VolumeSearch
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

_NO_ARGUMENTS = VolumeBindingArgs()
_MOST_FREE_FIRST = [(0, MAX_SHAPE_SCORE), (100, 0)]
"""The default shape."""


@dataclass(slots=True)
class _PodState:
    """The plugin's state for a pod with claims."""

    claims: PodClaims
    planned: Planned | None
    """The volumes of the other members of the pod's gang."""
    reservation: Reservation | None = None


class VolumeBinding(OnlyPlaces):
    """Mirrors plugins/volumebinding/volume_binding.go."""

    name = "VolumeBinding"
    reads_pods = False
    arguments = VolumeBindingArgs

    def __init__(
        self, handle: Handle, args: VolumeBindingArgs = _NO_ARGUMENTS, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self._missing = MissingVolumes(handle)
        self._handle = handle
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)
        self._volumes = handle.objects(PERSISTENT_VOLUME)
        self._classes = handle.objects(STORAGE_CLASS)
        self._pods = handle.objects(POD)
        self._nodes = handle.objects(NODE)
        capacities = Capacities(handle.objects(CSI_DRIVER), handle.objects(CSI_STORAGE_CAPACITY))
        self._search = VolumeSearch(self._volumes, self._classes, handle.objects(CSI_NODE), capacities)
        self._explanations = VolumeExplanations(self._search, self._volumes, self._classes, capacities, self._missing)
        self._timeout = args.bindTimeoutSeconds
        points = [(point.utilization, point.score) for point in args.shape or ()]
        scoring = gates.enabled("StorageCapacityScoring")
        self._curve = utilization_curve(points or _MOST_FREE_FIRST) if scoring else None

    def contends(self, pod: PodInfo, other: PodInfo) -> bool:
        """Whether both pods have claims of one class that aren't bound yet."""
        return not self._unbound_classes(pod).isdisjoint(self._unbound_classes(other))

    def _unbound_classes(self, pod: PodInfo) -> set[str]:
        claims = sort_claims(pod, self._claims, self._volumes, self._classes) if pod.volumes else None
        return {class_of_claim(claim) for claim, _ in claims.waiting} if isinstance(claims, PodClaims) else set()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Reject a pod with claims that must be created or bound first.

        Skip pods without claims, and pods whose volumes can be used on every node.
        """
        if not pod.volumes:
            return SKIP
        claims = sort_claims(pod, self._claims, self._volumes, self._classes)
        if claims is None:
            return SKIP
        if isinstance(claims, Status):
            return claims
        gang: Gang | None = cycle.data.get(PLACED_WITH)
        planned = None if gang is None else gang.data.setdefault(self.name, Planned())
        cycle.data[self.name] = _PodState(claims, planned)
        required = self._search.requirements(claims, nodes)
        return SKIP if required is not None and not required else None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject the nodes that can't satisfy a claim."""
        state: _PodState = cycle.data[self.name]
        return self._search.find(state.claims, nodes, state.planned).rejections()

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip scoring without the feature gate StorageCapacityScoring.

        As upstream, pods without claims are scored, too, and scoring fails if PreFilter did not run.
        """
        if self._curve is None:
            return SKIP
        ran = self.name in cycle.data or self.name in cycle.skip_filter
        return None if ran else Status.error("not found")

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Score the utilization of volumes, and of the capacity for new ones, with the shape."""
        state: _PodState | None = cycle.data.get(self.name)
        if self._curve is None or state is None or not state.claims.waiting:
            return np.zeros(len(nodes), dtype=np.int64)
        return scores(self._search.find(state.claims, nodes, state.planned), self._curve)

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve volumes and provisioning in memory, without writing to the API server.

        As upstream, this fails if PreFilter did not run.
        """
        state: _PodState | None = cycle.data.get(self.name)
        if state is None and self.name not in cycle.skip_filter:
            return Status.error("not found")
        if state is None or not state.claims.waiting:
            return None
        nodes = self._handle.nodes
        position = nodes.position(node_name)
        if position is None:
            return Status.error(f'node "{node_name}" not found')
        found = self._search.find(state.claims, nodes.at(np.array([position])), state.planned)
        rejections = found.rejections()
        if rejections is not None:
            status: Status = rejections.statuses[int(rejections.index[0]) - 1]
            return status
        state.reservation = Reservation.make(found.at(0), node_name, self._claims, self._volumes, state.planned)
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the unwritten parts of the reservation."""
        state: _PodState | None = cycle.data.get(self.name)
        if state is not None and state.reservation is not None:
            state.reservation.release()

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Skip PreBind without a reservation."""
        state: _PodState | None = cycle.data.get(self.name)
        return SKIP if state is None or state.reservation is None else None

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write the reservation, then wait until the volume controller has bound all claims."""
        state: _PodState | None = cycle.data.get(self.name)
        if state is None or state.reservation is None:
            return None
        client = self._handle.client
        if client is None:
            return Status.error("binding volumes: there is no API server to write to")
        await state.reservation.write(client, asyncio.sleep)
        progress = Progress(state.reservation, pod.key, node_name, self._handle, self._search)
        stores = (self._claims, self._volumes, self._pods, self._nodes)
        try:
            bound = await self._handle.until(lambda: progress.done(self._pods), stores, self._timeout)
        except BindingFailed as failure:
            return Status.error(f"binding volumes: {failure}")
        return None if bound else Status.error("binding volumes: context deadline exceeded")

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The claims and volumes that the node, or the pod itself, is rejected for."""
        state: _PodState | None = cycle.data.get(self.name)
        if node is None or state is None:
            return Details(unbound_text(pod, self._claims, self._classes), self._missing.remedies(pod))
        return self._explanations.of(state.claims, pod, node)

    def events(self) -> Iterable[EventHint]:
        """Most changes of volumes and related objects can help."""
        return volume_events()

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: what matters are the claims, which `rests_on` finds."""
        return ()

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """The node affinities of the volumes. None for a pod that still needs volumes: other pods may take them."""
        claims = sort_claims(pod, self._claims, self._volumes, self._classes) if pod.volumes else None
        if claims is None:
            return ()
        if isinstance(claims, Status):
            return None
        required = self._search.requirements(claims, nodes)
        return () if required is not None and not required else required
