"""Runs the operations of a workload on a place, one after the other.

An operation or a field that isn't known ends it before anything runs: a benchmark with another meaning is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from bayplan.benchmarking import operations, pod_operations
from bayplan.benchmarking.measurement import Measurement
from bayplan.benchmarking.operations import Run, Step
from bayplan.benchmarking.place import BenchmarkCluster
from bayplan.benchmarking.templates import BenchmarkError, Unsupported
from bayplan.benchmarking.workloads import Operation, Workload
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.api.quantity import InvalidQuantity


class _Code(NamedTuple):
    """What carries an operation out, and the fields that it knows. Other fields would change its meaning."""

    step: Step
    fields: Collection[str]


_CODES = {
    "createNodes": _Code(
        operations.create_nodes,
        ("count", "nodeTemplatePath", "labelNodePrepareStrategy", "uniqueNodeLabelStrategy", "nodeAllocatableStrategy"),
    ),
    "createNamespaces": _Code(operations.create_namespaces, ("count", "prefix", "namespaceTemplatePath")),
    "createPods": _Code(
        pod_operations.create_pods,
        (
            "count",
            "podTemplatePath",
            "namespace",
            "persistentVolumeTemplatePath",
            "persistentVolumeClaimTemplatePath",
            "collectMetrics",
            "skipWaitToCompletion",
            "steadyState",
            "duration",
        ),
    ),
    "deletePods": _Code(
        pod_operations.delete_pods, ("namespace", "labelSelector", "skipWaitToCompletion", "deletePodsPerSecond")
    ),
    "churn": _Code(pod_operations.churn, ("mode", "number", "intervalMilliseconds", "namespace", "templatePaths")),
    "createAny": _Code(operations.create_any, ("count", "namespace", "templatePath")),
    "updateAny": _Code(
        operations.update_any, ("count", "namespace", "templatePath", "updatePerSecond", "subresources")
    ),
    "createResourceDriver": _Code(operations.create_resource_driver, ("driverName", "nodes", "maxClaimsPerNode")),
    "createResourceClaims": _Code(operations.create_resource_claims, ("count", "namespace", "templatePath")),
    "allocResourceClaims": _Code(operations.allocate_resource_claims, ("namespace",)),
    "barrier": _Code(operations.barrier, ("namespaces", "labelSelector", "stageRequirement")),
    "sleep": _Code(operations.sleep, ("duration",)),
    "startCollectingMetrics": _Code(operations.start_collecting_metrics, ("name", "namespaces", "labelSelector")),
    "stopCollectingMetrics": _Code(operations.stop_collecting_metrics, ()),
}
_POD_SETS = "createPodSets"


Report = Callable[[str], None]
"""Called with what is being done."""


async def run_operations(
    workload: Workload, place: BenchmarkCluster, *, scheduler_name: str = "", report: Report = lambda _: None
) -> list[Measurement]:
    """Run all operations and return what was measured.

    `scheduler_name`: the scheduler of all pods; "": as the templates say. `report` is called with each operation.
    Raises Unsupported before anything runs, and BenchmarkError.
    """
    steps = list(_unrolled(workload))
    run = Run(workload, place, scheduler_name)
    with place.pods.counting() as count:

        def describe() -> None:
            step = f"{steps[run.number].code} ({run.number + 1} of {len(steps)})"
            report(f"{workload.name}: {step}, {count.scheduled} of {len(place.pods)} pods bound")

        reporting = asyncio.create_task(_each_second(describe))
        try:
            for run.number, operation in enumerate(steps):
                describe()
                await _carry_out(run, operation)
        finally:
            running = [reporting, *run.background]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            if run.collection is not None:
                run.collection.stack.close()
    return run.measurements


async def _carry_out(run: Run, operation: Operation) -> None:
    """Carry an operation out. Raises BenchmarkError also where an earlier operation has failed in the background."""
    name = run.workload.name
    try:
        await _CODES[operation.code].step(run, operation)
    except (InvalidQuantity, UndecodableObject, BenchmarkError) as error:
        raise BenchmarkError(f"{name}: {operation.code}: {error}") from None
    for task in run.background:
        failure = task.exception() if task.done() and not task.cancelled() else None
        if failure is not None:
            raise BenchmarkError(f"{name}: in the background: {failure}") from failure


async def _each_second(call: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(1)
        call()


def check(workload: Workload) -> None:
    """Raises Unsupported for a workload with an operation, or a field of one, that isn't known."""
    list(_unrolled(workload))


def _unrolled(workload: Workload) -> Iterator[Operation]:
    """The operations, with a createPods for each set of createPodSets. Raises Unsupported."""
    for operation in workload.operations:
        if operation.code == _POD_SETS:
            operation.require_only("count", "namespacePrefix", "createPodsOp")
            yield from map(_known, pod_operations.pod_sets(operation))
        else:
            yield _known(operation)


def _known(operation: Operation) -> Operation:
    code = _CODES.get(operation.code)
    if code is None:
        raise Unsupported(f"the operation {operation.code}")
    operation.require_only(*code.fields)
    return operation
