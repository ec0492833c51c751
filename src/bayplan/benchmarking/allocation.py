"""Allocates resource claims without pods and without a scheduler, for a cluster behind an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.benchmarking.core import Core
from bayplan.benchmarking.workloads import Workload
from bayplan.core.api.kinds import RESOURCE_CLAIM, Kind
from bayplan.core.devices.claims import allocation_of
from bayplan.testing.virtual_time import VirtualTime


def allocated_claims(objects: Mapping[Kind, Sequence[Any]], namespace: str | None) -> list[Any]:
    """The claims of a namespace (None: of all) that weren't allocated, now with an allocation. Raises BenchmarkError.

    `objects`: the nodes, slices, classes and claims of the cluster.
    """

    async def allocate() -> list[Any]:
        core = Core(Workload("allocation", (), None, None))
        for kind, known in objects.items():
            for obj in known:
                core.store(kind, obj)
        claims = core.objects[RESOURCE_CLAIM]
        missing = [key for key, claim in claims.items() if allocation_of(claim) is None]
        await core.allocate_claims(namespace)
        return [claims[key] for key in missing if allocation_of(claims[key]) is not None]

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(allocate())
