"""The simplest scheduler: every second, list the unscheduled pods and the nodes, choose a node, and bind.

It schedules the pods whose spec.schedulerName is polling-scheduler:

    python examples/polling_scheduler.py --kubeconfig FILE

Both choices are functions. Write your own and pass them to `PollingScheduler`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from lightkube.models.core_v1 import Node, Pod

from bayplan.client import ApiError, Client, ConfigError, TransportError, connect, kinds

NAME = "polling-scheduler"

log = logging.getLogger(NAME)


def ready_nodes(pod: Pod, nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the nodes that are ready, and neither cordoned nor tainted."""
    return [
        node
        for node in nodes
        if not node.spec.unschedulable
        and not node.spec.taints
        and any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions or ())
    ]


def any_node(pod: Pod, available: Sequence[Node]) -> Node | None:
    """Return a random node. None, which means that there are no nodes, leaves the pod to the next round."""
    return random.choice(available) if available else None


class PollingScheduler:
    """Schedules all pending pods once every `interval` seconds."""

    def __init__(
        self,
        client: Client,
        *,
        choose_available: Callable[[Pod, Sequence[Node]], Sequence[Node]] = ready_nodes,
        choose_node: Callable[[Pod, Sequence[Node]], Node | None] = any_node,
        interval: float = 1.0,
    ) -> None:
        self._client = client
        self._choose_available = choose_available
        self._choose_node = choose_node
        self._interval = interval

    async def run(self) -> None:
        """Schedule until cancelled. Errors of the API server are logged."""
        while True:
            try:
                await self.round()
            except (ApiError, TransportError) as error:
                log.warning("round failed: %s", error)
            await asyncio.sleep(self._interval)

    async def round(self) -> None:
        """Schedule every pending pod."""
        pending = await self._client.list(kinds.POD, field_selector=f"spec.schedulerName={NAME},spec.nodeName=")
        nodes = await self._client.list(kinds.NODE)
        for pod in pending.items:
            node = self._choose_node(pod, self._choose_available(pod, nodes.items))
            if node is None:
                log.info("%s/%s: no node available", pod.metadata.namespace, pod.metadata.name)
            else:
                await self._bind(pod, node)

    async def _bind(self, pod: Pod, node: Node) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            await self._client.bind(namespace, name, node.metadata.name, uid=pod.metadata.uid)
            log.info("%s/%s: bound to %s", namespace, name, node.metadata.name)
        except (ApiError, TransportError) as error:
            log.warning("%s/%s: not bound to %s: %s", namespace, name, node.metadata.name, error)


async def main(kubeconfig: str | None, interval: float) -> None:
    """Connect to a cluster and schedule its pods."""
    async with connect(kubeconfig) as client:
        await PollingScheduler(client, interval=interval).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, or the pod's service account")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two rounds (default: 1)")
    arguments = parser.parse_args()
    try:
        asyncio.run(main(arguments.kubeconfig, arguments.interval))
    except ConfigError as problem:
        parser.exit(2, f"error: {problem}\n")
    except KeyboardInterrupt:
        parser.exit(130)
