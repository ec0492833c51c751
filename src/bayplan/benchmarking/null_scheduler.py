"""A scheduler that decides nothing: it binds pods round robin and writes an event for each, with Bayplan's client.

It shows how many pods a second the API server and the client can bind. Its arguments are a kubeconfig and its name:

    python -m bayplan.benchmarking.null_scheduler KUBECONFIG NAME
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.clock import SystemClock
from bayplan.running.client.client import Client
from bayplan.running.client.connection import connect
from bayplan.running.client.errors import ApiError, TransportError
from bayplan.running.client.list_watch import ListWatch
from bayplan.running.service.event_recorder import EventRecorder

log = logging.getLogger(__name__)


class NullScheduler:
    """Binds each pod of its name as soon as it appears, to one node after the other."""

    def __init__(self, client: Client, events: Client, name: str) -> None:
        """`events` writes the events, as in Bayplan."""
        self._client = client
        self._name = name
        self._recorder = EventRecorder(events, SystemClock())
        self._nodes: list[str] = []
        self._waiting: list[PodInfo] = []
        """Pods that appeared before the first node."""
        self._bound: set[str] = set()
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Bind pods until cancelled."""
        nodes = ListWatch[Any](self._client, NODE, _Sink(self._node_seen, self._node_gone))
        pods = ListWatch[Any](self._client, POD, _Sink(self._pod_seen), decode=PodInfo.from_raw)
        await asyncio.gather(nodes.run(), pods.run(), self._recorder.run())

    def _node_seen(self, name: str, _: object) -> None:
        if name not in self._nodes:
            self._nodes.append(name)
        waiting, self._waiting = self._waiting, []
        for pod in waiting:
            self._start(pod)

    def _node_gone(self, name: str) -> None:
        self._nodes.remove(name)

    def _pod_seen(self, _: str, pod: PodInfo) -> None:
        pending = not (pod.node_name or pod.terminating or pod.scheduling_gates)
        if pending and pod.scheduler_name == self._name and pod.uid not in self._bound:
            self._bound.add(pod.uid)
            self._start(pod)

    def _start(self, pod: PodInfo) -> None:
        if not self._nodes:
            self._waiting.append(pod)
            return
        self._turn = (self._turn + 1) % len(self._nodes)
        task = asyncio.create_task(self._bind(pod, self._nodes[self._turn]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, pod: PodInfo, node: str) -> None:
        try:
            await self._client.bind(pod.namespace, pod.name, node, uid=pod.uid)
        except (ApiError, TransportError) as error:
            log.warning("pod %s was not bound: %s", pod.key, error)
            return
        note = f"Successfully assigned {pod.key} to {node}"
        self._recorder.record(pod, self._name, "Normal", "Scheduled", "Binding", note)


class _Sink:
    """Passes the changes of a watch on."""

    def __init__(self, seen: Callable[[str, Any], None], gone: Callable[[str], None] = lambda _: None) -> None:
        self.put = seen
        self.removed = gone

    def undecodable(self, raw: bytes, error: Exception) -> None:
        log.error("ignoring an object that cannot be decoded: %s", error)


async def _main(kubeconfig: str, name: str) -> None:
    async with connect(kubeconfig) as client, connect(kubeconfig) as events:
        await NullScheduler(client, events, name).run()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
