"""DevCluster: the embedded cluster: an API server, controllers and simulated kubelets.

It runs while its context is entered. If a component fails, all are stopped, and its error is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from lightkube.models import core_v1

from bayplan.core.api.kinds import NODE
from bayplan.core.api.served import Node
from bayplan.foundations.clock import RunningClock, TimerClock
from bayplan.foundations.file_replacement import replace_text
from bayplan.foundations.tls import client_context
from bayplan.running.client.access import ClusterAccess
from bayplan.running.client.client import Client
from bayplan.running.client.http import HttpClient
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan_devcluster.controllers.node_lifecycle import NOT_READY, is_tainted
from bayplan_devcluster.in_memory import InMemoryClient
from bayplan_devcluster.kubelet import KubeletDelays, Kubelets, make_nodes
from bayplan_devcluster.kubelet_nodes import is_healthy, name_of

log = logging.getLogger(__name__)

CONTEXT = "bayplan"
"""The name of the context in the kubeconfig."""


class DevCluster:
    """A Kubernetes cluster in this process, on the loopback interface. It runs while its context is entered.

    `nodes` is the number of nodes, or the nodes themselves (see `kubelet.make_node`). All components share `clock`; a
    `ManualClock` changes only when a test advances it. `server` is the API server, with the same clock; by default,
    one on a free port, without credentials. Controllers and kubelets are ordinary clients, with the rights of the first
    user of the server, which is to be an administrator. They call a server that doesn't listen in memory.
    A kubelet serves every node, even one that another client creates.
    """

    def __init__(
        self,
        nodes: int | Sequence[core_v1.Node] = 3,
        *,
        clock: TimerClock | None = None,
        server: ApiServer | None = None,
        controllers: bool = True,
        kubelets: bool = True,
        delays: KubeletDelays | None = None,
    ) -> None:
        self.clock: TimerClock = clock or RunningClock()
        self.server = server or ApiServer(clock=self.clock)
        self.kubelets: Kubelets | None = None
        self.client: Client
        made = make_nodes(nodes) if isinstance(nodes, int) else list(nodes)
        self._nodes = made if kubelets else []
        self._controllers = controllers
        self._with_kubelets = kubelets
        self._delays = delays
        self.informers: Informers
        self._parts: list[Kubelets | ControllerManager]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            self.client = await stack.enter_async_context(self._connect())
            self._make_parts()
            stack.push_async_callback(_stopped, asyncio.create_task(self._run(), name="cluster"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> bool | None:
        return await self._stack.__aexit__(*error)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.server.url

    @property
    def node_names(self) -> set[str]:
        """The initial nodes; none without kubelets, which register the nodes."""
        return set(map(name_of, self._nodes))

    async def nodes_ready(self, names: Iterable[str] | None = None) -> None:
        """Wait until nodes are registered and Ready, and no longer have the taint of new nodes: the initial ones.

        `names` are other nodes to wait for. Returns at once without kubelets, which make nodes Ready.
        """
        awaited = self.node_names if names is None or not self._with_kubelets else set(names)
        all_ready = asyncio.Event()

        def check(_: Node, node: Node) -> None:
            if node is not None and is_healthy(node) and not (self._controllers and is_tainted(node, NOT_READY)):
                awaited.discard(node.metadata.name)
            if not awaited:
                all_ready.set()

        known = self.informers.of(NODE)
        known.listen(check)
        if awaited:
            await all_ready.wait()
        known.leave(check)

    def kubeconfig(self) -> str:
        """A kubeconfig for kubectl and other clients, as YAML."""
        return self.server.kubeconfig()

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig to a file that only the owner can read."""
        replace_text(path, self.kubeconfig(), private=True)

    def _connect(self) -> Client:
        server = self.server
        if not server.listens:
            return InMemoryClient(server, token=server.first_token or "")
        trust = client_context(server.authority) if server.authority else None
        headers = (("Authorization", f"Bearer {server.first_token}"),) if server.first_token is not None else ()
        return HttpClient(ClusterAccess(server=self.url, tls=trust, headers=headers))

    def _make_parts(self) -> None:
        self.informers = Informers(self.client)
        self._parts = []
        if self._with_kubelets:
            rate = self.clock.rate if isinstance(self.clock, RunningClock) else 1.0
            self.kubelets = Kubelets(
                self.client,
                self.clock,
                self._nodes,
                informers=self.informers,
                delays=self._delays,
                adopt=True,
                rate=rate,
                version=self.server.version,
            )
            self._parts.append(self.kubelets)
        if self._controllers:
            manager = ControllerManager(
                self.client,
                self.clock,
                WORKLOADS,
                informers=self.informers,
                root_ca=self.server.authority,
                taint_rules=self.server.taint_rules,
                pod_groups=self.server.pod_groups,
            )
            self._parts.append(manager)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in (self.informers, *self._parts):
                    tasks.create_task(part.run())
        except ExceptionGroup:
            log.exception("controllers and kubelets have stopped")
            raise


async def _stopped(running: asyncio.Task[None]) -> None:
    """Stop the components. If one failed, which stopped the others, raise its error."""
    running.cancel()
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()
