"""SIGUSR2 dumps the cache and the queue of a running scheduler to its log."""

import json
import signal

import pytest
from running import bayplan_run
from workloads import pod

pytestmark = pytest.mark.usefixtures("invariants")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_signal_dumps_cache_and_queue(form, cluster):
    await cluster.add_node("a", cpu="1")
    arguments = ("--kubeconfig", cluster.scheduler_kubeconfig, f"--logging-format={form}")
    async with bayplan_run(*arguments) as run:
        await cluster.create(pod("small", "500m"), pod("big", "2"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/small") == "a")
        await cluster.observer.until(lambda: cluster.observer.events_of("default/big", "FailedScheduling"))
        run.signal(signal.SIGUSR2)
        await cluster.observer.until(
            lambda: run.logged("comparison: 1 nodes and 2 pods of the API server: 0 differences")
        )
        lines = [json.loads(line)["msg"] if form == "json" else line.partition(" I ")[2] for line in run.lines]
        (node,) = (line for line in lines if line.startswith("dump: node a: requested cpu 500m,"))
        assert "pods: default/small (" in node
        (queued,) = (line for line in lines if line.startswith("dump: unschedulable: pod default/big, "))
        assert "for an event for NodeResourcesFit: 0/1 nodes are available: 1 Insufficient cpu." in queued
        if form == "json":
            assert [line["pod"] for line in map(json.loads, run.lines) if line["msg"] == queued] == [
                {"name": "big", "namespace": "default"}
            ]
        await cluster.create(pod("after"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/after") == "a")
        for _ in range(3):
            run.signal(signal.SIGUSR2)
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0
