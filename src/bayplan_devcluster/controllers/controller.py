"""Controller: the base of all controllers: it syncs one key after another until each object has its desired state.

Level-triggered: a sync reads what there is now, and a missed or repeated event does no harm. A sync that fails is
repeated with a backoff.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from bayplan.core.api.kinds import Kind
from bayplan.foundations.clock import TimerClock
from bayplan.running.client.client import Client, PatchType
from bayplan.running.client.errors import ApiError, TransportError
from bayplan_devcluster.controllers.informers import Informer, Informers, key_of, latest
from bayplan_devcluster.controllers.recorder import EventRecorder, EventSink
from bayplan_devcluster.controllers.workqueue import WorkQueue

MANY_PODS = 500
GATHER_PER_POD = 0.0001
"""Seconds."""

log = logging.getLogger(__name__)


class Ignored:
    """Ignores the API errors with these statuses in a `with` statement: others have done the work already."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = statuses

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        return isinstance(error, ApiError) and error.status in self._statuses


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The collaborators of a controller."""

    client: Client
    informers: Informers
    clock: TimerClock
    events: EventSink
    root_ca: str = ""
    """The certificate authority of the API server in PEM, "" without TLS."""
    taint_rules: Kind | None = None
    """The kind of the DeviceTaintRules that the API server has; None without the feature."""
    pod_groups: Kind | None = None
    """The kind of the PodGroups whose claims count, as a whole; None without DRAWorkloadResourceClaims."""


class Controller(ABC):
    """Reconciles objects by key: level-triggered and idempotent.

    A subclass requests its informers in the constructor, queues the keys of changed objects, and implements `sync`.
    """

    name: ClassVar[str]
    """The controller's name, also the source of its events."""
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext) -> None:
        self.client = context.client
        self.clock = context.clock
        self.recorder = EventRecorder(context.events, self.name)
        self.queue: WorkQueue[str] = WorkQueue(context.clock)
        self._informers = context.informers
        self._watched: list[Informer] = []

    @abstractmethod
    async def sync(self, key: str) -> None:
        """Move the object of a key towards its desired state. After an exception, the key is synced again."""

    def watch(self, kind: Kind, listener: Callable[[Any, Any], None] | None = None) -> Informer:
        """The informer of a kind, which `run` waits for. `listener` is notified of every change."""
        informer = self._informers.of(kind)
        self._watched.append(informer)
        if listener is not None:
            informer.listen(listener)
        return informer

    def enqueue(self, old: Any, new: Any) -> None:
        """Queue the key of a changed object: the listener for the controller's own kind."""
        self.queue.add(key_of(latest(old, new)))

    def enqueue_for(self, key: str, pods: int) -> None:
        """Queue a key because of a change of one of its `pods` pods.

        A sync of many pods is expensive, so it waits for further changes.
        """
        if pods < MANY_PODS:
            self.queue.add(key)
        else:
            self.queue.add_after(key, pods * GATHER_PER_POD)

    async def patch_status(self, informer: Informer, obj: Any, patch: dict[str, Any]) -> None:
        """Patch an object's status, unless the object is gone. Returns once the informer has the change."""
        metadata = obj.metadata
        with Ignored(404):
            written = await self.client.patch(
                informer.kind, metadata.name, patch, metadata.namespace, type=PatchType.STRATEGIC, subresource="status"
            )
            await informer.observe([written])

    async def write_status(self, informer: Informer, obj: Any, status: Any) -> Any:
        """Write an object's status, unless the object has changed (ApiError 409). Returns the object once the informer
        has it; the same object if its status is that one already.
        """
        if status == obj.status:
            return obj
        updated = msgspec.structs.replace(obj, status=status)
        written = await self.client.update(informer.kind, updated, subresource="status")
        await informer.observe([written])
        return written

    async def ask_for(self, kind: Kind, name: str, namespace: str | None = None) -> Any | None:
        """Ask the server for an object that an informer may not have yet. None if there is none."""
        with Ignored(404):
            return await self.client.get(kind, name, namespace)
        return None

    async def delete(
        self, kind: Kind, obj: Any, *, propagation_policy: str | None = None, grace_period_seconds: int | None = None
    ) -> bool:
        """Delete an object. Returns False if it is gone already, or if another object has its name by now."""
        metadata = obj.metadata
        with Ignored(404, 409):
            await self.client.delete(
                kind,
                metadata.name,
                metadata.namespace,
                uid=metadata.uid,
                propagation_policy=propagation_policy,
                grace_period_seconds=grace_period_seconds,
            )
            return True
        return False

    async def run(self) -> None:
        """Sync keys until cancelled, once all informers have their first list."""
        for informer in self._watched:
            await informer.synced.wait()
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self.workers):
                    tasks.create_task(self._work(), name=f"{self.name} {number}")
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self.sync(key)
            except (ApiError, TransportError) as error:
                log.debug("%s: retrying %s: %s", self.name, key, error)
                self.queue.retry(key)
            except Exception:  # one object's bug must not stop the others'
                log.exception("%s: %s failed, retrying", self.name, key)
                self.queue.retry(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)
