"""Runs a workload on a cluster behind an API server, with one of several schedulers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bayplan.benchmarking import processes
from bayplan.benchmarking.cluster import Scrape, ServedCluster
from bayplan.benchmarking.measurement import Counters, Measurement
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workload_run import Report, check, run_operations
from bayplan.benchmarking.workloads import Workload
from bayplan.running.client.connection import connect
from bayplan.running.client.errors import ApiError, ConfigError, TransportError

BAYPLAN, NULL, EXTERNAL = "bayplan", "null", "external:"


StartServer = Callable[[Path], AbstractAsyncContextManager[Path]]
"""Starts an API server with files in a folder, and yields its kubeconfig."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to run: an existing cluster, or (None) a new one, an embedded one unless another `server` is given.

    `profile`: where to write a profile.
    """

    kubeconfig: Path | None = None
    profile: Path | None = None
    server: StartServer = processes.api_server


def run_on_cluster(
    workload: Workload, target: Target, scheduler: str = BAYPLAN, report: Report = lambda _: None
) -> list[Measurement]:
    """Run a workload with a scheduler: `bayplan`, `null`, or `external:NAME`, which is running already.

    Raises Unsupported and BenchmarkError.
    """
    check(workload)
    try:
        return asyncio.run(_run(workload, target, scheduler, report))
    except (ApiError, TransportError, ConfigError, TimeoutError) as error:
        raise BenchmarkError(f"{workload.name}: {error or 'timed out'}") from None


async def _run(workload: Workload, target: Target, scheduler: str, report: Report) -> list[Measurement]:
    name = scheduler.removeprefix(EXTERNAL) if scheduler.startswith(EXTERNAL) else f"scheduler-perf-{scheduler}"
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-perf-")))
        report(f"{workload.name}: starting {scheduler}")
        kubeconfig = target.kubeconfig
        if kubeconfig is None:
            kubeconfig = await stack.enter_async_context(target.server(folder))
        client = await stack.enter_async_context(connect(kubeconfig))
        scrape: Scrape = _nothing
        if scheduler == BAYPLAN:
            run = processes.BayplanRun(kubeconfig, name, folder, workload.scheduler_config, target.profile)
            await stack.enter_async_context(run.running())
            scrape = run.counters
        elif scheduler == NULL:
            await stack.enter_async_context(processes.null_scheduler(kubeconfig, name, folder))
        cluster = ServedCluster(client, scrape)
        async with cluster.watching(clean_up=target.kubeconfig is not None):
            return await run_operations(workload, cluster, scheduler_name=name, report=report)


async def _nothing() -> Counters:
    return Counters()
