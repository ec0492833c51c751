"""ServedCluster: the place that is a cluster behind an API server, with a scheduler that runs as a process of its own.

It does what controllers would do, if they aren't there: claims from templates, taints of new nodes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from bayplan.benchmarking.allocation import allocated_claims
from bayplan.benchmarking.measurement import Counters
from bayplan.benchmarking.place import ChangeSignal, Document
from bayplan.benchmarking.pods import SeenPod, SeenPods
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.core.api import kinds
from bayplan.core.api.kinds import LEASE, NAMESPACE, NODE, POD, PRIORITY_CLASS, Kind
from bayplan.core.api.objects import encode
from bayplan.foundations.clock import RunningClock
from bayplan.running.client.client import PatchType
from bayplan.running.client.errors import ApiError, TransportError
from bayplan.running.client.http import HttpClient
from bayplan.running.client.list_watch import ListWatch
from bayplan_devcluster.controllers.manager import ControllerManager
from bayplan_devcluster.controllers.resource_claims import ResourceClaimController

_AT_ONCE = 30
"""Requests that create objects at the same time, as upstream."""

_KNOWN_SECONDS = 10.0
"""How long an API server may take until it knows a new priority class or a new custom kind."""
_RETRY_SECONDS = 0.05

Scrape = Callable[[], Awaitable[Counters]]
"""Reads the scheduler's metrics."""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    nodeName: str = ""
    taints: list[Any] | None = None


