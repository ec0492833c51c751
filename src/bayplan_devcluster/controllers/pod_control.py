"""Creates and deletes the pods of workloads, with one event for each.

Mirrors RealPodControl in pkg/controller/controller_utils.go and slowStartBatch in pkg/controller/replicaset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.served import Object, Pod
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.informers import Informer
from bayplan_devcluster.controllers.recorder import EventRecorder

BURST = 500
"""Pods created or deleted in one sync at most."""
CONCURRENT = 32
"""Requests in flight at once for one owner."""

T = TypeVar("T")


class PodControl:
    """The pods of the owners of one kind. Each method returns once the informer shows its writes."""

    def __init__(self, client: Client, pods: Informer, recorder: EventRecorder, owner_kind: Kind) -> None:
        self._client = client
        self._pods = pods
        self._recorder = recorder
        self._kind = owner_kind

    async def create(self, owner: Object, wanted: Sequence[Pod]) -> ApiError | None:
        """Create the pods, up to `BURST`. Returns the first error, after which no more pods are created."""
        namespace = owner.metadata.namespace

        async def create(pod: Pod) -> Pod:
            created: Pod = await self._client.create(POD, pod, namespace)
            self._recorder.normal(self._kind, owner, "SuccessfulCreate", f"Created pod: {created.metadata.name}")
            return created

        created, error = await slow_start(create, wanted[:BURST])
        await self._pods.observe(created)
        return self._failed(owner, "FailedCreate", "creating", error)

    async def delete(self, owner: Object, unwanted: Sequence[Pod]) -> ApiError | None:
        """Delete the pods, up to `BURST`. Returns the first error, after which no more pods are deleted."""

        async def delete(pod: Pod) -> Pod:
            metadata = pod.metadata
            try:
                await self._client.delete(POD, metadata.name, metadata.namespace, uid=metadata.uid)
            except ApiError as error:
                if error.status not in {404, 409}:  # gone already, or replaced by a namesake
                    raise
            else:
                self._recorder.normal(self._kind, owner, "SuccessfulDelete", f"Deleted pod: {metadata.name}")
            return pod

        deleted, error = await slow_start(delete, unwanted[:BURST], first=CONCURRENT)
        await self._pods.observe_deletions(deleted)
        return self._failed(owner, "FailedDelete", "deleting", error)

    def _failed(self, owner: Object, reason: str, doing: str, error: ApiError | None) -> ApiError | None:
        if error is not None:
            self._recorder.warning(self._kind, owner, reason, f"Error {doing}: {error.message}")
        return error


async def slow_start(
    action: Callable[[Any], Awaitable[T]], items: Sequence[Any], *, first: int = 1
) -> tuple[list[T], ApiError | None]:
    """Apply `action` to the items in batches that double in size, since what fails for one mostly fails for all.

    Returns the results, and the first API error, which ends the last batch. Other errors are raised.
    """
    results: list[T] = []
    start, batch = 0, first
    while start < len(items):
        batch = min(batch, CONCURRENT)
        outcomes = await asyncio.gather(*map(action, items[start : start + batch]), return_exceptions=True)
        results += [one for one in outcomes if not isinstance(one, BaseException)]
        errors = [one for one in outcomes if isinstance(one, BaseException)]
        for error in errors:
            if not isinstance(error, ApiError):
                raise error
        if errors:
            return results, errors[0]  # type: ignore[return-value] # the others have been raised
        start, batch = start + batch, batch * 2
    return results, None
