"""`bayplan run` as a process: start-up errors, signals, and restarts."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import ssl
from contextlib import asynccontextmanager

import pytest
from running import bayplan_run
from tests.extender.stub_extender import StubExtender
from tests.support.certificates import Authority
from tests.support.control_plane import _base64
from tests.support.invariants import check_invariants, waiting_or_bound
from tests.support.tables import cases
from tests.support.waiting import until
from workloads import NAME, pod, pods


def kubeconfig(path, server, user=None, **cluster):
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


async def startup_error(*arguments, **environ):
    """The only line that `bayplan run` logs before it exits with status 2."""
    async with bayplan_run(*arguments, environ=environ) as run:
        assert await run.ended() == 2
    assert len(run.problems) == 1, run.lines
    return run.problems[0]


@cases(
    "content, message",
    {
        "missing": (None, "cannot read the kubeconfig: No such file or directory"),
        "binary": (b"\xff\xfe\x00", "is not YAML"),
        "not YAML": (b"a: [1", "is not YAML"),
        "list": (b"- 1", ""),
        "empty": (b"", "no current-context is set"),
        "no such context": (b"current-context: gone", "gone"),
        "wrong type": (b"contexts: 3\ncurrent-context: x", "contexts"),
    },
)
async def test_invalid_kubeconfig(content, message, tmp_path):
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    line = await startup_error("--kubeconfig", path)
    assert line.startswith("bayplan run: ")
    assert str(path) in line
    assert message in line


async def test_kubeconfig_is_a_folder(tmp_path):
    assert str(tmp_path) in await startup_error("--kubeconfig", tmp_path)


async def test_missing_kubeconfig(tmp_path):
    line = await startup_error(HOME=str(tmp_path))
    assert "no kubeconfig: pass a file, set KUBECONFIG" in line
    assert line.rstrip().endswith("; --kubeconfig names a file, and `bayplan cluster` starts a cluster")


async def test_unknown_context(cluster):
    line = await startup_error("--kubeconfig", cluster.scheduler_kubeconfig, "--context", "production")
    assert "production" in line
    assert str(cluster.scheduler_kubeconfig) in line


async def test_rejected_token(cluster):
    document = json.loads(cluster.scheduler_kubeconfig.read_text())
    document["users"][0]["user"] = {"token": "expired"}
    path = cluster.scheduler_kubeconfig.with_name("expired.yaml")
    path.write_text(json.dumps(document))
    line = await startup_error("--kubeconfig", path)
    assert "401 Unauthorized" in line
    assert str(path) in line


async def test_user_without_permissions(control_plane):
    plane, *_ = control_plane
    async with bayplan_run("--kubeconfig", plane.user("unprivileged")) as run:
        assert await run.ended() == 2
    assert (
        'permissions are missing for 18 of 18 kinds (403 Forbidden: nodes is forbidden: User "unprivileged"'
        in run.problems[0]
    )
    assert "- {kind: User, name: unprivileged, apiGroup: rbac.authorization.k8s.io}" in run.problems


async def test_untrusted_certificate(tmp_path):
    theirs, ours = Authority(), Authority()
    async with tls_server(theirs, tmp_path) as port:
        authority = {"certificate-authority-data": _base64(ours.certificate)}
        path = kubeconfig(tmp_path / "kubeconfig", f"https://localhost:{port}", **authority)
        line = await startup_error("--kubeconfig", path)
    assert f"https://localhost:{port}" in line
    assert "the server's certificate is not trusted" in line
    assert str(path) in line


async def test_connection_refused(tmp_path):
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    line = await startup_error("--kubeconfig", kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{port}"))
    assert "cannot reach the API server" in line
    assert f"http://127.0.0.1:{port}" in line
    assert "connection refused" in line


@cases(
    "source, message",
    {
        "missing": (None, "no such file"),
        "syntax error": ("def f(:", "line 1: invalid syntax"),
        "no plugin in it": ("x = 1", "has no plugin: expected"),
        "wrong signature": (
            "from bayplan import filter_plugin\n@filter_plugin\ndef f(a, b, c, d): ...",
            "filter plugin 'f': is called with (pod, node)",
        ),
    },
)
async def test_invalid_plugin_file(source, message, tmp_path):
    path = tmp_path / "policy.py"
    if source is not None:
        path.write_text(source)
    line = await startup_error("--plugin", path, "--kubeconfig", tmp_path / "not-looked-at-yet")
    assert str(path) in line
    assert message in line


async def test_plugin_file_that_raises(tmp_path):
    path = tmp_path / "policy.py"
    path.write_text("1 / 0")
    async with bayplan_run("--plugin", path, "--kubeconfig", tmp_path / "not-looked-at-yet") as run:
        assert await run.ended() != 0
    assert run.problems[-1].endswith(f"{path}: line 1: ZeroDivisionError: division by zero")
    assert any(f'File "{path}", line 1' in line for line in run.problems)


async def test_policy_file_decides(cluster, tmp_path):
    await cluster.add_nodes(3)
    await cluster.add_node("control", labels={"tier": "control"})
    policy = tmp_path / "policy.py"
    policy.write_text(
        "from bayplan import filter_plugin, score_plugin\n"
        "@filter_plugin\n"
        "def tier(pod, node):\n"
        '    if node.labels.get("tier") == "control":\n'
        '        return "node is reserved for the control plane"\n'
        "@score_plugin\n"
        "def last(pod, node):\n"
        '    return 100 if node.name == "node-2" else 0\n'
    )
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--plugin", policy):
        await cluster.create(pod("one"), pod("two", nodeSelector={"tier": "control"}))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
    assert cluster.observer.node_of("default/one") == "node-2"
    assert (await cluster.condition("two"))["message"] == (
        "0/4 nodes are available: 1 node is reserved for the control plane, "
        "3 node(s) didn't match Pod's node affinity/selector. "
        "no new claims to deallocate, preemption: 0/4 nodes are available: "
        "1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    check_invariants(cluster.observer, NAME)


POLICY = """
import msgspec
from bayplan import Plugin, filter_plugin