class _Condition(msgspec.Struct):
    type: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Object(msgspec.Struct):
    """What the benchmark reads of nodes and pods."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Object).decode


class ServedCluster:
    """A place behind an API server. It can delete what it has created, except namespaces and priority classes."""

    def __init__(self, client: HttpClient, scrape: Scrape) -> None:
        self._client = client
        self._scrape = scrape
        self._loop = asyncio.get_running_loop()
        self.changed = ChangeSignal()
        self.pods = SeenPods(self.clock, self.changed.notify)
        self._created: dict[Kind, list[tuple[str, str | None]]] = {}
        self._names = 0
        self._priorities: dict[int, asyncio.Task[str]] = {}
        """The creation of the class of each priority."""
        self._running: list[asyncio.Task[None]] = []
        self._handles_claims = False

    @asynccontextmanager
    async def watching(self, *, clean_up: bool) -> AsyncIterator[None]:
        """Watch the pods while the context is open, and then possibly clean up."""
        pods = ListWatch(self._client, POD, _PodSink(self.pods), decode=_decode)
        self._running = [asyncio.create_task(pods.run())]
        try:
            await pods.synced.wait()
            yield
        finally:
            if clean_up:
                await self._clean_up()
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def clock(self) -> float:
        """The seconds of the event loop: real time."""
        return self._loop.time()

    async def create(self, kind: Kind, documents: Iterable[Document], namespace: str | None = None) -> list[str]:
        """Create objects, and the claims that pods need, unless the cluster has a kube-controller-manager."""
        if kind.group == kinds.RESOURCE_CLAIM.group and not self._handles_claims:
            self._handles_claims = True
            await self._start_claim_controller()
        waiting = iter(enumerate(documents))
        names: dict[int, str] = {}

        async def create() -> None:
            for index, document in waiting:
                names[index] = await self._create(kind, document, namespace)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_AT_ONCE):
                    tasks.create_task(create())
        except ExceptionGroup as errors:  # not `except*`: Python 3.11.2 wraps in a group what that raises
            raise BenchmarkError(f"cannot create {kind.plural}: {errors.exceptions[0]}") from errors
        return [names[index] for index in sorted(names)]

    async def replace(self, kind: Kind, document: Document, namespace: str | None, subresource: str | None) -> None:
        """Update an object, and then its status if the document has one."""
        metadata = {**(document.get("metadata") or {}), **({"namespace": namespace} if namespace else {})}
        document = {**document, "apiVersion": kind.api_version, "metadata": metadata}
        try:
            await self._client.update(kind, document, subresource=subresource)
            if kind.status and subresource is None and "status" in document:
                await self._client.update(kind, document, subresource="status")
        except (ApiError, TransportError) as error:
            raise BenchmarkError(f"cannot update {kind.kind} {metadata.get('name')}: {error}") from None

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, *, at_once: bool = False) -> None:
        """Delete an object, which may be gone already."""
        try:
            await self._client.delete(kind, name, namespace, grace_period_seconds=0 if at_once else None)
        except ApiError as error:
            if error.status != 404:
                raise BenchmarkError(f"cannot delete {kind.kind} {name}: {error}") from None

    async def node_names(self) -> list[str]:
        """List the nodes."""
        return [node.metadata.name for node in (await self._client.list(NODE, decode=_decode)).items]

    async def allocate_claims(self, namespace: str | None) -> None:
        """Allocate the claims in a thread, and write their status."""
        read = (NODE, kinds.RESOURCE_SLICE, kinds.DEVICE_CLASS, kinds.RESOURCE_CLAIM)
        objects = {kind: (await self._client.list(kind)).items for kind in read}
        for claim in await asyncio.to_thread(allocated_claims, objects, namespace):
            await self._client.update(kinds.RESOURCE_CLAIM, claim, subresource="status")

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Change nothing: the scheduler is another process."""
        yield

    async def counters(self) -> Counters:
        """Read the metrics of the scheduler."""
        return await self._scrape()

    async def _start_claim_controller(self) -> None:
        """Start the controller that creates the claims of pods. Others don't need it, and it watches all pods."""
        if await self._has_controllers():
            return
        controllers = ControllerManager(self._client, RunningClock(), [ResourceClaimController])
        for work in (controllers.run(), controllers.informers.run()):
            self._running.append(asyncio.create_task(work))

    async def _has_controllers(self) -> bool:
        try:
            await self._client.get(LEASE, "kube-controller-manager", "kube-system")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def _create(self, kind: Kind, document: Document, namespace: str | None) -> str:
        document = await self._prepared(kind, document)
        body = encode(document)
        try:
            created = _decode(await self._post(kind, namespace, body))
        except ApiError as error:
            if error.status == 409 and kind in {NAMESPACE, PRIORITY_CLASS}:  # an earlier run has left it
                metadata = document["metadata"]
                await self._client.patch(kind, metadata["name"], {"metadata": {"labels": metadata.get("labels")}})
                return str(metadata["name"])
            raise
        name = created.metadata.name
        self._created.setdefault(kind, []).append((name, namespace))
        if kind is NODE:
            await self._drop_new_taints(document, created)
        elif kind.status and kind is not POD and "status" in document:  # ignored when an object is created
            patch = {"status": document["status"]}
            await self._client.patch(kind, name, patch, namespace, subresource="status")
        return name

    async def _post(self, kind: Kind, namespace: str | None, body: bytes) -> bytes:
        """Create an object. kube-apiserver knows a new priority class, or a new custom kind, only after a moment."""
        deadline = self.clock() + _KNOWN_SECONDS
        while True:
            try:
                return await self._client.request("POST", kind.path(namespace), body=body)
            except ApiError as error:
                unknown_class = kind is POD and error.status == 403 and "no PriorityClass" in error.message
                unknown_kind = not kind.model and error.status == 404
                if not (unknown_class or unknown_kind) or self.clock() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    async def _prepared(self, kind: Kind, document: Document) -> Document:
        """The document with what controllers or kubelets would add in a whole cluster."""
        metadata = dict(document.get("metadata") or {})
        if kind is NODE:
            self._names += 1
            metadata.setdefault("name", f"{metadata.pop('generateName', 'node-')}{self._names}")
            metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/hostname": metadata["name"]}
        elif kind is POD and (priority := document["spec"].get("priority")):
            spec = {**document["spec"], "priorityClassName": await self._priority_class(priority)}
            document = {**document, "spec": spec}
        api = {"apiVersion": kind.api_version, "kind": kind.kind if kind.model else document["kind"]}
        return {**document, **api, "metadata": metadata}

    async def _priority_class(self, priority: int) -> str:
        """The name of a class with this priority: a pod can't set its priority without one."""
        if priority not in self._priorities:
            document = {"metadata": {"name": f"scheduler-perf-{priority}"}, "value": priority}
            self._priorities[priority] = asyncio.create_task(self._create(PRIORITY_CLASS, document, None))
        return await self._priorities[priority]

    async def _drop_new_taints(self, document: Document, created: _Object) -> None:
        """Remove the taint that an API server gives to new nodes, which a controller would remove."""
        taints = (document.get("spec") or {}).get("taints") or []
        if len(created.spec.taints or ()) != len(taints):
            patch = {"spec": {"taints": taints}}
            await self._client.patch(NODE, created.metadata.name, patch, type=PatchType.MERGE)

    async def _clean_up(self) -> None:
        """Delete what was created; pods first, also those that others have created in its namespaces."""
        for pod in list(self.pods):
            if (pod.namespace, None) in self._created.get(NAMESPACE, ()):
                await self.delete(POD, pod.name, pod.namespace, at_once=True)
        for kind in reversed([kind for kind in self._created if kind not in {NAMESPACE, POD, PRIORITY_CLASS}]):
            for name, namespace in self._created[kind]:
                await self.delete(kind, name, namespace)


class _PodSink:
    """Reports the pods of a watch."""

    def __init__(self, pods: SeenPods) -> None:
        self._pods = pods

    def put(self, key: str, new: _Object) -> None:
        metadata = new.metadata
        attempted = any(each.type == "PodScheduled" for each in new.status.conditions or ())
        seen = SeenPod(metadata.namespace, metadata.name, metadata.labels or {}, new.spec.nodeName, attempted)
        self._pods.put(seen)

    def removed(self, key: str) -> None:
        self._pods.remove(key)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        raise AssertionError(f"a pod can't be decoded: {error}: {json.dumps(raw.decode(errors='replace'))[:200]}")
