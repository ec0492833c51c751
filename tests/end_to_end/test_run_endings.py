"""`bayplan run` ends within its grace period after a signal, whatever its plugins do."""

import asyncio
import signal

from running import bayplan_run
from tests.support.waiting import PATIENCE, until
from workloads import NAME, pod

from bayplan.core.api.kinds import LEASE

ELECTION = ("--leader-elect", f"--leader-elect-resource-name={NAME}")

SHORT = """
from bayplan.faces.cli import ending
from bayplan.running.service import unended
from bayplan.running.service.scheduler import Scheduler

drain = Scheduler._drain
Scheduler._drain = lambda self, seconds: drain(self, 0.3)
unended.CANCEL_SECONDS = ending.LAST_SECONDS = 0.3
ending.LIMIT = 2.0
"""
"""Shorter grace periods: by default they are 10 s for bindings, then 5 s for what is cancelled."""

STUBBORN = """
import asyncio
import threading
import time

from bayplan.plugin import Plugin


async def swallow():
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass




class Stubborn(Plugin):
    name = "Stubborn"

    def __init__(self, handle):
        self._handle = handle
        self._task = None

    def watch(self):
        time.sleep(1000)

    async def background(self):
        threading.Thread(target=self.watch, name="watcher").start()
        self._task = asyncio.create_task(swallow(), name="forgotten")
        self._handle.start("refreshing", swallow)
        await swallow()

    async def pre_bind(self, cycle, pod, node_name):
        if pod.name == "slept":
            await asyncio.to_thread(time.sleep, 1000)
        else:
            await swallow()
"""

BLOCKING = """
import time

from bayplan.plugin import Plugin


class Blocking(Plugin):
    name = "Blocking"

    def permit(self, cycle, pod, node_name):
        while True:
            time.sleep(0.05)
"""


async def ended(cluster, tmp_path, source, pods, signs):
    """The lines that a scheduler logs that ends with status 0, soon, and without its lease."""
    path = tmp_path / "policy.py"
    path.write_text(SHORT + source)
    await cluster.add_node("a")
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--plugin", path, *ELECTION) as run:
        await cluster.create(*map(pod, pods))
        async with asyncio.timeout(PATIENCE):
            await signs(run)
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0, run.lines
    lease = await cluster.client.get(LEASE, NAME, "kube-system")
    assert lease.spec.holderIdentity == ""
    assert not run.logged("Traceback")
    return [line.partition(" W ")[2] for line in run.problems]


async def test_work_that_ignores_its_cancellation_and_threads_end_with_the_process(cluster, tmp_path):
    async def nominated(_run):
        for name in ("late", "slept"):
            await cluster.observer.until(
                lambda name=name: cluster.observer.pods[f"default/{name}"]["status"].get("nominatedNodeName")
            )

    lines = await ended(cluster, tmp_path, STUBBORN, ["late", "slept"], nominated)
    late = "didn't end within 0.3 s of being cancelled"
    for line in (
        "binding pod default/slept was not finished in time: PreBind of plugin Stubborn goes on",
        f"plugin Stubborn {late}: PreBind of pod default/late",
        f"the background work of plugin Stubborn {late}",
        f"work that a plugin started (refreshing) {late}",
        "task forgotten of a plugin goes on after it was cancelled; the process ends without it",
    ):
        assert lines.count(line) == 1, lines
    [thread] = [line for line in lines if line.startswith("a thread of plugin Stubborn still runs: watcher, in ")]
    assert f"Stubborn.watch ({tmp_path}/policy.py, line " in thread
    assert any(line.startswith("a thread of a plugin still runs: asyncio_0, in ") for line in lines), lines


async def test_method_that_blocks_the_event_loop_ends_with_the_process(cluster, tmp_path):
    async def blocked(run):
        await until(lambda: run.logged("plugin Blocking in Permit has been blocking"))

    lines = await ended(cluster, tmp_path, BLOCKING, ["any"], blocked)
    assert "plugin Blocking in Permit still runs 2 s after the signal; the process ends without it" in lines
