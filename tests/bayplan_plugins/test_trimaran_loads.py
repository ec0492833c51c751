"""Loads: what each source says, what becomes of old loads, and one line of the log for each trouble."""

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from tests.bayplan_plugins.load_clusters import END, Loaded

from bayplan.plugin import CustomObject
from bayplan.testing import make_node, make_pod
from bayplan_plugins.trimaran import sources
from bayplan_plugins.trimaran.arguments import MetricProvider
from bayplan_plugins.trimaran.loads import INTERVAL, LOAD_REPORTS
from bayplan_plugins.trimaran.sources import OLD, NodeLoad
from bayplan_plugins.trimaran.target_load_packing import TargetLoadPacking, TargetLoadPackingArgs


@asynccontextmanager
async def serving(answer, path="/{any:.*}"):
    """An HTTP server that answers every request with what `answer` returns for it."""
    app = web.Application()
    app.router.add_get(path, answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


LAST = "its last ones count until they are 300 s old"


class ServerClient:
    """The client of a cluster with metrics-server."""

    def __init__(self, *items):
        self.items = items
        self.listed = []

    async def list(self, kind):
        self.listed.append(kind.path())
        return type("Page", (), {"items": self.items})


def cluster(*nodes, client=None, **args):
    made = Loaded(TargetLoadPacking, TargetLoadPackingArgs(**args), *nodes)
    made.handle.client, made.handle.time = client, datetime.fromtimestamp(END, UTC)
    for node in nodes:
        made.handle.objects("Node").set(node.metadata.name, node)
    return made


def later(made, seconds):
    made.handle.time += timedelta(seconds=seconds)


def known(made):
    return {name: NodeLoad(*values) for each in reports(made) for name, values in each["nodes"].items()}


def reports(made):
    return list(made.handle.feed(LOAD_REPORTS, "LoadReport").objects.values())


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "bayplan.trimaran"]


def watched(nodes, end=END):
    return {"timestamp": end, "window": {"duration": "15m", "end": end}, "data": {"NodeMetricsMap": nodes}}


async def test_a_load_watcher_is_read():
    async def answer(request):
        assert request.path == "/watcher"
        metrics = [
            {"name": "x", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 80},
            {"name": "y", "type": "CPU", "operator": "STD", "value": 16},
            {"name": "z", "type": "Memory", "operator": "Latest", "value": 25.5},
        ]
        return web.json_response(watched({"a": {"metrics": metrics, "tags": {}}, "b": {}}))

    async with serving(answer) as address:
        made = cluster(make_node("a"), watcherAddress=f"{address}/")
        await made.plugin._loads.ask()
    assert known(made) == {"a": NodeLoad(80, 80, 16, 25.5, 0)}


async def test_prometheus_is_asked_for_averages_and_deviations():
    queries = []

    async def answer(request):
        queries.append(request.query["query"])
        assert request.headers["Authorization"] == "Bearer secret"
        value = 0.02 if "stddev" in queries[-1] else 0.5
        result = [{"metric": {"instance": "a", "job": "node"}, "value": [END, str(value)]}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    async with serving(answer) as address:
        provider = MetricProvider("Prometheus", address, "secret")
        made = cluster(make_node("a"), metricProvider=provider)
        await made.plugin._loads.ask()
    assert queries == [
        "avg_over_time(instance:node_cpu:ratio[15m])",
        "avg_over_time(instance:node_memory_utilisation:ratio[15m])",
        "stddev_over_time(instance:node_cpu:ratio[15m])",
        "stddev_over_time(instance:node_memory_utilisation:ratio[15m])",
    ]
    assert known(made) == {"a": NodeLoad(50, 50, 2, 50, 2)}


async def test_metrics_server_is_read_through_the_api_server():
    usage = {"cpu": "500m", "memory": "4Gi"}
    items = [CustomObject(metadata={"name": name}, usage=usage) for name in ("a", "gone")]
    made = cluster(make_node("a", cpu="2", memory="16Gi"), client=ServerClient(*items))
    await made.plugin._loads.ask()
    assert made.handle.client.listed == ["/apis/metrics.k8s.io/v1beta1/nodes"]
    assert known(made) == {"a": NodeLoad(25, 25, 0, 25, 0)}


async def never(request):
    await asyncio.sleep(30)


async def refuses(request):
    raise web.HTTPServiceUnavailable


async def says_no_json(request):
    return web.Response(text="<html>")


async def says_another_form(request):
    return web.json_response({"data": {"NodeMetricsMap": {"a": {"metrics": [{"value": "much"}]}}}})


async def is_old(request):
    return web.json_response(watched({}, END - OLD - 60))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (never, "no answer within 0 s"),
        (refuses, "HTTP status 503 Service Unavailable"),
        (says_no_json, "an answer that is malformed: JSON is malformed"),
        (says_another_form, "an answer that is malformed: Expected `float | null`, got `str`"),
        (is_old, "its measurements ended 360 s ago"),
    ],
)
async def test_trouble_is_one_line_and_no_opinion(answer, reason, monkeypatch, caplog):
    monkeypatch.setattr(sources, "TIMEOUT", 0.3)
    async with serving(answer) as address:
        made = cluster(make_node("a"), watcherAddress=address)
        for _ in range(3):
            await made.plugin._loads.ask()
    (line,) = lines(caplog)
    assert line.startswith(f"load-watcher at {address} reports no loads of nodes: {reason}")
    assert line.endswith("; plugins have no opinion without them")
    assert made.scores(make_pod("p")) == [0]


