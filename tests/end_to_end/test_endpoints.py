"""The HTTPS endpoints of a running scheduler, on a cluster that reviews tokens."""

import asyncio
import json
import re
import signal
import socket
import ssl
import threading
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
import pytest
from clusters import ADMIN_TOKEN, embedded
from lightkube.models.core_v1 import ConfigMap
from lightkube.models.meta_v1 import ObjectMeta
from prometheus_client.parser import text_string_to_metric_families
from running import FAST, bayplan_run
from tests.support.certificates import Authority
from tests.support.waiting import until
from workloads import NAME, pod, pods

from bayplan.client import HttpClient
from bayplan.core.api.kinds import CONFIG_MAP
from bayplan.core.config.profiles import default_profile
from bayplan.core.framework.interface import Plugin
from bayplan.core.versions import gates_of
from bayplan.running.service.leader_election import Leadership
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.serving.endpoints import Endpoints, Published
from bayplan.running.service.serving.options import SecureServing, ServingOptions
from bayplan.running.service.serving.server import ReviewClients
from bayplan.running.service.settings import Peers

OPTIONS = ServingOptions(secure=SecureServing(port=0, bind_address="127.0.0.1"), blocked_limit=0.5)
TOKEN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture
async def small(tmp_path):
    async with embedded(tmp_path) as cluster:
        yield cluster