class Limits(msgspec.Struct):
    most: int

class Limited(Plugin):
    name = "Limited"
    arguments = Limits

    def __init__(self, args):
        self.most = args.most

    def filter(self, cycle, pod, node):
        return None if len(node.pods) < self.most else f"has {self.most} pods"

@filter_plugin
def nowhere(pod, node):
    return "not here"
"""
TWO_PROFILES = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{kubeconfig}", qps: 1000, burst: 1000}}
leaderElection: {{leaderElect: false}}
podInitialBackoffSeconds: 2
profiles:
- schedulerName: packed
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu}}]}}}}
  plugins:
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: NodeResourcesFit, weight: 5}}]}}
- schedulerName: limited
  plugins:
    multiPoint: {{enabled: [{{name: Limited}}]}}
  pluginConfig: [{{name: Limited, args: {{most: 1}}}}]
"""


async def test_profiles_of_a_configuration_decide_independently(cluster, tmp_path):
    await cluster.add_nodes(2)
    config, policy = tmp_path / "config.yaml", tmp_path / "policy.py"
    config.write_text(TWO_PROFILES.format(kubeconfig=cluster.scheduler_kubeconfig))
    policy.write_text(POLICY)
    async with bayplan_run("--config", config, "--plugin", policy) as run:
        for name in ("one", "two", "three"):
            await cluster.create(pod(name, scheduler="packed"))
            await cluster.observer.until(lambda name=name: cluster.observer.node_of(f"default/{name}"))
        await cluster.create(pod("apart", scheduler="limited"), pod("late", scheduler="limited"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, "limited"))
    nodes = {cluster.observer.node_of(f"default/{name}") for name in ("one", "two", "three")}
    assert len(nodes) == 1
    assert cluster.observer.node_of("default/apart") not in nodes
    assert (await cluster.condition("late"))["message"].startswith("0/2 nodes are available: 2 has 1 pods.")
    assert run.problems == [
        (
            f"bayplan run: warning: plugin 'nowhere' is not enabled in any profile of {config}: "
            "enable it in plugins.multiPoint"
        )
    ]


