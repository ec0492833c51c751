"""A scheduler as a controller: whatever happens to a pod, `reconcile` brings it to what it should be.

A reflector tells of the pods of one scheduler name, a queue holds those that need a look, and what fails is looked at
again:

    python examples/reconcile_loop.py --kubeconfig FILE --scheduler-name reconcile-scheduler
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random

from lightkube.models.core_v1 import Pod

from bayplan.client import ApiError, Client, ConfigError, Reflector, TransportError, connect, kinds

RETRY_SECONDS = 1.0

log = logging.getLogger("reconcile-loop")


class Reconciler:
    """Binds every pod of `scheduler_name` to a random node."""

    def __init__(self, client: Client, scheduler_name: str) -> None:
        self._client = client
        self._work: asyncio.Queue[str] = asyncio.Queue()
        self._pods: Reflector[Pod] = Reflector(
            client, kinds.POD, self, field_selector=f"spec.schedulerName={scheduler_name}"
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            while True:
                key = await self._work.get()
                try:
                    retry = await self.reconcile(self._pods.store.get(key))
                except (ApiError, TransportError) as error:
                    log.warning("%s: %s; trying again", key, error)
                    retry = RETRY_SECONDS
                if retry is not None:
                    asyncio.get_running_loop().call_later(retry, self._work.put_nowait, key)

    async def reconcile(self, pod: Pod | None) -> float | None:
        """Do what is left to do for a pod; return in how many seconds to look at it again, None for not at all."""
        if pod is None or pod.metadata.deletionTimestamp or pod.spec.nodeName:
            return None
        nodes = (await self._client.list(kinds.NODE)).items
        if not nodes:
            return RETRY_SECONDS
        node = random.choice(nodes).metadata.name
        await self._client.bind(pod.metadata.namespace, pod.metadata.name, node, uid=pod.metadata.uid)
        log.info("%s/%s: bound to %s", pod.metadata.namespace, pod.metadata.name, node)
        return None

    def added(self, new: Pod) -> None:
        """A pod was created, or was there when we came."""
        self._work.put_nowait(f"{new.metadata.namespace}/{new.metadata.name}")

    def updated(self, old: Pod, new: Pod) -> None:
        """Whether it has a node is all we care about, and we are the ones who give it one."""

    def deleted(self, old: Pod) -> None:
        """Nothing is left to do: `reconcile` will not find it."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """The server sent a pod that is none."""
        log.warning("skipping a pod: %s", error)


async def main(kubeconfig: str | None, scheduler_name: str) -> None:
    """Reconcile the pods of one cluster."""
    async with connect(kubeconfig) as client:
        await Reconciler(client, scheduler_name).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, the pod's service account")
    parser.add_argument("--scheduler-name", default="reconcile-scheduler")
    arguments = parser.parse_args()
    try:
        asyncio.run(main(arguments.kubeconfig, arguments.scheduler_name))
    except ConfigError as problem:
        parser.exit(2, f"error: {problem}\n")
    except KeyboardInterrupt:
        parser.exit(130)