class Requests:
    """Endpoints, and a client that does not verify certificates."""

    def __init__(self, scheduler: Scheduler, endpoints: Endpoints, session: aiohttp.ClientSession) -> None:
        self.scheduler = scheduler
        self.endpoints = endpoints
        self._session = session

    async def get(self, path: str, headers=TOKEN, method: str = "GET"):
        url = f"https://127.0.0.1:{self.endpoints.port}{path}"
        async with self._session.request(method, url, headers=headers, ssl=False) as response:
            return response.status, await response.text(), response.headers

    async def has_status(self, path: str, status: int) -> bool:
        return (await self.get(path, {}))[0] == status

    async def metrics(self) -> dict[str, dict[frozenset, float]]:
        """All samples, by name and labels."""
        status, text, _ = await self.get("/metrics")
        assert status == 200
        samples: dict[str, dict[frozenset, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return samples


def labels(**values: str) -> frozenset:
    return frozenset(values.items())


@asynccontextmanager
async def serving(cluster, *plugins: Plugin, run: bool = True, leadership: Leadership | None = None, **published):
    metrics = Metrics(sampled=1.0)
    async with HttpClient(cluster.access, observer=metrics.requests) as client, aiohttp.ClientSession() as session:
        profiles = {NAME: lambda handle: default_profile(NAME, handle, plugins)}
        scheduler = Scheduler(
            client,
            lambda handle: {name: build(handle) for name, build in profiles.items()},
            FAST,
            Peers(leadership=leadership),
            metrics,
        )
        stop = asyncio.Event()
        connect = partial(HttpClient, cluster.access)
        with Endpoints(OPTIONS, scheduler, ReviewClients(connect, connect), Published(**published)) as endpoints:
            requests = Requests(scheduler, endpoints, session)
            requests.stop = stop
            async with asyncio.TaskGroup() as tasks:
                if run:
                    tasks.create_task(scheduler.run(stop), name="scheduler under test")
                    await scheduler.synced.wait()
                yield requests
                stop.set()


PERMITTED = {
    "metrics without a token": ("/metrics", {}, 403),
    "metrics with a wrong token": ("/metrics", {"Authorization": "Bearer wrong"}, 401),
    "metrics with a password": ("/metrics", {"Authorization": "Basic YTpi"}, 403),
    "metrics with a token": ("/metrics", TOKEN, 200),
    "resources without a token": ("/metrics/resources", {}, 403),
    "resources with a token": ("/metrics/resources", TOKEN, 200),
    "slis with a token": ("/metrics/slis", TOKEN, 200),
    "configuration without a token": ("/configz", {}, 403),
    "configuration with a token": ("/configz", TOKEN, 200),
    "flags without a token": ("/flagz", {}, 403),
    "status without a token": ("/statusz", {}, 403),
    "health without a token": ("/healthz", {}, 200),
    "liveness without a token": ("/livez?verbose", {}, 200),
    "readiness without a token": ("/readyz", {}, 200),
    "single check without a token": ("/livez/scheduling-loop", {}, 403),
    "single check with a token": ("/livez/scheduling-loop", TOKEN, 200),
    "unknown path without a token": ("/nowhere", {}, 403),
    "unknown path with a token": ("/nowhere", TOKEN, 404),
}
REASONS = {401: "Unauthorized", 403: "Forbidden"}


async def test_endpoints_require_permission(small) -> None:
    async with serving(small) as requests:
        answers = {name: await requests.get(path, headers) for name, (path, headers, _) in PERMITTED.items()}
    assert {name: status for name, (status, *_) in answers.items()} == {
        name: case[2] for name, case in PERMITTED.items()
    }
    for status, text, headers in answers.values():
        if status in REASONS:
            assert headers["Content-Type"] == "application/json"
            assert '"kind":"Status"' in text
            assert f'"reason":"{REASONS[status]}"' in text


async def test_client_certificates_of_the_cluster_are_trusted(small, tmp_path) -> None:
    authority = Authority()
    pair = authority.client("root", "system:masters")
    (tmp_path / "client.pem").write_bytes(pair.key + pair.certificate)
    name = ObjectMeta(name="extension-apiserver-authentication", namespace="kube-system")
    found = ConfigMap(metadata=name, data={"client-ca-file": authority.certificate.decode()})
    async with serving(small) as requests:
        url = f"https://127.0.0.1:{requests.endpoints.port}/metrics"
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        tls.load_cert_chain(tmp_path / "client.pem")

        async def status() -> int:
            connector = aiohttp.TCPConnector(ssl=tls, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
                return response.status

        assert await status() == 403
        await small.client.create(CONFIG_MAP, found, "kube-system")

        async def trusted() -> bool:
            return await status() == 200

        await until(trusted)


async def test_metrics_of_scheduling(small) -> None:
    await small.add_nodes(2, cpu="1")
    async with serving(small) as requests:
        await small.create(*pods("web", 4, cpu="400m"), pod("huge", cpu="30"))
        await small.observer.until(lambda: sum("nodeName" in p["spec"] for p in small.observer.pods.values()) == 4)

        async def settled() -> bool:
            return (
                requests.scheduler.queue.pending_pods().unschedulable == 1
                and not requests.scheduler.state.assumed_count
            )

        await until(settled)
        found = await requests.metrics()

    attempts = found["scheduler_schedule_attempts_total"]
    assert attempts[labels(result="scheduled", profile=NAME)] == 4
    assert attempts[labels(result="unschedulable", profile=NAME)] >= 1
    durations = found["scheduler_scheduling_attempt_duration_seconds_count"]
    assert durations[labels(result="scheduled", profile=NAME)] == 4
    assert found["scheduler_scheduling_algorithm_duration_seconds_count"][labels()] >= 5
    assert found["scheduler_pod_scheduling_attempts_count"][labels()] == 4
    assert found["scheduler_pod_scheduling_sli_duration_seconds_count"][labels(attempts="1")] == 4
    assert found["scheduler_pending_pods"] == {
        labels(queue="active"): 0,
        labels(queue="backoff"): 0,
        labels(queue="unschedulable"): 1,
        labels(queue="gated"): 0,
    }
    assert found["scheduler_unschedulable_pods"] == {labels(plugin="NodeResourcesFit", profile=NAME): 1}
    assert found["scheduler_cache_size"] == {
        labels(type="nodes"): 2,
        labels(type="pods"): 4,
        labels(type="assumed_pods"): 0,
    }
    incoming = found["scheduler_queue_incoming_pods_total"]
    assert incoming[labels(queue="active", event="UnschedulablePodAdd")] == 5
    assert incoming[labels(queue="unschedulable", event="ScheduleAttemptFailure")] >= 1
    assert found["scheduler_preemption_attempts_total"][labels()] >= 1
    evaluated = found["scheduler_plugin_evaluation_total"]
    assert evaluated[labels(plugin="NodeResourcesFit", extension_point="Filter", profile=NAME)] >= 5
    points = found["scheduler_framework_extension_point_duration_seconds_count"]
    for point in ("PreFilter", "Filter", "PreScore", "Score", "Bind"):
        assert points[labels(extension_point=point, status="Success", profile=NAME)] >= 1, point
    assert points[labels(extension_point="PostFilter", status="Unschedulable", profile=NAME)] >= 1
    plugins = found["scheduler_plugin_execution_duration_seconds_count"]
    assert plugins[labels(plugin="DefaultBinder", extension_point="Bind", status="Success")] == 4
    handled = found["scheduler_event_handling_duration_seconds_count"]
    assert handled[labels(event="UnschedulablePodAdd")] == 5
    assert handled[labels(event="NodeAdd")] == 2
    hosts = {dict(key)["host"] for key in found["rest_client_requests_total"]}
    assert hosts == {small.access.server.removeprefix("http://")}
    assert sum(found["rest_client_requests_total"].values()) >= 4
    assert found["process_resident_memory_bytes"][labels()] > 1e6


async def test_resources_of_pods(small) -> None:
    await small.add_nodes(1)
    async with serving(small) as requests:
        await small.create({**pod("web", cpu="250m"), "spec": {**pod("web", cpu="250m")["spec"], "priority": None}})
        await small.observer.until(lambda: "nodeName" in small.observer.pods["default/web"]["spec"])
        _, text, _ = await requests.get("/metrics/resources")
        expected = (
            'kube_pod_resource_request{namespace="default",node="node-0",pod="web",priority="0",resource="cpu",'
            f'scheduler="{NAME}",unit="cores"}} 0.25'
        )
        assert expected in text
        requests.scheduler.metrics.leading["lease"] = lambda: False
        status, text, _ = await requests.get("/metrics/resources")
        assert (status, text) == (200, ""), "only the leader reports pods"


async def test_readiness(small) -> None:
    async with serving(small, run=False) as requests:
        status, text, _ = await requests.get("/readyz", {})
        assert status == 500
        assert "[-]sched-handler-sync failed: reason withheld\n" in text
        assert text.endswith("readyz check failed\n")
        assert (await requests.get("/livez", {}))[:2] == (200, "ok")
        assert (await requests.get("/metrics"))[0] == 200, "metrics are served before the scheduler runs"
    async with serving(small) as requests:
        status, text, _ = await requests.get("/readyz?verbose&exclude=ping&exclude=etcd", {})
        assert status == 200
        assert text == (
            "[+]ping excluded: ok\n[+]shutdown ok\n[+]sched-handler-sync ok\n"
            'warn: some health checks cannot be excluded: no matches for "etcd"\nreadyz check passed\n'
        )
        requests.stop.set()
        await until(lambda: requests.has_status("/readyz", 500))
        assert "[-]shutdown failed" in (await requests.get("/readyz", {}))[1]
        assert (await requests.get("/livez", {}))[0] == 200


class ControlledLeadership:
    """A leadership that the test controls."""

    def __init__(self) -> None:
        self.acquired, self.lost = asyncio.Event(), asyncio.Event()
        self.is_leader = False

    def leads(self) -> bool:
        return self.is_leader

    def let_expire(self) -> None:
        raise AssertionError("no write is unknown")


async def test_lost_lease_is_unhealthy(small) -> None:
    leadership = ControlledLeadership()
    async with serving(small, leadership=leadership) as requests:
        assert await requests.has_status("/healthz", 200), "waiting for the lease is healthy"
        leadership.acquired.set()
        leadership.is_leader = True
        assert await requests.has_status("/healthz", 200)
        leadership.is_leader = False
        assert await requests.has_status("/healthz", 500)
        assert await requests.has_status("/readyz", 500)
        assert (await requests.get("/healthz/leaderElection"))[1] == "internal server error: the lease was lost\n"


class Blocker(Plugin):
    """Blocks the event loop until it is released."""

    name = "Blocker"

    def __init__(self) -> None:
        self.began, self.released = threading.Event(), threading.Event()

    def filter(self, cycle, pod, node):
        self.began.set()
        self.released.wait(20)


async def test_blocking_plugin_fails_the_liveness_check(small, caplog) -> None:
    blocker, seen = Blocker(), {}
    await small.add_nodes(1)

    async def look(requests: Requests) -> None:
        """Runs in another event loop, because the scheduler and the test share a blocked one."""
        async with aiohttp.ClientSession() as session:
            outside = Requests(requests.scheduler, requests.endpoints, session)
            await until(lambda: outside.has_status("/livez", 500))
            seen["livez"] = await outside.get("/livez", {})
            seen["readyz"] = await outside.get("/readyz", {})
            seen["metrics"] = await outside.metrics()

    def observe(requests: Requests) -> None:
        try:
            assert blocker.began.wait(10)
            with asyncio.Runner() as runner:
                runner.run(look(requests))
        finally:
            blocker.released.set()

    async with serving(small, blocker) as requests:
        # Cache the review of the token, because the embedded API server shares the blocked event loop.
        before = await requests.metrics()
        observing = threading.Thread(target=observe, args=(requests,))
        observing.start()
        await small.create(pod("web"))
        await asyncio.to_thread(observing.join)
        await until(lambda: requests.has_status("/livez", 200))

    assert before["bayplan_event_loop_blocked_seconds"][labels()] == 0
    status, text, _ = seen["livez"]
    assert status == 500
    assert "[-]scheduling-loop failed: reason withheld" in text
    assert seen["readyz"][0] == 200
    assert seen["metrics"]["bayplan_event_loop_blocked_seconds"][labels()] > 0
    assert seen["metrics"]["bayplan_event_loop_blocks_total"] == {labels(culprit="plugin Blocker in Filter"): 1}
    assert seen["metrics"]["scheduler_cache_size"][labels(type="nodes")] == 1, "the last value"
    assert re.search("scheduling-loop: plugin Blocker in Filter has been blocking the event loop for", caplog.text)


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


async def test_command_serves_by_its_flags(small, free_port) -> None:
    arguments = ("--kubeconfig", small.scheduler_kubeconfig, "--bind-address=127.0.0.1", f"--secure-port={free_port}")
    election = ("--leader-elect", f"--leader-elect-resource-name={NAME}")
    async with aiohttp.ClientSession() as session, bayplan_run(*arguments, *election) as run:

        async def get(path: str, headers=TOKEN) -> tuple[int, str]:
            try:
                async with session.get(f"https://127.0.0.1:{free_port}{path}", headers=headers, ssl=False) as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                return 0, ""

        async def ready() -> bool:
            return (await get("/readyz", {}))[0] == 200

        async def leads() -> bool:
            return f'leader_election_master_status{{name="{NAME}"}} 1.0' in (await get("/metrics"))[1]

        await until(ready)
        await until(leads)
        assert "[+]leaderElection ok" in (await get("/healthz?verbose", {}))[1]
        assert (await get("/metrics", {}))[0] == 403
        status, text = await get("/metrics")
        assert status == 200
        assert 'scheduler_cache_size{type="nodes"} 0.0' in text
        assert f'host="127.0.0.1:{small.access.server.rpartition(":")[2]}"' in text
        configuration = json.loads((await get("/configz"))[1])["componentconfig"]
        assert configuration["kind"] == "KubeSchedulerConfiguration"
        assert configuration["profiles"][0]["schedulerName"] == NAME
        flags = (await get("/flagz"))[1]
        assert f"\nsecure-port={free_port}\n" in flags
        assert "\nauthorization-always-allow-paths=/healthz,/readyz,/livez\n" in flags
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0
        assert await get("/livez", {}) == (0, "")


async def test_port_in_use_is_reported_at_start(small) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--kubeconfig", small.scheduler_kubeconfig, "--bind-address=127.0.0.1", f"--secure-port={port}")
        async with bayplan_run(*arguments) as run:
            assert await run.ended() == 2
    assert run.problems == [
        (
            f"bayplan run: cannot serve on 127.0.0.1, port {port}: Address already in use; choose with --bind-address "
            "and --secure-port (0: serve nothing)"
        )
    ]


async def test_configuration_and_flags_are_served(small) -> None:
    configuration = {"kind": "KubeSchedulerConfiguration", "parallelism": 16}
    flags = {"secure-port": "10259", "v": "2"}
    async with serving(small, configuration=lambda: configuration, flags=flags, gates=gates_of("1.37")) as requests:
        _, text, _ = await requests.get("/configz")
        assert text.startswith(
            '{"componentconfig":{"kind":"KubeSchedulerConfiguration","parallelism":16},"kubernetes":'
        )
        assert json.loads(text)["kubernetes"]["featureGates"]["StorageCapacityScoring"] is True
        assert json.loads(text)["kubernetes"]["emulatedVersion"] == "1.37"
        _, text, _ = await requests.get("/flagz")
        assert text.startswith("\nbayplan flagz\nWarning: This endpoint is not meant to be machine parseable")
        assert text.endswith("\nsecure-port=10259\nv=2\n")
        _, text, _ = await requests.get(
            "/flagz", {**TOKEN, "Accept": "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"}
        )
        assert '"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1"' in text
        assert '"flags":{"secure-port":"10259","v":"2"}' in text
        _, text, _ = await requests.get("/statusz")
        assert "Emulation version: 1.37\n" in text
        assert " /metrics " in text
        _, text, _ = await requests.get("/statusz", {**TOKEN, "Accept": "application/json"})
        assert '"uptimeSeconds":' in text
        _, text, _ = await requests.get("/version")
        assert (json.loads(text)["minor"], json.loads(text)["gitVersion"].split("+")[0]) == ("37", "v1.37")
        _, text, _ = await requests.get("/metrics")
        assert 'kubernetes_feature_enabled{name="VolumeLimitScaling",stage="BETA"} 1.0' in text
        assert 'kubernetes_feature_enabled{name="TaintTolerationComparisonOperators",stage="ALPHA"} 0.0' in text
        status, text, _ = await requests.get("/metrics", method="DELETE")
        assert status == 405
        assert '"reason":"MethodNotAllowed"' in text