async def test_configuration_of_2021_works(cluster, tmp_path):
    await cluster.add_node("a")
    config, policy = tmp_path / "sample.yaml", tmp_path / "sample.py"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1beta1\n"
        "kind: KubeSchedulerConfiguration\n"
        "leaderElection:\n  leaderElect: false\n"
        f"clientConnection:\n  kubeconfig: {cluster.scheduler_kubeconfig}\n"
        "profiles:\n"
        "- schedulerName: sample-scheduler\n"
        "  plugins:\n    preFilter:\n      enabled:\n      - name: sample\n"
    )
    policy.write_text(
        "from bayplan import Plugin\n"
        "class Sample(Plugin):\n"
        "    name = 'sample'\n"
        "    def pre_filter(self, cycle, pod, nodes):\n"
        "        return 'no samples' if pod.name == 'sample' else None\n"
    )
    async with bayplan_run("--config", config, "--plugin", policy) as run:
        await cluster.create(pod("ordinary", scheduler="sample-scheduler"), pod("sample", scheduler="sample-scheduler"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, "sample-scheduler"))
    assert cluster.observer.node_of("default/ordinary")
    assert "no samples" in (await cluster.condition("sample"))["message"]
    assert [line.partition(" is converted to")[0] for line in run.problems] == [
        f"{config}:1: warning: apiVersion: kubescheduler.config.k8s.io/v1beta1"
    ]


async def test_all_errors_of_a_configuration_are_reported(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "paralelism: 4\n"
        "podMaxBackoffSeconds: soon\n"
        "profiles:\n"
        "- schedulerName: a\n"
        "  plugins:\n    score:\n      enabled:\n      - {name: NodeResourceFit, weight: -1}\n"
        "- schedulerName: a\n"
    )
    async with bayplan_run("--config", path) as run:
        assert await run.ended() == 2
    score = "profiles[0].plugins.score.enabled[0]"
    assert run.problems == [
        f"{path}:3: paralelism: unknown field: did you mean 'parallelism'?",
        f'{path}:4: podMaxBackoffSeconds: expected an integer, got "soon"',
        f"{path}:10: {score}.name: plugin 'NodeResourceFit' does not exist: did you mean 'NodeResourcesFit'?",
        f"{path}:10: {score}.weight: Invalid value: -1: must not be negative",
        f'{path}:11: profiles[1].schedulerName: Duplicate value: "a"',
    ]


def with_extender(path, extender):
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"leaderElection: {{leaderElect: false}}\nprofiles: [{{schedulerName: {NAME}}}]\n"
        f"extenders: [{json.dumps(extender)}]\n"
    )
    return path


async def test_untrusted_extender_certificate(tmp_path):
    tls = {"caFile": "/nowhere/ca.pem"}
    path = with_extender(tmp_path / "c.yaml", {"urlPrefix": "https://localhost", "filterVerb": "f", "tlsConfig": tls})
    assert await startup_error("--config", path) == (
        f'{path}: extenders[0].tlsConfig.caFile: Invalid value: "/nowhere/ca.pem": cannot be read: No such file or '
        "directory"
    )


async def test_extenders_of_a_configuration_are_called(cluster, tmp_path):
    await cluster.add_nodes(2)
    gpu = "example.com/gpu"
    hungry = pod("hungry")
    hungry["spec"]["containers"][0]["resources"] = {"limits": {gpu: "1"}, "requests": {gpu: "1"}}
    async with StubExtender(filter={"NodeNames": ["node-1"]}) as stub:
        extender = {
            "urlPrefix": stub.url,
            "filterVerb": "filter",
            "nodeCacheCapable": True,
            "managedResources": [{"name": gpu, "ignoredByScheduler": True}],
        }
        path = with_extender(tmp_path / "c.yaml", extender)
        async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--config", path):
            await cluster.create(hungry, pod("modest"))
            await cluster.observer.until(lambda: cluster.observer.node_of("default/modest"))
            await cluster.observer.until(lambda: cluster.observer.node_of("default/hungry") == "node-1")
        assert [question["Pod"]["metadata"]["name"] for question in stub.questions("filter")] == ["hungry"]


