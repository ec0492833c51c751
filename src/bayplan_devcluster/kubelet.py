"""Simulated kubelets: one object plays the kubelets of up to thousands of nodes.

Like real kubelets, they are API clients. They share one view of all pods and nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lightkube.models import core_v1

from bayplan.core.api.kinds import NODE
from bayplan.core.api.served import Node
from bayplan.core.versions import OLDEST, Version
from bayplan.foundations.clock import TimerClock
from bayplan.running.client.client import Client
from bayplan_devcluster.controllers.controller import ControllerContext
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.recorder import EventSink
from bayplan_devcluster.kubelet_nodes import SIMULATED, NodeManager, NodeShape, make_node, make_nodes
from bayplan_devcluster.kubelet_pods import EXIT_CODE, RUN_SECONDS, STOP_SECONDS, KubeletDelays, PodManager

__all__ = [
    "EXIT_CODE",
    "RUN_SECONDS",
    "STOP_SECONDS",
    "KubeletDelays",
    "Kubelets",
    "NodeShape",
    "make_node",
    "make_nodes",
]


class Kubelets:
    """Registers `nodes` and runs the pods that are bound to them.

    With `adopt`, they serve every node of the cluster, even one that another client creates. Otherwise they serve the
    nodes with the label bayplan.dev/kubelet=simulated, which registered nodes have. `rate` is the speed of the clock:
    if it is high, leases are renewed less often in the cluster's time. `version`: that of the kubelets.
    """

    def __init__(
        self,
        client: Client,
        clock: TimerClock,
        nodes: Sequence[core_v1.Node] = (),
        *,
        informers: Informers | None = None,
        delays: KubeletDelays | None = None,
        adopt: bool = False,
        rate: float = 1.0,
        version: Version = OLDEST,
    ) -> None:
        self.informers = informers if informers is not None else Informers(client)
        self._adopt = adopt
        self._events = EventSink(client, clock)
        self._known = self.informers.of(NODE)
        context = ControllerContext(client, self.informers, clock, self._events)
        self._nodes = NodeManager(context, nodes, self._serves, rate=rate, version=version)
        self._pods = PodManager(context, self._serves_pods_of, self._nodes.address, delays or KubeletDelays())

    async def run(self) -> None:
        """Run until cancelled. Informers that the caller passed in are run by the caller."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run(), name="kubelet events")
            tasks.create_task(self._nodes.run(), name="kubelet nodes")
            tasks.create_task(self._pods.run(), name="kubelet pods")

    def silence(self, node: str) -> None:
        """Simulate a crash of a node's kubelet: it stops heartbeats and work on pods."""
        self._nodes.silence(node)

    def revive(self, node: str) -> None:
        """Restart the kubelet of a node."""
        self._nodes.revive(node)
        self._pods.revisit(node)

    def _serves(self, node: Node) -> bool:
        return self._adopt or (node.metadata.labels or {}).get(SIMULATED) == "simulated"

    def _serves_pods_of(self, name: str) -> bool:
        node: Node | None = self._known.get(name)
        return node is not None and self._serves(node) and not self._nodes.is_silent(name)
