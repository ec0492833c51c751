"""A queue of the most expensive pods: lease renewals, watches and endpoints continue while they are decided."""

import asyncio
import json
import socket
from contextlib import suppress
from itertools import pairwise

import aiohttp
from benchmarks.process_usage import cpu_seconds
from benchmarks.worst_pods import CASES, HOSTNAME, OWN_KEYS, ZONE
from running import bayplan_run
from tests.support.waiting import until

from bayplan.client import HttpClient, load_kubeconfig
from bayplan.core.api.kinds import LEASE, POD
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer

NODES, RUNNING, COPIES = 200, 500, 2
LONGEST_SILENCE = 2.0
"""Seconds of CPU, more than all these pods take together: the observer may be late, too, on a busy machine."""
SCHEDULER = "default-scheduler"
WORST = [make for name, make in CASES.items() if not name.startswith("2,000")]  # the API server is too slow for those


class Observer:
    """Repeatedly checks liveness and reads the lease.

    `used`: the CPU time that the scheduler had used at each response. Unlike real time, it doesn't depend on what
    else the machine does.
    """

    def __init__(self, port, client, scheduler):
        self.statuses = []
        self.used = [cpu_seconds(scheduler.pid)]
        self.renewals = set()
        self._url = f"https://127.0.0.1:{port}/livez"
        self._client = client
        self._scheduler = scheduler

    async def run(self):
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(self._url, ssl=False) as response:
                    self.statuses.append(response.status)
                    self.used.append(cpu_seconds(self._scheduler.pid))
                lease = json.loads(await self._client.request("GET", LEASE.path("kube-system", "kube-scheduler")))
                self.renewals.add(lease["spec"]["renewTime"])
                await asyncio.sleep(0.02)


async def test_renewals_watches_and_endpoints_continue_while_expensive_pods_are_decided(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kubeconfig = tmp_path / "kubeconfig"
    async with ApiServer() as server:
        kubeconfig.write_text(server.kubeconfig())
        for number in range(NODES):
            labels = {HOSTNAME: f"n{number}", ZONE: f"z{number % 3}", **OWN_KEYS}
            load(server, make_node(f"n{number}", labels=labels))
        for number in range(RUNNING):
            load(server, make_pod(f"p{number}", node=f"n{number % NODES}", labels={"app": f"app-{number % 500}"}))
        arguments = [
            f"--kubeconfig={kubeconfig}",
            f"--scheduler-name={SCHEDULER}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--leader-elect",
            "--leader-elect-lease-duration=60s",  # how fast the machine is decides how long all pods take
            "--leader-elect-renew-deadline=50s",
            "--leader-elect-retry-period=100ms",
            "-v",
        ]
        async with HttpClient(load_kubeconfig(kubeconfig)) as client, bayplan_run(*arguments) as scheduler:

            def stored(name):
                return server.store.collection(POD.resource).objects[f"default/{name}"].load()

            def is_placed(name):
                return "nodeName" in stored(name)["spec"]

            undecided = set()

            def all_are_decided():
                """Look at the pods in the API server: it would need all of a CPU to list them again and again."""
                if observing.done():  # the scheduler has ended, or doesn't answer
                    observing.result()
                for name in list(undecided):
                    pod = stored(name)
                    if "nodeName" in pod["spec"] or pod["status"].get("conditions"):
                        undecided.discard(name)
                return not undecided

            load(server, make_pod("first", cpu="10m"))
            await until(lambda: is_placed("first"))
            observer = Observer(port, client, scheduler)
            observing = asyncio.create_task(observer.run())
            for _ in range(COPIES):
                for make in WORST:
                    pod = make()
                    load(server, pod)
                    undecided.add(pod.metadata.name)
            load(server, make_pod("last", cpu="10m"))  # it is reported while the others are decided
            # How long that takes depends on the machine: the limit of the test is that of a hang.
            await until(lambda: all_are_decided() and is_placed("last"), within=None, step=0.1)
            observing.cancel()
            with suppress(asyncio.CancelledError):
                await observing
            assert not [line for line in scheduler.lines if "lost" in line or "Traceback" in line]
        assert set(observer.statuses) == {200}
        assert max(after - before for before, after in pairwise(observer.used)) < LONGEST_SILENCE
        assert len(observer.renewals) >= 3
