"""Simulated kubelets: one object stands in for those of thousands of nodes.

They are API clients like real ones, and share one view of all pods and nodes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from bayplan.api.kinds import NODE
from bayplan.client import Client
from bayplan.devcluster.clock import Clock
from bayplan.devcluster.controllers.controller import ControllerContext
from bayplan.devcluster.controllers.informers import Informers
from bayplan.devcluster.controllers.recorder import EventSink
from bayplan.devcluster.controllers.served import Node
from bayplan.devcluster.kubelet_nodes import SIMULATED, NodeManager, NodeShape, make_node, make_nodes
from bayplan.devcluster.kubelet_pods import EXIT_CODE, RUN_SECONDS, KubeletDelays, PodManager
from bayplan.devcluster.kubelet_termination import STOP_SECONDS

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

    With `adopt` every node of the cluster is served, also one that somebody else creates; otherwise those with the
    label bayplan.dev/kubelet=simulated, which registered nodes have. `rate` is how fast the clock runs: it keeps the
    signs of life affordable.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        nodes: Sequence[Node] = (),
        *,
        informers: Informers | None = None,
        delays: KubeletDelays | None = None,
        adopt: bool = False,
        rate: float = 1.0,
        rng: random.Random | None = None,
    ) -> None:
        self.informers = informers if informers is not None else Informers(client)
        self._adopt = adopt
        self._events = EventSink(client, clock)
        self._known = self.informers.of(NODE)
        context = ControllerContext(client, self.informers, clock, self._events)
        self._nodes = NodeManager(context, nodes, self._serves, rate=rate, rng=rng or random.Random())
        self._pods = PodManager(context, self._serves_pods_of, self._nodes.address, delays or KubeletDelays())

    async def run(self) -> None:
        """Run until cancelled. Informers that were handed in are run by their owner."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run(), name="kubelet events")
            tasks.create_task(self._nodes.run(), name="kubelet nodes")
            tasks.create_task(self._pods.run(), name="kubelet pods")

    def silence(self, node: str) -> None:
        """The kubelet of a node crashes: no sign of life, no work on pods."""
        self._nodes.silence(node)

    def revive(self, node: str) -> None:
        """It comes back."""
        self._nodes.revive(node)
        self._pods.revisit(node)

    def _serves(self, node: Node) -> bool:
        return self._adopt or (node.metadata.labels or {}).get(SIMULATED) == "simulated"

    def _serves_pods_of(self, name: str) -> bool:
        node: Node | None = self._known.get(name)
        return node is not None and self._serves(node) and not self._nodes.is_silent(name)
