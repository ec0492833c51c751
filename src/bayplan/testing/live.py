"""A live cluster for a test: an embedded API server, nodes and a scheduler with the plugins under test, over HTTP.

It runs in a separate thread, so that a test need not be asynchronous:

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

from bayplan.core.api.kinds import Kind
from bayplan.core.config import ExtraPlugin
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Profile
from bayplan.running.client.access import ClusterAccess
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings
from bayplan.testing.builders import make_node
from bayplan.testing.configured import DEFAULT_SCHEDULER, configured_profiles
from bayplan.testing.documents import as_sent
from bayplan.testing.observer import Observer, condition_of
from bayplan.testing.running import FAST, running_scheduler
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.kubelet import KubeletDelays

T = TypeVar("T")

_QUICK = KubeletDelays(start=0.05, stop=0.05, job=1.0)


class LiveCluster:
    """A context manager that runs a cluster with a scheduler.

    `nodes`: the nodes, or their number (they are named `node-0` and so on). The scheduler has the default plugins and
    `plugins`, and schedules the pods with `scheduler_name`. With `configuration`, a KubeSchedulerConfiguration file, it
    has the profiles of the file, which may name `plugins`. Entering raises ConfigurationError and PluginLoadError.
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
        """Records the changes of the cluster. Like `scheduler`, it belongs to the cluster's thread."""
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
        with suppress(RuntimeError):  # the loop may have ended already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def kubeconfig(self) -> str:
        """Return the kubeconfig (YAML) with which kubectl and other clients reach the cluster."""
        return self.dev_cluster.kubeconfig()

    def create(self, *objects: Any) -> None:
        """Create objects in this order: pods as PodInfo, typed objects, or documents with apiVersion and kind.

        Custom objects are `("plural.version.group", document)`; create their definition first.
        """
        self._call(self._create(objects))

    def delete(self, obj: Any) -> None:
        """Delete an object, without a grace period."""
        self._call(self._delete(obj))

    def patch(self, kind: Kind, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> None:
        """Change fields of an object; None removes a field."""
        self._call(self.dev_cluster.client.patch(kind, name, patch, namespace))

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Return the node of a pod; "" if it is pending or doesn't exist."""
        return self.observer.node_of(f"{namespace}/{name}")

    def events_of(self, name: str, reason: str = "", namespace: str = "default") -> list[str]:
        """Return the messages of the events about a pod."""
        return [event.get("note") or "" for event in self.observer.events_of(f"{namespace}/{name}", reason)]

    def wait_until_bound(self, name: str, *, namespace: str = "default", within: float = 15.0) -> str:
        """Return the node of a pod once it is bound. Raises AssertionError with the reason after `within` seconds."""
        return self.until(lambda: self.node_of(name, namespace), within=within)

    def wait_until_rejected(self, name: str, *, namespace: str = "default", within: float = 15.0) -> str:
        """Return the message of a pod once it is unschedulable. Raises AssertionError after `within` seconds."""

        def message() -> str:
            condition = condition_of(self.observer.pods.get(f"{namespace}/{name}", {}))
            return (condition or {}).get("message", "") if (condition or {}).get("status") == "False" else ""

        return self.until(message, within=within)

    def until(self, condition: Callable[[], T], *, within: float = 15.0) -> T:
        """Wait until `condition` returns a true value, and return that.

        It is called in the cluster's thread after every change. Raises AssertionError with the pods by node after
        `within` seconds.
        """
        return self._call(self.observer.until(condition, within=within))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's thread and return its result; if the thread ends, raise the reason."""
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
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
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
