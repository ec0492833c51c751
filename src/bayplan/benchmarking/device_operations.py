"""The operations on devices: drivers that publish them, and claims. Mirrors test/integration/scheduler_perf/dra.go."""

from __future__ import annotations

import fnmatch

from bayplan.api import kinds
from bayplan.benchmarking import objects
from bayplan.benchmarking.operations import Run
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workloads import Operation


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
