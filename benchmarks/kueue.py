#!/usr/bin/env python3
"""Shows what capacity checks change for Kueue: jobs with quota for all of them, and room for half.

    KUEUE=... KUEUE_CRDS=... KUBEBUILDER_ASSETS=... benchmarks/kueue.py              # 200 jobs, 100 nodes
    benchmarks/kueue.py --jobs 40

The real Kueue runs on a real API server (tests/support/kueue.py says what the variables name). Three times: with its
quota alone; with the check, answered by `bayplan run --provisioning-requests`; and with the check, answered by `bayplan
provision` beside kube-scheduler, if there is one. With the check, a tenth of the jobs ends then, and others start.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.kueue import PODS_PER_JOB, Count, KueueCluster, KueueError, kueue_cluster


@asynccontextmanager
async def queue_of(jobs: int, *, check: bool) -> AsyncIterator[KueueCluster]:
    """A cluster with room for half of the jobs, and quota for all."""
    async with kueue_cluster() as cluster:
        await cluster.add_nodes(jobs // 2)
        await cluster.add_queue(3 * jobs, check=check)
        yield cluster


def report(what: str, found: Count, jobs: int, began: float) -> None:
    """Print how the jobs stand."""
    stuck, took = found.started - found.placed, time.monotonic() - began
    print(
        f"{what}: {found.started} of {jobs} jobs started, {stuck} of them without room for all pods, "
        f"{found.pending_pods} pods pending ({took:.0f} s)",
        flush=True,
    )


async def with_check(cluster: KueueCluster, what: str, jobs: int) -> None:
    """Let the jobs come, and a tenth of them end."""
    began, full = time.monotonic(), Count(jobs // 2, jobs // 2, 0)
    await cluster.add_jobs(jobs)
    report(what, await cluster.until(full), jobs, began)
    began = time.monotonic()
    await cluster.end_jobs(jobs // 10)
    report(f"{what}, after {jobs // 10} have ended", await cluster.until(full), jobs - jobs // 10, began)


async def compare(jobs: int) -> None:
    """Run all three."""
    async with queue_of(jobs, check=False) as cluster, cluster.scheduler():
        began = time.monotonic()
        await cluster.add_jobs(jobs)
        expected = Count(jobs, jobs // 2, PODS_PER_JOB * (jobs - jobs // 2))
        report("quota alone", await cluster.until(expected), jobs, began)
    async with queue_of(jobs, check=True) as cluster, cluster.scheduler("--provisioning-requests"):
        await with_check(cluster, "with the check", jobs)
    async with queue_of(jobs, check=True) as cluster, cluster.kube_scheduler():
        await with_check(cluster, "with the check, beside kube-scheduler", jobs)


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    try:
        asyncio.run(compare(parser.parse_args().jobs))
    except KueueError as error:
        sys.exit(f"benchmarks/kueue.py: {error}")


if __name__ == "__main__":
    main()
