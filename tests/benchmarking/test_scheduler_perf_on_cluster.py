"""Workloads of scheduler_perf against the embedded API server in another process, with several schedulers."""

import asyncio

import pytest

from bayplan.benchmarking import processes
from bayplan.benchmarking.cluster_run import Target, run_on_cluster
from bayplan.benchmarking.selection import named
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workloads import read_workloads
from bayplan.client import connect
from bayplan.core.api.kinds import NAMESPACE, NODE, POD


def workload(folder, name):
    (found,) = named(read_workloads(folder / "misc/performance-config.yaml"), [name])
    return found


async def left(kubeconfig):
    """The names of what is left in a cluster."""
    async with connect(kubeconfig) as client:
        return {
            kind.plural: sorted(each.metadata.name for each in (await client.list(kind)).items)
            for kind in (POD, NODE, NAMESPACE)
        }


@pytest.mark.parametrize(
    ("name", "scheduler", "attempts"),
    [
        ("Preemption/Any", "bayplan", {"scheduled", "unschedulable"}),
        ("Gated/Any", "bayplan", {"scheduled"}),
        ("Gated/Any", "null", set()),
        ("Custom/Fit", "bayplan", {"scheduled"}),
    ],
)
def test_pods_are_scheduled_on_a_new_api_server(folder, name, scheduler, attempts):
    (measured,) = run_on_cluster(workload(folder, name), Target(), scheduler)
    assert measured.scheduled == {"Preemption/Any": 2, "Gated/Any": 3, "Custom/Fit": 3}[name]
    assert measured.average > 0
    assert {result for result, durations in measured.attempts.items() if durations.count} == attempts
    writes = measured.writes_per_pod
    assert writes is None if scheduler == "null" else writes >= 1  # at least the bindings


def test_existing_cluster_is_cleaned_up(folder, tmp_path):
    devices = workload(folder, "Devices/Full")

    async def run():
        async with processes.api_server(tmp_path) as kubeconfig, processes.null_scheduler(kubeconfig, "mine", tmp_path):
            before = await left(kubeconfig)
            measured = await asyncio.to_thread(run_on_cluster, devices, Target(kubeconfig), "external:mine")
            return before, await left(kubeconfig), measured

    before, after, measured = asyncio.run(run())
    assert [each.scheduled for each in measured] == [10, 5]
    assert after == before | {"namespaces": sorted([*before["namespaces"], "held", "shared", "test"])}


def test_cluster_that_cannot_be_reached_is_reported(folder, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(BenchmarkError, match=r"Gated/Any: .*kubeconfig"):
        run_on_cluster(workload(folder, "Gated/Any"), Target(kubeconfig), "external:mine")
