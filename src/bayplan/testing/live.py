"""A live cluster for a test: an embedded API server, nodes and a scheduler with the plugins under test, over HTTP.

All of it runs in a thread of its own, so that a test need not be asynchronous:

with LiveCluster(MyPlugin, nodes=[make_node("a"), make_node("b")]) as cluster:
    cluster.create(make_pod("web"))
    assert cluster.wait_until_bound("web") == "a"
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from lightkube.models.core_v1 import Node

from bayplan.api.kinds import Kind
from bayplan.client import ClusterAccess
from bayplan.config import ExtraPlugin
from bayplan.devcluster.cluster import DevCluster
from bayplan.devcluster.kubelet import KubeletDelays
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Profile
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.builders import make_node
from bayplan.testing.configured import DEFAULT_SCHEDULER, configured_profiles
from bayplan.testing.documents import as_sent
from bayplan.testing.observer import Observer, condition_of
from bayplan.testing.running import FAST, running_scheduler

T = TypeVar("T")

_QUICK = KubeletDelays(start=0.05, stop=0.05, job=1.0)


class LiveCluster:
    """A cluster with a scheduler, while it is entered.

    `nodes`: the nodes, or how many (`node-0` on). The scheduler has the default plugins and these, and takes the pods
    of `scheduler_name`, or it is what the KubeSchedulerConfiguration in the file `configuration` says, where `plugins`
    are those that it may name. Raises ConfigurationError and PluginLoadError on entering.
    """

    def __init__(
        self,
        *plugins: ExtraPlugin,
        nodes: int | Sequence[Node] = 3,
        scheduler_name: str = DEFAULT_SCHEDULER,
        configuration: str | Path | None = None,
        settings: Settings = FAST,
    ) -> None:
        self._plugins = plugins
        self._nodes = [make_node(f"node-{number}") for number in range(nodes)] if isinstance(nodes, int) else nodes
        self._scheduler_name = scheduler_name
        self._configuration = configuration
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.observer: Observer
        """Sees all that happens; of the cluster's thread, as `scheduler` is."""
        self.scheduler: Scheduler
        self.dev_cluster: DevCluster

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="live cluster", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.join()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # it may have ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def kubeconfig(self) -> str:
        """What kubectl and other clients need to reach the cluster, as YAML."""
        return self.dev_cluster.kubeconfig()

    def create(self, *objects: Any) -> None:
        """Create objects, in this order: pods as PodInfo, typed objects, or documents with apiVersion and kind.

        Custom ones are `("plural.version.group", document)`, once they are defined.
        """
        self._call(self._create(objects))

    def delete(self, obj: Any) -> None:
        """Delete an object, without a grace period."""
        self._call(self._delete(obj))

    def patch(self, kind: Kind, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> None:
        """Change fields of an object; None takes one away."""
        self._call(self.dev_cluster.client.patch(kind, name, patch, namespace))

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Where a pod is; "" while it waits, or is not there."""
        return self.observer.node_of(f"{namespace}/{name}")

    def events_of(self, name: str, reason: str = "", namespace: str = "default") -> list[str]:
        """What the events about a pod say."""
        return [event.get("note") or "" for event in self.observer.events_of(f"{namespace}/{name}", reason)]

    def wait_until_bound(self, name: str, *, namespace: str = "default", within: float = 15.0) -> str:
        """The node that a pod was given. Raises AssertionError after `within` seconds, with what the pod waits for."""
        return self.until(lambda: self.node_of(name, namespace), within=within)

    def wait_until_rejected(self, name: str, *, namespace: str = "default", within: float = 15.0) -> str:
        """The message of a pod that no node takes. Raises AssertionError after `within` seconds."""

        def message() -> str:
            condition = condition_of(self.observer.pods.get(f"{namespace}/{name}", {}))
            return (condition or {}).get("message", "") if (condition or {}).get("status") == "False" else ""

        return self.until(message, within=within)

    def until(self, condition: Callable[[], T], *, within: float = 15.0) -> T:
        """Wait until `condition`, looked at after every change, is true, and return what it returned.

        It runs in the cluster's thread. Raises AssertionError after `within` seconds, saying which pods are where.
        """
        return self._call(self.observer.until(condition, within=within))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine comes to in the cluster's thread. If that ends, so does the wait, with the reason."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except CancelledError:
            pass
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            work.close()
        raise self._end()

    def _end(self) -> BaseException:
        self._thread.join()
        return self._ended.exception() or RuntimeError("the cluster has ended")

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._live(started))
        except BaseException as error:  # noqa: BLE001 - told to the thread that asks
            broken = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
            if not started.done():
                started.set_exception(broken)
            self._ended.set_exception(broken)
        else:
            self._ended.set_result(None)

    async def _live(self, started: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            self.dev_cluster = await stack.enter_async_context(DevCluster(self._nodes, delays=_QUICK))
            self.observer = await stack.enter_async_context(Observer(self.dev_cluster.client))
            await self.dev_cluster.nodes_ready()
            access = ClusterAccess(server=self.dev_cluster.url)
            running = running_scheduler(access, build_profiles=self._profiles, settings=self._settings)
            self.scheduler = await stack.enter_async_context(running)
            started.set_result(None)
            await self._stop.wait()

    def _profiles(self, handle: Handle) -> Mapping[str, Profile]:
        return configured_profiles(handle, self._plugins, self._configuration, self._scheduler_name)

    async def _create(self, objects: Sequence[Any]) -> None:
        for obj in objects:
            kind, document = as_sent(obj)
            await self.dev_cluster.client.create(kind, document)

    async def _delete(self, obj: Any) -> None:
        kind, document = as_sent(obj)
        metadata = document["metadata"]
        namespace = metadata.get("namespace", "default") if kind.namespaced else None
        await self.dev_cluster.client.delete(kind, metadata["name"], namespace, grace_period_seconds=0)
