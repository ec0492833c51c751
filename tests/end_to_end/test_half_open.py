"""Connections that are frozen while new ones work, as after a lost NAT entry: the scheduler opens new ones in time."""

import asyncio
import inspect
import json
import logging
import re
import signal
from dataclasses import replace

import pytest
from running import FAST, bayplan_run, running_scheduler
from tests.support.invariants import check_invariants
from tests.support.waiting import PATIENCE, until
from workloads import NAME, pod, pods

from bayplan.client import HttpClient
from bayplan.core.config import default_profile
from bayplan.faces.cli.run_reports import RunReports
from bayplan.running.client.http import KEEP_ALIVE, HttpTransport
from bayplan.running.client.pace import IDLE_SECONDS
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings

SOONER = IDLE_SECONDS - 2
"""Seconds after which the default limits would have no effect yet."""
LIMIT = 30.0
"""Seconds after which pods are bound again, with the default limits."""


@pytest.mark.parametrize(
    ("settings", "options", "within"),
    [
        pytest.param(replace(FAST, watch_idle=1.5), {"idle_timeout": 0.5}, SOONER, id="scaled down"),
        pytest.param(Settings(), {}, LIMIT, id="default limits", marks=pytest.mark.soak),
    ],
)
async def test_pods_are_bound_again_after_connections_froze(cluster, proxy, settings, options, within):
    await cluster.add_nodes(2)
    async with running_scheduler(proxy.access, settings=settings, **options):
        await cluster.create(*pods("before", 5))
        await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))
        assert proxy.freeze() > 5
        await cluster.create(pod("after"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/after"), within=within)
    check_invariants(cluster.observer, NAME)


async def test_binding_on_a_frozen_connection_is_looked_up_on_a_new_one(cluster, proxy):
    await cluster.add_nodes(2)
    settings = replace(FAST, watch_idle=1.5)
    async with running_scheduler(proxy.access, settings=settings, idle_timeout=0.5):
        slow = proxy.inject("POST", "/binding$", delay=0.2)
        await cluster.create(pod("in-flight"))
        await cluster.observer.until(lambda: slow.hits)
        proxy.freeze()
        await cluster.observer.until(lambda: cluster.observer.node_of("default/in-flight"), within=SOONER)
    check_invariants(cluster.observer, NAME)


async def test_binding_without_a_reply_is_reported_and_delays_the_exit_by_the_drain_time_only(cluster, proxy, caplog):
    caplog.set_level(logging.INFO)
    await cluster.add_nodes(1)
    stop = asyncio.Event()
    async with HttpClient(proxy.access) as client:
        scheduler = Scheduler(client, lambda handle: {NAME: default_profile(NAME, handle)}, replace(FAST, drain=0.5))
        reports = RunReports(scheduler, longest_wait=client.longest_wait, silence=0.3)
        async with reports.reporting(), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(scheduler.run(stop))
            await scheduler.synced.wait()
            await proxy.arrival("GET", r"/pods\?.*watch=true")
            silent = proxy.inject("", "", times=None, hang=True)
            await cluster.create(pod("in-flight"))
            await until(lambda: re.search(r"has not replied to POST /\S+/in-flight/binding for", caplog.text))
            stop.set()
            await asyncio.wait_for(running, PATIENCE)
        assert silent.hits
        proxy.faults.clear()


async def test_one_warning_names_all_kinds_when_the_server_is_gone(cluster, proxy, caplog):
    async with running_scheduler(proxy.access):
        await proxy.down()
        await until(lambda: "connection refused; retrying" in caplog.text)
        await proxy.up()
    (line,) = (record.getMessage() for record in caplog.records if "retrying" in record.getMessage())
    assert line.startswith("18 kinds (csidrivers.storage.k8s.io, csinodes.storage.k8s.io, ")


async def test_leader_exits_although_the_server_does_not_reply_any_more(cluster, proxy, tmp_path):
    """SIGTERM ends the process long before a request times out (15 s)."""
    document = json.loads(cluster.scheduler_kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": proxy.url}
    path = tmp_path / "through-the-proxy.yaml"
    path.write_text(json.dumps(document))
    async with bayplan_run("--kubeconfig", path, "--leader-elect", f"--leader-elect-resource-name={NAME}") as running:
        await until(lambda: running.logged("ready: "))
        proxy.inject("", "", times=None, hang=True)
        proxy.freeze()
        running.signal(signal.SIGTERM)
        assert await running.ended() == 0
    (line,) = (line for line in running.problems if "lease" in line)
    assert line.endswith(f"cannot release the lease kube-system/{NAME}: no reply within 2 s; it expires by itself")


async def test_silent_watch_of_an_unchanged_kind_is_ended_by_the_server(cluster, proxy):
    """The client has no reason to break it: the server ends it in time, after a bookmark."""
    await cluster.add_nodes(1)
    async with running_scheduler(proxy.access, settings=replace(FAST, watch_idle=4.0)):
        asked = await until(
            lambda: [seen.path for seen in proxy.requests if seen.is_watch and "/storageclasses" in seen.path]
        )
    assert all("timeoutSeconds=3&" in f"{path}&" for path in asked)


def test_default_limits_allow_for_pods_to_be_bound_within_30_seconds():
    defaults = {name: each.default for name, each in inspect.signature(HttpTransport).parameters.items()}
    assert IDLE_SECONDS + 5 < LIMIT
    assert defaults["idle_timeout"] + 5 < LIMIT
    assert defaults["request_timeout"] <= LIMIT
    assert defaults["idle_timeout"] > KEEP_ALIVE, "a request after a timeout must not take another frozen connection"
