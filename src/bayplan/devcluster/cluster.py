"""The embedded cluster: API server, controllers and kubelets, put together."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from bayplan.api.kinds import NODE
from bayplan.client import Client, ClusterAccess, HttpClient
from bayplan.devcluster.apiserver import ADMIN, ApiServer
from bayplan.devcluster.apiserver.http.tls import Tls
from bayplan.devcluster.clock import Clock, RunningClock
from bayplan.devcluster.controllers.informers import Informers
from bayplan.devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan.devcluster.controllers.node_lifecycle import NOT_READY, is_tainted
from bayplan.devcluster.controllers.served import Node
from bayplan.devcluster.in_memory import InMemoryClient
from bayplan.devcluster.kubelet import KubeletDelays, Kubelets, make_nodes
from bayplan.devcluster.kubelet_nodes import is_healthy

log = logging.getLogger(__name__)

CONTEXT = "bayplan"
"""The name of the context in its kubeconfig."""


class DevCluster:
    """A Kubernetes cluster in this process, on loopback, while its context is entered.

    `nodes` is how many nodes there are, or the nodes themselves (see `kubelet.make_node`). `clock` is everybody's; with
    a `ManualClock` nothing happens later unless a test moves it. `port` 0 takes a free one. With `rbac`, roles and
    bindings decide who may do what, and the kubeconfig is an administrator's; with `alpha` the server has PodGroups.
    Controllers and kubelets, administrators too, talk to it over HTTP as any client does, and every node is served by a
    kubelet, whoever creates it.
    """

    def __init__(
        self,
        nodes: int | Sequence[Node] = 3,
        *,
        clock: Clock | None = None,
        listen: bool = True,
        port: int = 0,
        tls: bool = False,
        rbac: bool = False,
        alpha: bool = False,
        controllers: bool = True,
        kubelets: bool = True,
        delays: KubeletDelays | None = None,
    ) -> None:
        self.clock: Clock = clock or RunningClock()
        self._tls = Tls.create() if tls else None
        # Over TLS, kubectl asks for a password where the kubeconfig has no credentials.
        self._token = secrets.token_urlsafe() if tls or rbac else None
        tokens = {self._token: ADMIN} if self._token else None
        self._listen = listen
        self.server = ApiServer(
            listen=listen, port=port, clock=self.clock, tls=self._tls, tokens=tokens, rbac=rbac, alpha=alpha
        )
        self.port = port
        """The port that was asked for."""
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
            stack.push_async_callback(_ended, asyncio.create_task(self._run(), name="cluster"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> bool | None:
        return await self._stack.__aexit__(*error)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        """Where the API server is."""
        return self.server.url

    @property
    def node_names(self) -> set[str]:
        """The nodes that it was made with; none without kubelets, which register them."""
        return {node.metadata.name for node in self._nodes}

    async def nodes_ready(self, names: Iterable[str] | None = None) -> None:
        """Wait until nodes are there, Ready and free of the taint of new nodes: those that the cluster was made with.

        `names` are other nodes to wait for. Returns at once without kubelets, which make nodes Ready.
        """
        awaited = self.node_names if names is None or not self._with_kubelets else set(names)
        all_ready = asyncio.Event()

        def look(_: Node, node: Node) -> None:
            if node is not None and is_healthy(node) and not (self._controllers and is_tainted(node, NOT_READY)):
                awaited.discard(node.metadata.name)
            if not awaited:
                all_ready.set()

        known = self.informers.of(NODE)
        known.listen(look)
        if awaited:
            await all_ready.wait()
        known.leave(look)

    def kubeconfig(self) -> str:
        """What kubectl and other clients need to reach the cluster, as YAML."""
        return self.server.kubeconfig()

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig to a file that only its owner can read."""
        path.touch(mode=0o600)
        path.write_text(self.kubeconfig(), encoding="utf-8")

    def _connect(self) -> Client:
        if not self._listen:
            return InMemoryClient(self.server, token=self._token or "")
        trust = ssl.create_default_context(cadata=self._tls.authority.decode()) if self._tls is not None else None
        headers = (("Authorization", f"Bearer {self._token}"),) if self._token is not None else ()
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
            )
            self._parts.append(self.kubelets)
        if self._controllers:
            self._parts.append(ControllerManager(self.client, self.clock, WORKLOADS, informers=self.informers))

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in (self.informers, *self._parts):
                    tasks.create_task(part.run())
        except ExceptionGroup:
            log.exception("controllers and kubelets have stopped")
            raise


async def _ended(running: asyncio.Task[None]) -> None:
    """End the parts. The failure of one, which ends the others, is raised here."""
    running.cancel()
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()