async def test_server_flag_without_kubeconfig_uses_no_credentials(cluster):
    line = await startup_error("--master", cluster.access.server, HOME="/nonexistent")
    assert "cannot list nodes" in line or "certificate is not trusted" in line


async def test_json_log_has_pods_as_fields(cluster):
    await cluster.add_node("a")
    arguments = ("--kubeconfig", cluster.scheduler_kubeconfig, "--logging-format=json", "-v=10")
    async with bayplan_run(*arguments) as run:
        await cluster.create(pod("small"), pod("big", "100"))
        await cluster.observer.until(lambda: run.logged("pod default/small bound to node a"))
        await cluster.observer.until(lambda: run.logged("pod default/big is pending: "))
    lines = [(line.get("pod"), line.get("node"), line["v"], line["msg"]) for line in map(json.loads, run.lines)]
    small, big = ({"name": name, "namespace": "default"} for name in ("small", "big"))
    assert (small, {"name": "a"}, 2, "pod default/small bound to node a") in lines
    assert (small, {"name": "a"}, 10, "pod default/small: only node a is feasible") in lines
    assert (big, None, 4, "pod default/big: NodeResourcesFit rejected node a: Insufficient cpu") in lines
    assert [each for each in lines if "default/" in each[3] and each[0] is None] == []


