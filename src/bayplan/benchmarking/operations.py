"""The operations of a workload, except those on pods, and the run that they share.

Mirrors test/integration/scheduler_perf/{executor,operations,update}.go.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bayplan.benchmarking import objects
from bayplan.benchmarking.measurement import Counters, Measurement
from bayplan.benchmarking.place import BenchmarkCluster, Document
from bayplan.benchmarking.pods import PodCount
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workloads import Operation, Workload
from bayplan.core.api import kinds
from bayplan.core.api.kinds import POD
from bayplan.core.scheduling import Outcome

_SCRAPES = 20
"""How often the scheduler's counters are read at most at the end of a measurement."""
_BETWEEN_SCRAPES = 0.1
"""Seconds."""

ATTEMPTED = "Attempted"


@dataclass(slots=True)
class Collecting:
    """A measurement in progress."""

    name: str
    count: PodCount
    began: float
    counters: Counters
    stack: ExitStack


@dataclass(slots=True)
class Run:
    """A workload that is running on a place.

    `awaited`: how many pods of each namespace no operation has waited for. `namespaces`: those that were created.
    `number`: the index of the current operation, which names namespaces. `background`: what continues while later
    operations run.
    """

    workload: Workload
    place: BenchmarkCluster
    scheduler_name: str = ""
    measurements: list[Measurement] = field(default_factory=list)
    awaited: Counter[str] = field(default_factory=Counter)
    namespaces: set[str] = field(default_factory=set)
    number: int = 0
    background: list[asyncio.Task[None]] = field(default_factory=list)
    collection: Collecting | None = None

    async def ensure_namespace(self, name: str) -> None:
        """Create a namespace, unless this run has created it."""
        if name not in self.namespaces:
            self.namespaces.add(name)
            await self.place.create(kinds.NAMESPACE, [{"metadata": {"name": name}}])

    async def start_collecting(
        self, name: str, namespaces: Collection[str], labels: Mapping[str, str] | None = None
    ) -> None:
        """Begin a measurement of the pods of some namespaces. Raises BenchmarkError if another one is going on."""
        if self.collection is not None:
            raise BenchmarkError("metrics collection is overlapping: stop the previous collector first")
        stack, place = ExitStack(), self.place
        stack.enter_context(place.collecting())
        count = stack.enter_context(place.pods.counting(namespaces, labels))
        full_name = f"{self.workload.name}/{name}" if name else self.workload.name
        self.collection = Collecting(full_name, count, place.clock(), await place.counters(), stack)

    async def stop_collecting(self) -> None:
        """End the measurement. Raises BenchmarkError if none is going on."""
        if self.collection is None:
            raise BenchmarkError("startCollectingMetrics is missing before stopCollectingMetrics")
        collection, self.collection = self.collection, None
        collection.stack.close()
        seconds = self.place.clock() - collection.began
        bound_at = [moment - collection.began for moment in collection.count.bound_at]
        counters = await self._counters_with(len(bound_at), collection.counters)
        self.measurements.append(Measurement(collection.name, seconds, bound_at, counters))

    async def _counters_with(self, bound: int, before: Counters) -> Counters:
        """What the scheduler has counted since `before`.

        It counts a pod with the reply to its binding, which others may see earlier.
        """
        for _ in range(_SCRAPES):
            counters = (await self.place.counters()).since(before)
            scheduled = counters.attempts.get(Outcome.SCHEDULED.value)
            if not counters.attempts or (scheduled is not None and scheduled.count >= bound):
                break
            await asyncio.sleep(_BETWEEN_SCRAPES)
        return counters

    async def wait_for_pods(
        self, namespace: str, number: int, labels: Mapping[str, str] | None = None, *, attempted: bool = False
    ) -> None:
        """Wait until a number of pods of a namespace are scheduled, or attempted. Raises BenchmarkError."""
        with self.place.pods.counting([namespace], labels) as count:

            def found() -> int:
                return count.attempted if attempted else count.scheduled

            def problem() -> str:
                state = "attempted" if attempted else "scheduled"
                return f"{found()} of {number} pods in namespace {namespace} are {state}"

            await self.place.changed.until(lambda: found() >= number, problem)

    def for_scheduler(self, document: Document) -> Document:
        """An object; a pod with the name of the scheduler that is measured."""
        if self.scheduler_name and document.get("kind", POD.kind) == POD.kind:
            return {**document, "spec": {**(document.get("spec") or {}), "schedulerName": self.scheduler_name}}
        return document

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work until the end of the workload."""
        self.background.append(asyncio.create_task(work))


Step = Callable[[Run, Operation], Awaitable[None]]


async def create_nodes(run: Run, operation: Operation) -> None:
    """Create nodes from a template, with labels and allocatable resources of a strategy."""
    template, labels = operation.template("nodeTemplatePath"), objects.node_labels(operation)
    strategy = operation.fields.get("nodeAllocatableStrategy") or {}
    more, limits = strategy.get("nodeAllocatable") or {}, strategy.get("csiNodeAllocatable")
    count, prefix = operation.count(), f"node-{run.number}-"
    base = objects.base_node(prefix)
    nodes = [
        objects.node(template.document(index, count) if template else base, next(labels), more)
        for index in range(count)
    ]
    names = await run.place.create(kinds.NODE, nodes)
    if limits:
        migrated = strategy.get("migratedPlugins") or []
        await run.place.create(kinds.CSI_NODE, [objects.csi_node(name, limits, migrated) for name in names])


async def create_namespaces(run: Run, operation: Operation) -> None:
    """Create `prefix-0`, `prefix-1`, and so on, from a template."""
    template = operation.template("namespaceTemplatePath")
    documents = []
    for index in range(operation.count()):
        document = template.document(index, operation.count()) if template else {}
        name = f"{operation.fields.get('prefix', '')}-{index}"
        documents.append({**document, "metadata": {**(document.get("metadata") or {}), "name": name}})
        run.namespaces.add(name)
    await run.place.create(kinds.NAMESPACE, documents)


async def create_any(run: Run, operation: Operation) -> None:
    """Create objects of any kind."""
    documents, namespace = await _any(run, operation)
    for document in documents:
        if not objects.is_ignored(document):
            await run.place.create(objects.kind_of(document, namespace), [document], namespace)


async def update_any(run: Run, operation: Operation) -> None:
    """Replace objects of any kind, possibly at a rate per second."""
    documents, namespace = await _any(run, operation)
    subresources = operation.fields.get("subresources") or [None]
    rate = operation.number("updatePerSecond")
    for document in documents:
        if rate:
            await asyncio.sleep(1 / rate)
        kind = objects.kind_of(document, namespace)
        for subresource in subresources:
            await run.place.replace(kind, document, namespace, subresource)


async def barrier(run: Run, operation: Operation) -> None:
    """Wait until all pods that no operation has waited for are scheduled, or attempted."""
    attempted = operation.fields.get("stageRequirement") == ATTEMPTED
    labels = operation.fields.get("labelSelector")
    namespaces = operation.fields.get("namespaces") or sorted(run.awaited)
    for namespace in namespaces:
        number = run.awaited[namespace]
        if number:
            await run.wait_for_pods(namespace, number, labels, attempted=attempted)
        if not attempted:
            del run.awaited[namespace]


async def sleep(_: Run, operation: Operation) -> None:
    """Wait."""
    await asyncio.sleep(operation.duration("duration"))


async def start_collecting_metrics(run: Run, operation: Operation) -> None:
    """Begin a measurement that another operation ends."""
    fields = operation.fields
    await run.start_collecting(str(fields.get("name") or ""), fields["namespaces"], fields.get("labelSelector"))


async def stop_collecting_metrics(run: Run, _: Operation) -> None:
    """End the measurement."""
    await run.stop_collecting()


async def _any(run: Run, operation: Operation) -> tuple[list[Document], str | None]:
    """The objects of an operation, made before the first is sent: parsing YAML slows down what runs right after it."""
    template = operation.template("templatePath")
    if template is None:
        raise BenchmarkError(f"{operation.code} without templatePath")
    namespace = operation.fields.get("namespace") or None
    if namespace is not None:
        await run.ensure_namespace(namespace)
    count = operation.count() if "count" in operation.fields else 1
    return [run.for_scheduler(template.document(index, count)) for index in range(count)], namespace


# Devices. Mirrors test/integration/scheduler_perf/dra.go.


async def create_resource_driver(run: Run, operation: Operation) -> None:
    """Publish a ResourceSlice for each node whose name matches."""
    driver, pattern = str(operation.fields["driverName"]), str(operation.fields["nodes"])
    number = operation.number("maxClaimsPerNode")
    names = [name for name in await run.place.node_names() if fnmatch.fnmatchcase(name, pattern)]
    await run.place.create(kinds.RESOURCE_SLICE, [objects.resource_slice(driver, name, number) for name in names])


async def create_resource_claims(run: Run, operation: Operation) -> None:
    """Create claims from a template."""
    template, namespace = operation.template("templatePath"), str(operation.fields["namespace"])
    if template is None:
        raise BenchmarkError("createResourceClaims without templatePath")
    await run.ensure_namespace(namespace)
    claims = [template.document(index, operation.count()) for index in range(operation.count())]
    await run.place.create(kinds.RESOURCE_CLAIM, claims, namespace)


async def allocate_resource_claims(run: Run, operation: Operation) -> None:
    """Allocate the claims of a namespace without pods."""
    await run.place.allocate_claims(operation.fields.get("namespace") or None)
