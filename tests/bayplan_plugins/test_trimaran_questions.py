"""Loads in questions about a live cluster: the sources are asked once, as no scheduler runs."""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from tests.bayplan_plugins.load_clusters import END
from tests.bayplan_plugins.test_trimaran_loads import ServerClient, is_old, never, serving, watched

from bayplan.plugin import CustomObject, FeedError
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan_devcluster.cluster import DevCluster
from bayplan_plugins.trimaran import sources
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.sources import present_loads

NOW = datetime.fromtimestamp(END, UTC)


async def explain(kubeconfig, address):
    """What `bayplan explain` prints for a scheduler that reads loads from there, and its warnings."""
    profile = {
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 100}]}},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": {"watcherAddress": address}}],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = kubeconfig.with_name("scheduler.yaml")
    config.write_text(yaml.safe_dump({**head, "profiles": [profile]}))
    program = Path(sys.executable).with_name("bayplan")
    arguments = ["explain", "default/new", "--kubeconfig", kubeconfig, "--config", config, "-o", "json"]
    process = await asyncio.create_subprocess_exec(program, *arguments, stdout=PIPE, stderr=PIPE)
    output, warnings = await process.communicate()
    return json.loads(output), warnings.decode()


async def test_explain_asks_the_source_of_the_loads(tmp_path):
    asked = []

    async def answer(request):
        asked.append(request.path)
        loads = {"a": 5, "b": 15, "c": 90}
        of = {name: {"metrics": [{"type": "CPU", "operator": "AVG", "value": each}]} for name, each in loads.items()}
        return web.json_response(watched(of, int(time.time())))

    async with DevCluster(0, controllers=False, kubelets=False) as cluster, serving(answer, "/watcher") as address:
        load(cluster.server, *(make_node(name, cpu="4", memory="8Gi") for name in "abc"), make_pod("new"))
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        found, warnings = await explain(tmp_path / "kubeconfig", address)
        lacking, warning = await explain(tmp_path / "kubeconfig", f"{address}/gone")
    scores = {each["node"]: each["plugins"]["TargetLoadPacking"] for each in found["scores"]["nodes"]}
    assert (found["node"], scores) == ("b", {"b": 10_000, "a": 8_500, "c": 0})
    assert asked == ["/watcher"]
    assert "load" not in warnings
    assert {each["plugins"]["TargetLoadPacking"] for each in lacking["scores"]["nodes"]} == {0}
    (line,) = [each for each in warning.splitlines() if "load" in each]
    assert f"load-watcher at {address}/gone reports no loads of nodes: HTTP status 404 Not Found" in line


async def test_metrics_server_is_asked_with_the_nodes_of_the_cluster():
    class Client(ServerClient):
        async def list(self, kind):
            page = await super().list(kind)
            return page if "metrics" in kind.path() else type("Page", (), {"items": [make_node("a", cpu="2")]})

    usage = CustomObject(metadata={"name": "a"}, usage={"cpu": "500m", "memory": "0"})
    name, content = await present_loads(TrimaranArgs(), Client(usage), NOW)
    assert (name, content["end"]) == ("kubernetesmetricsserver", END)
    assert content["nodes"]["a"][:2] == [25.0, 25.0]


@pytest.mark.parametrize(
    ("answer", "reason"), [(never, "no answer within 0 s"), (is_old, "its measurements ended 360 s ago")]
)
async def test_what_does_not_count_for_the_scheduler_does_not_for_a_question(answer, reason, monkeypatch):
    monkeypatch.setattr(sources, "TIMEOUT", 0.2)
    async with serving(answer) as address:
        with pytest.raises(FeedError, match=f"load-watcher at {address} reports no loads of nodes: {reason}"):
            await present_loads(TrimaranArgs(watcherAddress=address), None, NOW)