async def test_verbose_log_has_the_outcome_of_every_pod(cluster):
    await cluster.add_node("a")
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "-v") as run:
        await cluster.create(pod("small"), pod("big", "100"))
        await cluster.observer.until(lambda: run.logged("pod default/small bound to node a"))
        await cluster.observer.until(
            lambda: run.logged("pod default/big is pending: 0/1 nodes are available: 1 Insufficient cpu.")
        )
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig) as run:
        await cluster.create(pod("another"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/another"))
        await cluster.observer.until(lambda: run.logged("ready: 1 nodes, "))
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0
    reports = [line.partition(" I ")[2] for line in run.lines if " I " in line]
    assert reports[0] == f"cluster: {cluster.access.server} ({cluster.access.source})"
    assert reports[1:4] == [
        "scheduling pods with schedulerName bayplan-scheduler",
        "no plugins in addition to the built-in ones",
        "metrics and health checks are off (--secure-port 0)",
    ]
    assert reports[4].startswith("deciding as Kubernetes 1.36")
    assert reports[5].startswith("ready: 1 nodes, ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
async def test_restart_while_200_pods_are_scheduled(cluster, number):
    await cluster.add_nodes(10)
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig) as first:
        creating = asyncio.create_task(cluster.create_fast(pods("early", 100)))
        await cluster.observer.until(lambda: bound(cluster) >= 30)
        first.signal(number)
        assert await first.ended() == (-9 if number is signal.SIGKILL else 0), first.lines
    await creating
    await cluster.create_fast(pods("late", 100))
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig) as second:
        await cluster.observer.until(lambda: bound(cluster) == 200)
        second.signal(signal.SIGTERM)
        assert await second.ended() == 0
    if number is not signal.SIGKILL:
        lines = [*first.lines, *second.lines]
        dropped = sum(int(found[1]) for line in lines if (found := re.search(r"(\d+) events were not written", line)))
        await cluster.observer.until(lambda: scheduled_events(cluster) >= 200 - dropped)
        assert scheduled_events(cluster) <= 200
    check_invariants(cluster.observer, NAME)


async def test_first_signal_finishes_bindings(cluster, proxied_kubeconfig, proxy):
    await cluster.add_node("a")
    async with bayplan_run("--kubeconfig", proxied_kubeconfig) as run:
        proxy.inject("POST", "/binding$", delay=1.0)
        await cluster.create(pod("last"))
        await cluster.observer.until(lambda: proxy.count("POST", "/binding$"))
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0
    assert run.logged("stopping after in-flight bindings have finished")
    await cluster.observer.until(lambda: cluster.observer.events_of("default/last", "Scheduled"))
    check_invariants(cluster.observer, NAME)


async def test_events_of_a_burst_delay_the_exit_only_briefly(cluster, proxied_kubeconfig, proxy):
    await cluster.add_nodes(10)
    proxy.inject("POST", "/events$", times=None, delay=2.0)
    async with bayplan_run("--kubeconfig", proxied_kubeconfig) as run:
        await cluster.create_fast(pods("many", 200))
        await cluster.observer.until(lambda: bound(cluster) == 200)
        began = asyncio.get_running_loop().time()
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0
        assert asyncio.get_running_loop().time() - began < 5  # 0.5 s for the events, and some for ending the process
    assert run.logged("events were not written in time")
    check_invariants(cluster.observer, NAME)


async def test_second_signal_exits_immediately(cluster, proxied_kubeconfig, proxy):
    await cluster.add_node("a")
    async with bayplan_run("--kubeconfig", proxied_kubeconfig) as run:
        proxy.inject("POST", "/binding$", hang=True)
        await cluster.create(pod("late"))
        await cluster.observer.until(lambda: proxy.count("POST", "/binding$"))
        run.signal(signal.SIGTERM)
        await cluster.observer.until(lambda: run.logged("stopping after in-flight bindings have finished"))
        run.signal(signal.SIGTERM)
        assert await run.ended() != 0
    assert not any("Traceback" in line for line in run.lines)


async def test_outage_of_the_server_does_not_end_the_process(cluster, proxied_kubeconfig, proxy):
    await cluster.add_node("a")
    async with bayplan_run("--kubeconfig", proxied_kubeconfig) as run:
        await cluster.create(pod("before"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/before"))
        await proxy.down()
        await cluster.observer.until(lambda: run.logged("connection refused"))
        await proxy.up()
        await cluster.create(pod("after"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/after"))
        run.signal(signal.SIGTERM)
        assert await run.ended() == 0
    assert not any("Traceback" in line for line in run.lines)
    check_invariants(cluster.observer, NAME)


@pytest.fixture
def proxied_kubeconfig(cluster, proxy):
    """The scheduler's kubeconfig, with the proxy as the server."""
    document = json.loads(cluster.scheduler_kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": proxy.url}
    path = cluster.scheduler_kubeconfig.with_name("proxied.yaml")
    path.write_text(json.dumps(document))
    return path


@cases(
    "number, election",
    {
        "SIGINT, alone": (signal.SIGINT, []),
        "SIGTERM, electing": (signal.SIGTERM, ["--leader-elect", "--leader-elect-resource-name=x"]),
    },
)
async def test_silent_server_is_reported_within_5_seconds_and_a_signal_ends_at_once(number, election):
    connections = []
    server = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    now = asyncio.get_running_loop().time
    async with server, bayplan_run("--master", url, *election) as run:
        await until(lambda: run.logged("the API server has not replied for 5 s"))
        began = now()
        run.signal(number)
        assert await run.ended() == 0
        assert now() - began < 5  # what waits for replies, or for bindings, ends later
        for writer in connections:
            writer.close()
    assert run.lines[0].endswith(f"cluster: {url} (--master)")
    assert not run.logged("Traceback")


def bound(cluster):
    return sum(bool(one["spec"].get("nodeName")) for one in cluster.observer.pods.values())


def scheduled_events(cluster):
    return sum(event["reason"] == "Scheduled" for event in cluster.observer.events)


@asynccontextmanager
async def tls_server(authority, folder):
    """The port of a server on localhost whose certificate `authority` has issued."""
    pair = authority.server("localhost")
    (folder / "server.crt").write_bytes(pair.certificate)
    (folder / "server.key").write_bytes(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "localhost", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]
