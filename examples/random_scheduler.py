"""A scheduler in one file that uses only the API client: a random filter and a random score.

It schedules the pods whose spec.schedulerName is random-scheduler:

    python examples/random_scheduler.py --kubeconfig FILE
    kubectl apply -f examples/manifests/nginx.yaml   # with schedulerName: random-scheduler
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime

from lightkube.models.core_v1 import Node, Pod

from bayplan.client import ApiError, Client, ConfigError, Reflector, TransportError, connect, kinds

NAME = "random-scheduler"
RETRY_SECONDS = 1.0

log = logging.getLogger(NAME)


def random_filter(pod: Pod, node: Node) -> bool:
    """Accept about half of the nodes."""
    return random.random() < 0.5


def random_score(pod: Pod, node: Node) -> int:
    """Give each node a random score."""
    return random.randrange(100)


FILTERS: tuple[Callable[[Pod, Node], bool], ...] = (random_filter,)
SCORES: tuple[Callable[[Pod, Node], int], ...] = (random_score,)


class RandomScheduler:
    """Schedules pods one by one, in the order in which its reflector reports them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        mine = f"spec.schedulerName={NAME},spec.nodeName="
        self._pods: Reflector[Pod] = Reflector(client, kinds.POD, self, field_selector=mine)

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            while True:
                key = await self._queue.get()
                if pod := self._pods.store.get(key):  # otherwise it was deleted, or already has a node
                    await self._try_to_schedule(key, pod)

    async def _try_to_schedule(self, key: str, pod: Pod) -> None:
        log.info("found a pod to schedule: %s", key)
        try:
            scheduled = await self._schedule(pod)
        except (ApiError, TransportError) as error:
            log.warning("cannot schedule %s: %s", key, error)
            scheduled = False
        if not scheduled:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._queue.put_nowait, key)

    async def _schedule(self, pod: Pod) -> bool:
        nodes = (await self._client.list(kinds.NODE)).items
        feasible = [node for node in nodes if all(passes(pod, node) for passes in FILTERS)]
        if not feasible:
            log.info("no node passed the filters")
            return False
        priorities = {node.metadata.name: sum(score(pod, node) for score in SCORES) for node in feasible}
        log.info("priorities: %s", priorities)
        best = max(priorities, key=priorities.__getitem__)
        await self._client.bind(pod.metadata.namespace, pod.metadata.name, best, uid=pod.metadata.uid)
        await self._record(pod, best)
        return True

    async def _record(self, pod: Pod, node: str) -> None:
        metadata = pod.metadata
        message = f"pod [{metadata.namespace}/{metadata.name}] is successfully scheduled to node {node}"
        log.info(message)
        now = datetime.now(UTC).replace(microsecond=0)
        event = {
            "metadata": {"generateName": f"{metadata.name}.", "namespace": metadata.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "type": "Normal",
            "reason": "Scheduled",
            "message": message,
            "source": {"component": NAME},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(kinds.CORE_EVENT, event)

    def added(self, new: Pod) -> None:
        """Queue a pod that needs a node."""
        self._queue.put_nowait(f"{new.metadata.namespace}/{new.metadata.name}")

    def updated(self, old: Pod, new: Pod) -> None:
        """The pod is already in the queue."""

    def deleted(self, old: Pod) -> None:
        """The pod was deleted or has a node. `run` skips it, because the store no longer contains it."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Log a pod that can't be decoded."""
        log.warning("skipping a pod: %s", error)


async def main(kubeconfig: str | None) -> None:
    """Connect to a cluster and schedule its pods."""
    async with connect(kubeconfig) as client:
        await RandomScheduler(client).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, or the pod's service account")
    try:
        asyncio.run(main(parser.parse_args().kubeconfig))
    except ConfigError as problem:
        parser.exit(2, f"error: {problem}\n")
    except KeyboardInterrupt:
        parser.exit(130)
