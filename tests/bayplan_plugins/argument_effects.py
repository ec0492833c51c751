"""What each plugin says with some arguments, in a cluster in which every argument matters."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from tempfile import NamedTemporaryFile
from typing import Any

import trustme
from aiohttp import web
from tests.bayplan_plugins.load_clusters import END
from tests.bayplan_plugins.numa_clusters import NumaCluster, node_of, pod, topology, wanted
from tests.bayplan_plugins.test_network_aware import app_group, member, node_in
from tests.bayplan_plugins.test_network_aware import topology as costs
from tests.bayplan_plugins.test_redacted_plugins import configuration
from tests.bayplan_plugins.test_sy_sched import pod as calling
from tests.bayplan_plugins.test_sy_sched import profile as seccomp

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import Catalog, build_profiles, parse_configuration
from bayplan.core.config.writing import to_yaml
from bayplan.plugin import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL, CustomObject, CycleState
from bayplan.testing import ask_filter, ask_scores, make_cluster, make_node, make_pod
from bayplan_plugins.network_aware.groups import APP_GROUPS, NETWORK_TOPOLOGIES
from bayplan_plugins.node_resource_topology.fingerprints import METADATA, fingerprint
from bayplan_plugins.node_resource_topology.topologies import FINGERPRINT, TOPOLOGIES
from bayplan_plugins.sy_sched import _PROFILES

SORTS = ("Coscheduling", "TopologicalSort")


def configured(name: str, arguments: dict[str, Any]) -> Any:
    """A configuration of a plugin."""
    point = "queueSort" if name in SORTS else "postFilter" if name == "PreemptionToleration" else "multiPoint"
    plugins = {point: {"enabled": [{"name": name}]}}
    if point != "multiPoint":
        plugins[point]["disabled"] = [{"name": "*"}]
    return parse_configuration(configuration(plugins, {name: arguments} if arguments else {}))


def made(name: str, arguments: dict[str, Any], handle: OfflineHandle) -> Any:
    """The plugin, as a configuration with these arguments makes it."""
    (profile,) = build_profiles(configured(name, arguments), handle).values()
    return next(each for each in profile.every() if each.name == name)


def coscheduling(arguments: dict[str, Any]) -> Any:
    """A group of which 2 in 10 are missing: how long a member waits, and what follows from a failure."""
    labels = {LIGHTWEIGHT_LABEL: "crew", MIN_AVAILABLE_LABEL: "10"}
    pods = [make_pod(f"p{number}", labels=labels) for number in range(10)]
    state = make_cluster(make_node("n"), *pods, plugins=[]).state
    plugin = made("Coscheduling", arguments, OfflineHandle(state))
    waits = [plugin.permit(CycleState(), pod, "n").seconds for pod in pods[:8]]
    failed = plugin.post_filter(CycleState(), pods[9], None, None).status.message
    return waits, failed, plugin.pre_filter(CycleState(), pods[9], state.nodes)


def allocatable(arguments: dict[str, Any]) -> Any:
    """Scores of nodes that have other amounts of cpu and memory."""
    sizes = {"a": ("8", "8Gi"), "b": ("2", "64Gi"), "c": ("4", "16Gi")}
    nodes = [make_node(name, cpu=cpu, memory=memory) for name, (cpu, memory) in sizes.items()]
    state = make_cluster(*nodes, plugins=[]).state
    return ask_scores(made("NodeResourcesAllocatable", arguments, OfflineHandle(state)), make_pod("p"), state)


def metadata(arguments: dict[str, Any]) -> Any:
    """Scores of nodes with labels and annotations that are numbers, years and times."""
    values = {"a": ("3", "2024-01-01T00:00:00Z"), "b": ("2020", "2026-01-01T00:00:00Z"), "c": ("7", "0003")}
    nodes = []
    for name, (number, time) in values.items():
        node = make_node(name, labels={"key": number, "other": number[::-1]})
        node.metadata.annotations = {"key": time}
        nodes.append(node)
    state = make_cluster(*nodes, plugins=[]).state
    return ask_scores(made("NodeMetadata", arguments, OfflineHandle(state)), make_pod("p"), state)


def network(arguments: dict[str, Any]) -> Any:
    """Rejections and scores of nodes near and far from a dependency, with two sets of costs and two namespaces."""
    state = make_cluster(node_in("a", zone="x"), node_in("b", zone="y"), member("db", node="a"), plugins=[]).state
    handle = OfflineHandle(state)
    handle.objects(APP_GROUPS).set("default/basic", app_group(dependencies={"web": ["db"]}, most_cost=10))
    for name, cost in (("near", 5), ("far", 50)):
        found = costs(zones={"x": {"y": cost}, "y": {"x": cost}})
        weights = [
            *found["spec"]["weights"],
            {**costs(zones={"x": {"y": 60}, "y": {"x": 60}})["spec"]["weights"][0], "name": "Other"},
        ]
        handle.objects(NETWORK_TOPOLOGIES).set(f"default/{name}", CustomObject({**found, "spec": {"weights": weights}}))
    plugin = made("NetworkOverhead", arguments, handle)
    return ask_filter(plugin, member("web"), state), ask_scores(plugin, member("web"), state)


def topological(arguments: dict[str, Any]) -> Any:
    """Which of two pods of an AppGroup comes first."""
    handle = OfflineHandle(make_cluster(plugins=[]).state)
    handle.objects(APP_GROUPS).set("default/basic", app_group(order=["z", "a"]))
    plugin = made("TopologicalSort", arguments, handle)
    one, other = (plugin.sort_key(member(name), 0.0) for name in "az")
    return one < other, other < one


def preemption(arguments: dict[str, Any]) -> Any:
    """The victims among 40 nodes, of which the last ones have the least important pods."""
    pods = [make_pod(f"v{at}", node=f"n{at}", cpu="4", priority=-at) for at in range(40)]
    nodes = [make_node(f"n{at}", cpu="4") for at in range(40)]
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(to_yaml(configured("PreemptionToleration", arguments), Catalog()))
        file.flush()
        cluster = make_cluster(*nodes, *pods, configuration=file.name)
    return [each.name for each in cluster.decide(make_pod("new", cpu="4", priority=1)).victims]


def system_calls(arguments: dict[str, Any]) -> Any:
    """Scores for a pod without a profile: which default it has, of two namespaces and names."""
    placed = calling("p", "x", node="a"), calling("q", "few", node="c")
    state = make_cluster(*map(make_node, "abc"), *placed, plugins=[]).state
    handle = OfflineHandle(state)
    known = {"default/x": "abc", "default/all-syscalls": "abcdefgh", "default/few": "a", "other/all-syscalls": "ab"}
    for key, calls in known.items():
        handle.objects(_PROFILES).set(key, seccomp(key, calls))
    return ask_scores(made("SySched", arguments, handle), make_pod("new"), state)


SMALL, LARGE = {"cpu": "2", "memory": "64Gi"}, {"cpu": "8", "memory": "8Gi"}
MINE = {"all": {"cpu": "4", "memory": "1Gi"}}
SETTINGS = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}


def numa_zones(arguments: dict[str, Any]) -> Any:
    """Verdicts and scores for a large and a small pod after each of some stories."""
    said = []
    for story in (reserving, foreign, exclusive, unknown, resettled, evicting):
        documents = [zoned("n", LARGE, SMALL), zoned("m", {**SMALL, "cpu": "3"}, {**LARGE, "cpu": "6"})]
        objects = [(TOPOLOGIES, dict(each)) for each in documents]
        state = make_cluster(*map(node_of, documents), *objects, plugins=[]).state
        cluster = NumaCluster(state, made("NodeResourceTopologyMatch", arguments, OfflineHandle(state)))
        victims = story(cluster)
        asked = wanted("new", cpu="5", memory="1Gi"), wanted("small", cpu="1", memory="1Gi")
        said += [(story.__name__, cluster.reasons(each, victims), cluster.scores(each)) for each in asked]
    return said


def zoned(name: str, *zones: dict[str, str], counts: tuple[str, ...] = (), **attributes: str) -> Any:
    """A topology with the fingerprint of the pods that it counts."""
    hashed = fingerprint(("default", each) for each in counts)
    shown = [{"available": each, "allocatable": {"cpu": "8", "memory": "64Gi"}} for each in zones]
    return topology(name, shown, "", {**SETTINGS, FINGERPRINT: hashed, **attributes})


def reserving(cluster: NumaCluster) -> None:
    """A pod is being bound."""
    cluster.reserve(pod("mine", MINE))


def foreign(cluster: NumaCluster) -> None:
    """Another scheduler brought a pod that holds nothing of a zone for itself."""
    cluster.pod(pod("theirs", {"requests": {"cpu": "100m"}}, node="n", spec={"schedulerName": "other"}))


def exclusive(cluster: NumaCluster) -> None:
    """A topology comes that counts only the pod that holds something, and not the other one."""
    cluster.pod(pod("mine", MINE, node="n", status={"phase": "Running"}))
    cluster.pod(pod("burst", {"requests": {"cpu": "100m"}}, node="n", status={"phase": "Running"}))
    cluster.topology(zoned("n", {**LARGE, "cpu": "4"}, SMALL, counts=("mine",)))


def unknown(cluster: NumaCluster) -> None:
    """A topology comes that counts a pod of which the kubelet doesn't tell the phase any more."""
    cluster.pod(pod("mine", MINE, node="n", status={"phase": "Unknown"}))
    cluster.topology(zoned("n", {**LARGE, "cpu": "4"}, SMALL, counts=("mine",)))


