"""A scheduler as a controller: `reconcile` brings each pod to its desired state.

A reflector reports the pods of one scheduler name, a queue holds the pods to reconcile, and failed pods are retried:

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
                    log.warning("%s: %s; retrying", key, error)
                    retry = RETRY_SECONDS
                if retry is not None:
                    asyncio.get_running_loop().call_later(retry, self._work.put_nowait, key)

    async def reconcile(self, pod: Pod | None) -> float | None:
        """Bind the pod if it needs a node. Return the seconds until a retry, or None if it is done."""
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
        """Queue a pod that was created, or existed at startup."""
        self._work.put_nowait(f"{new.metadata.namespace}/{new.metadata.name}")

    def updated(self, old: Pod, new: Pod) -> None:
        """Ignore updates: only the node matters, and only this scheduler sets it."""

    def deleted(self, old: Pod) -> None:
        """Ignore deletions: nothing is left to do."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Log a pod that can't be decoded."""
        log.warning("skipping a pod: %s", error)


async def main(kubeconfig: str | None, scheduler_name: str) -> None:
    """Connect to a cluster and reconcile its pods."""
    async with connect(kubeconfig) as client:
        await Reconciler(client, scheduler_name).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, or the pod's service account")
    parser.add_argument("--scheduler-name", default="reconcile-scheduler")
    arguments = parser.parse_args()
    try:
        asyncio.run(main(arguments.kubeconfig, arguments.scheduler_name))
    except ConfigError as problem:
        parser.exit(2, f"error: {problem}\n")
    except KeyboardInterrupt:
        parser.exit(130)