async def test_old_loads_count_until_they_are_old_and_new_ones_again(caplog):
    caplog.set_level(logging.INFO)
    answers = []

    async def answer(request):
        return web.json_response(answers.pop(0)) if answers else web.Response(status=500)

    async with serving(answer) as address:
        made = cluster(make_node("a"), watcherAddress=address)
        load = {"a": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 10}]}}
        answers.append(watched(load))
        scores = []
        for _ in range(13):
            await made.plugin._loads.ask()
            scores += made.scores(make_pod("p", cpu="0"))
            later(made, INTERVAL)
        answers.append(watched(load, int(made.handle.time.timestamp())))
        await made.plugin._loads.ask()
    assert scores == [55] * 11 + [0] * 2
    assert [line.partition(address)[2] for line in lines(caplog)] == [
        f" reports no loads of nodes: HTTP status 500 Internal Server Error; {LAST}",
        " reported are older than 300 s: plugins have no opinion until it reports others",
        " reports the loads of 1 nodes again",
    ]


async def test_a_hundred_values_of_ten_thousand_that_are_no_numbers_cost_their_nodes_only(caplog):
    async def answer(request):
        numbers = ((f"n{at}", "NaN" if at % 100 == 7 else "0.5") for at in range(10_000))
        result = [{"metric": {"instance": name}, "value": [END, value]} for name, value in numbers]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    async with serving(answer) as address:
        made = cluster(*(make_node(f"n{at}") for at in range(8)), metricProvider=MetricProvider("Prometheus", address))
        await made.plugin._loads.ask()
    assert len(known(made)) == 9_900
    (line,) = lines(caplog)
    assert line.endswith("reports loads of 9900 nodes, and of 100, such as n7, values that are no numbers")
    assert made.scores(make_pod("p", cpu="0")) == [33] * 7 + [0]


async def test_instances_that_are_no_nodes_are_told(caplog):
    async def answer(request):
        result = [{"metric": {"instance": "10.0.0.1:9100"}, "value": [END, "0.5"]}]
        return web.json_response({"status": "success", "data": {"result": result}})

    async with serving(answer) as address:
        made = cluster(make_node("a"), metricProvider=MetricProvider("Prometheus", address))
        await made.plugin._loads.ask()
    (line,) = lines(caplog)
    assert line.endswith("10.0.0.1:9100, which is no node: the label `instance` must have the name of a node")


async def test_plugins_with_one_source_ask_it_once():
    made = cluster(make_node("a"), watcherAddress="http://one")
    other = TargetLoadPacking(TargetLoadPackingArgs(watcherAddress="http://one", targetUtilization=70), made.handle)
    third = TargetLoadPacking(TargetLoadPackingArgs(watcherAddress="http://two"), made.handle)
    assert other._loads is made.plugin._loads
    assert third._loads is not made.plugin._loads


async def test_the_task_asks_again_and_again(monkeypatch):
    asked = []
    made = cluster(make_node("a"), client=ServerClient(), watcherAddress="http://one")
    waits = []

    async def ask():
        asked.append(made.handle.time)

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(made.plugin._loads, "ask", ask)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await made.plugin.background()
    assert (len(asked), waits) == (3, [INTERVAL] * 3)


async def test_the_task_does_nothing_without_a_scheduler():
    await cluster(make_node("a"), watcherAddress="http://one").plugin.background()


def test_a_report_of_another_form_has_no_loads(caplog):
    made = cluster(make_node("a"), watcherAddress="http://one")
    feed = made.handle.feed(LOAD_REPORTS, "LoadReport")
    feed.put(made.plugin._loads._source.key, {"end": "now", "nodes": []})
    assert made.scores(make_pod("p")) == [0]
    assert "is malformed" in lines(caplog)[0]


def test_sources_are_validated():
    def faults(**args):
        return [str(fault) for fault in TargetLoadPackingArgs(**args).faults()]

    assert faults() == faults(watcherAddress="http://one", metricProvider=MetricProvider("Else")) == []
    assert faults(metricProvider=MetricProvider("Else")) == [
        'metricProvider.type: Invalid value: "Else": invalid MetricProvider.Type, got Else'
    ]
    assert "set watcherAddress to a load-watcher" in faults(metricProvider=MetricProvider("SignalFx"))[0]
    assert faults(targetUtilization=120) == ["targetUtilization: Invalid value: 120: must be a percentage up to 100"]
    assert "unable to parse DefaultRequestsMultiplier" in faults(defaultRequestsMultiplier="much")[0]
    assert "is not a quantity" in faults(defaultRequests={"cpu": "much"})[0]