def resettled(cluster: NumaCluster) -> None:
    """A topology comes that counts other pods, and whose kubelet was set up anew."""
    cluster.topology(zoned("n", {**LARGE, "cpu": "4"}, SMALL, counts=("gone",), topologyManagerScope="container"))


def evicting(cluster: NumaCluster) -> dict[str, list[Any]]:
    """A pod would be evicted whose zone is known."""
    mine = pod("mine", MINE, node="n", status={"phase": "Running"})
    cluster.pod(mine)
    placed = {METADATA: "npv0v001::ve=leb89::cc=1::nn=2::bn=0"}
    cluster.topology(zoned("n", {**LARGE, "cpu": "4"}, SMALL, counts=("mine",), **placed))
    return {"n": [mine]}


LOADS = {
    "one": {"a": (70, 10), "b": (10, 5), "c": (50, 25)},
    "two": {"a": (10, 5), "b": (70, 10), "c": (35, 15)},
    "prometheus": {"a": (30, 20), "b": (35, 0), "c": (65, 15)},
    "secure": {"a": (35, 0), "b": (30, 20), "c": (60, 5)},
}
"""By source: the average and the deviation of each node, in percent."""


class Sources:
    """Sources of loads: two load-watchers, two of Prometheus, of which one has a certificate, and metrics-server."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.addresses: dict[str, str] = {}

    async def start(self) -> None:
        """Start them."""
        secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(secure)
        for name in LOADS:
            app = web.Application()
            app.router.add_get("/watcher", partial(self._watched, name))
            app.router.add_get("/api/v1/query", partial(self._queried, name))
            runner = web.AppRunner(app, shutdown_timeout=0.01)
            await runner.setup()
            self._stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=secure if name == "secure" else None).start()
            host, port = runner.addresses[0][:2]
            self.addresses[name] = f"http{'s' if name == 'secure' else ''}://{host}:{port}"

    async def _watched(self, name: str, _: web.Request) -> web.Response:
        metrics = {
            node: {
                "metrics": [
                    {"type": kind, "operator": operator, "value": value}
                    for kind in ("CPU", "Memory")
                    for operator, value in (("AVG", average), ("STD", deviation))
                ]
            }
            for node, (average, deviation) in LOADS[name].items()
        }
        return web.json_response({"timestamp": END, "window": {"end": END}, "data": {"NodeMetricsMap": metrics}})

    async def _queried(self, name: str, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer secret":
            raise web.HTTPUnauthorized
        of = int("stddev" in request.query["query"])
        result = [
            {"metric": {"instance": node}, "value": [END, str(values[of] / 100)]}
            for node, values in LOADS[name].items()
        ]
        return web.json_response({"status": "success", "data": {"result": result}})


class MetricsClient:
    """The client of a cluster with metrics-server."""

    async def list(self, _kind: Any) -> Any:
        """What the two nodes use."""
        used = {"a": ("1", "1Gi"), "b": ("3", "4Gi"), "c": ("2", "7Gi")}
        usage = {name: {"cpu": cpu, "memory": memory} for name, (cpu, memory) in used.items()}
        return type("Page", (), {"items": [CustomObject(metadata={"name": each}, usage=usage[each]) for each in usage]})


def loads(name: str, arguments: dict[str, Any]) -> Any:
    """The scores of two nodes by the loads of a source. `<name>` in an argument: its address."""

    async def ask() -> Any:
        async with AsyncExitStack() as stack:
            sources = Sources(stack)
            await sources.start()
            return await scored(name, addressed(arguments, sources.addresses))

    return asyncio.run(ask())


def addressed(value: Any, addresses: dict[str, str]) -> Any:
    """A value with addresses in place of their names."""
    if isinstance(value, dict):
        return {key: addressed(each, addresses) for key, each in value.items()}
    return addresses.get(value, value) if isinstance(value, str) else value


async def scored(name: str, arguments: dict[str, Any]) -> Any:
    """The scores after the source was asked, of nodes whose pods may use more than there is."""
    sizes = {"a": "4", "b": "8", "c": "16"}
    amounts = {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "6", "memory": "12Gi"}}
    spec = {"containers": [{"name": "c", "resources": amounts}]}
    status = {"startTime": "2026-01-01T00:00:00Z"}
    bound = [make_pod(f"on-{node}", node=node, spec=spec, status=status) for node in sizes]
    nodes = [make_node(node, cpu=cpu, memory="8Gi") for node, cpu in sizes.items()]
    state = make_cluster(*nodes, *bound, plugins=[]).state
    handle = OfflineHandle(state)
    handle.client, handle.time = MetricsClient(), datetime.fromtimestamp(END, UTC)
    plugin = made(name, arguments, handle)
    await plugin._loads.ask()
    pods = make_pod("none", spec={"containers": [{"name": "c"}]}), make_pod("some", cpu="500m", memory="1Gi")
    return [ask_scores(plugin, each, state) for each in pods]


LOADED = ("LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks", "TargetLoadPacking")
OUTCOMES = {
    "Coscheduling": coscheduling,
    "NetworkOverhead": network,
    "NodeMetadata": metadata,
    "NodeResourcesAllocatable": allocatable,
    "NodeResourceTopologyMatch": numa_zones,
    "PreemptionToleration": preemption,
    "SySched": system_calls,
    "TopologicalSort": topological,
} | {name: partial(loads, name) for name in LOADED}
"""By plugin: what it says with some arguments."""
