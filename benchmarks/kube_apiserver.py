#!/usr/bin/env python3
"""Runs a workload of Kubernetes' own benchmark on kube-apiserver, with several schedulers.

    KUBEBUILDER_ASSETS=DIR benchmarks/kube_apiserver.py misc SchedulingBasic/5000Nodes_10000Pods

DIR has etcd and kube-apiserver. Each scheduler gets a new, empty server: `bayplan run`, the null scheduler, and
kube-scheduler if DIR has that, too. Prints their pods per second as JSON. `writes` is the number of Bayplan's requests
per pod that change objects, `problem` the error of a scheduler that failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bayplan.benchmarking.cluster_run import BAYPLAN, EXTERNAL, NULL, Target, run_on_cluster
from bayplan.benchmarking.selection import named
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workloads import find_configs, read_workloads

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.control_plane import ASSETS, Assets, ControlPlane, ControlPlaneError

STOCK = "kube-scheduler"
NOT_LIMITED = ("--kube-api-qps=5000", "--kube-api-burst=5000")
"""kube-scheduler's rate limits, as upstream's benchmark sets them."""


@asynccontextmanager
async def control_plane(_folder: Path) -> AsyncIterator[Path]:
    """Start etcd and kube-apiserver. Yields an administrator's kubeconfig."""
    async with ControlPlane() as plane:
        yield plane.admin


@asynccontextmanager
async def with_stock_scheduler(folder: Path) -> AsyncIterator[Path]:
    """Start kube-scheduler as well."""
    program = Path(os.environ[ASSETS]) / STOCK
    async with control_plane(folder) as kubeconfig:
        arguments = ("--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port=0", *NOT_LIMITED)
        with (folder / "kube-scheduler.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(program, *arguments, stdout=log, stderr=log)
        try:
            yield kubeconfig
        finally:
            process.terminate()
            await process.wait()


def main() -> None:
    """Run the workload with each scheduler, and print pods per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", help="a folder of scheduler_perf, such as misc")
    parser.add_argument("workload", help="TestCase/Workload")
    parser.add_argument("--no-stock", action="store_true", help="do not run kube-scheduler")
    options = parser.parse_args()
    schedulers = {BAYPLAN: (BAYPLAN, control_plane), NULL: (NULL, control_plane)}
    rates: dict[str, Any] = {}
    try:
        Assets.find()
        if not options.no_stock and (Path(os.environ[ASSETS]) / STOCK).is_file():
            schedulers[STOCK] = (f"{EXTERNAL}default-scheduler", with_stock_scheduler)
        perf = os.environ.get("BAYPLAN_SCHEDULER_PERF")
        (config,) = find_configs(options.topic, Path(perf) if perf else None)
        (workload,) = named(read_workloads(config), [options.workload])
        for name, (scheduler, server) in schedulers.items():
            measured = run_on_cluster(workload, Target(server=server), scheduler)
            found = next((each for each in measured if each.average), None)
            rates[name] = found.average if found else None
            if found and found.writes_per_pod is not None:
                rates["writes"] = found.writes_per_pod
    except (BenchmarkError, ControlPlaneError) as error:
        rates["problem"] = str(error)
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
