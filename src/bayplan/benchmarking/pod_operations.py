"""The operations on pods: creating them at once, steadily or with churn, and deleting them.

Mirrors test/integration/scheduler_perf/executor.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count as numbers

from bayplan.benchmarking import objects
from bayplan.benchmarking.operations import Run
from bayplan.benchmarking.place import Document
from bayplan.benchmarking.pods import PodCount
from bayplan.benchmarking.templates import BenchmarkError, ObjectTemplate
from bayplan.benchmarking.workloads import Operation
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind

_CHURN_SECONDS = 0.5
"""The default interval of churn."""


async def create_pods(run: Run, operation: Operation) -> None:
    """Create pods, with volumes if there are templates for them, and wait until they are scheduled."""
    fields = operation.fields
    namespace = fields.get("namespace") or f"namespace-{run.number}"
    await run.ensure_namespace(namespace)
    collect = bool(fields.get("collectMetrics"))
    if collect:
        await run.start_collecting(namespace, [namespace])
    if fields.get("steadyState"):
        await _create_steadily(run, operation, namespace)
    else:
        await _create_at_once(run, operation, namespace)
        if fields.get("skipWaitToCompletion"):
            run.awaited[namespace] += operation.count()
        else:
            await run.wait_for_pods(namespace, operation.count())
    if collect:
        await run.stop_collecting()


def pod_sets(operation: Operation) -> Iterator[Operation]:
    """The createPods operations that one createPodSets stands for: one per namespace."""
    fields = operation.fields.get("createPodsOp") or {}
    for index in range(operation.count()):
        namespace = f"{operation.fields.get('namespacePrefix', '')}-{index}"
        yield replace(operation, code="createPods", fields={**fields, "namespace": namespace})


async def delete_pods(run: Run, operation: Operation) -> None:
    """Delete the pods of a namespace that have some labels, possibly at a rate per second."""
    fields, namespace = operation.fields, str(operation.fields["namespace"])
    rate = operation.number("deletePodsPerSecond")
    names = [pod.name for pod in run.place.pods.select(namespace, fields.get("labelSelector") or {})]

    async def delete() -> None:
        for name in names:
            if rate:
                await asyncio.sleep(1 / rate)
            await run.place.delete(kinds.POD, name, namespace)

    if fields.get("skipWaitToCompletion"):
        run.start(delete())
    else:
        await delete()


async def churn(run: Run, operation: Operation) -> None:
    """Create objects again and again while later operations run; in mode recreate, delete them in turn."""
    fields = operation.fields
    namespace = fields.get("namespace") or f"namespace-{run.number}"
    await run.ensure_namespace(namespace)
    interval = operation.number("intervalMilliseconds") / 1000 or _CHURN_SECONDS
    number, mode = operation.number("number"), fields.get("mode")
    documents = [
        ObjectTemplate.read(operation.folder / path).document(0, 1) for path in fields.get("templatePaths") or ()
    ]
    churned = [(_kind_of(document), run.for_scheduler(document)) for document in documents]
    if mode == "create":
        run.start(_churn_create(run, churned, namespace, interval, number))
    elif mode == "recreate" and number:
        run.start(_churn_recreate(run, churned, namespace, interval, number))
    else:
        raise BenchmarkError(f"churn: mode is {mode!r} and number {number}, expected create, or recreate with a number")


async def _churn_create(
    run: Run, churned: list[tuple[Kind, Document]], namespace: str, interval: float, number: int
) -> None:
    for _ in range(number) if number else numbers():
        await asyncio.sleep(interval)
        for kind, document in churned:
            await run.place.create(kind, [document], namespace if kind.namespaced else None)


async def _churn_recreate(
    run: Run, churned: list[tuple[Kind, Document]], namespace: str, interval: float, number: int
) -> None:
    """Create `number` objects of each kind in as many intervals, then delete them in as many, and start over."""
    while True:
        created: list[tuple[Kind, str]] = []
        for _ in range(number):
            await asyncio.sleep(interval)
            for kind, document in churned:
                names = await run.place.create(kind, [document], namespace if kind.namespaced else None)
                created.append((kind, names[0]))
        for first in range(0, len(created), len(churned)):
            await asyncio.sleep(interval)
            for kind, name in created[first : first + len(churned)]:
                await run.place.delete(kind, name, namespace if kind.namespaced else None)


async def _create_at_once(run: Run, operation: Operation, namespace: str) -> None:
    pods = list(_pods(run, operation))
    volume, claim = (operation.template(f"persistentVolume{kind}TemplatePath") for kind in ("", "Claim"))
    if volume is not None and claim is not None:
        number = len(pods)
        made = [
            objects.with_volume(pod, index, volume.document(index, number), claim.document(index, number), namespace)
            for index, pod in enumerate(pods)
        ]
        pods = [pod for pod, _, _ in made]
        await run.place.create(kinds.PERSISTENT_VOLUME, [each for _, each, _ in made])
        await run.place.create(kinds.PERSISTENT_VOLUME_CLAIM, [each for _, _, each in made], namespace)
    await run.place.create(kinds.POD, pods, namespace)


async def _create_steadily(run: Run, operation: Operation, namespace: str) -> None:
    """Create pods, delete them once all are scheduled, and start over, until the time is up."""
    place, clock = run.place, run.place.clock
    until, number = clock() + operation.duration("duration"), operation.count()
    with place.pods.counting([namespace]) as count:

        def ended() -> bool:
            """Whether all pods are scheduled, or the time is up. All must have been seen, else some are not deleted."""
            over = clock() >= until and bool(count.bound_at)
            return count.scheduled >= number or (over and len(place.pods.select(namespace, {})) >= number)

        while clock() < until:
            await _create_at_once(run, operation, namespace)
            await place.changed.until(
                ended, lambda: f"{count.scheduled} of {number} pods in namespace {namespace} are scheduled"
            )
            for pod in place.pods.select(namespace, {}):
                await place.delete(kinds.POD, pod.name, namespace, at_once=True)
            await _until_empty(run, count, namespace)


async def _until_empty(run: Run, count: PodCount, namespace: str) -> None:
    def problem() -> str:
        return f"{count.scheduled} deleted pods are left in namespace {namespace}"

    await run.place.changed.until(lambda: not count.scheduled, problem)


def _pods(run: Run, operation: Operation) -> Iterator[Document]:
    template = operation.template("podTemplatePath") or run.workload.default_pod_template or objects.BASE_POD
    number = operation.count()
    document = run.for_scheduler(template.document(0, number))
    for index in range(number):
        yield run.for_scheduler(template.document(index, number)) if template.varies else document


def _kind_of(document: Document) -> Kind:
    for namespace in (None, "any"):
        try:
            return objects.kind_of(document, namespace)
        except BenchmarkError:
            continue
    raise AssertionError("a kind is namespaced or not")
