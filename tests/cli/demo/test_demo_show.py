"""The parts of the demo: observations, expectations and output."""

import io

import pytest
from lightkube.models.core_v1 import Container, Pod, PodCondition, PodSpec, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from rich.console import Console

from bayplan.client import HttpClient
from bayplan.core.api.kinds import KINDS
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import load_plugins
from bayplan.faces.cli.demo import stage
from bayplan.faces.cli.demo.outcome import CROWD, EXPECTATIONS, RESERVED
from bayplan.faces.cli.demo.screens import LineScreen, picture, summary
from bayplan.faces.cli.demo.show import Show
from bayplan.foundations.clock import RunningClock
from bayplan_devcluster import manifests


def pod(name, app, node=None, phase="Pending", reason=""):
    conditions = [PodCondition(type="PodScheduled", status="False", message=reason)] if reason else None
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=name, labels={"app": app}),
            spec=PodSpec(containers=[Container(name="main")], nodeName=node),
            status=PodStatus(phase=phase, conditions=conditions),
        )
    )


REASON = (
    "0/12 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 10 Insufficient cpu. "
    "preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling."
)


@pytest.fixture
async def show():
    async with HttpClient("http://127.0.0.1:9") as client:
        yield Show(client)


def see(show, *pods):
    for one in pods:
        show.seen._reflector.put(one.key, one)


def test_the_nodes():
    nodes = {node.metadata.name: node for node in stage.nodes()}
    zones = [node.metadata.labels["topology.kubernetes.io/zone"] for node in nodes.values()]
    assert (len(nodes), len(set(zones))) == (12, 3)
    tiers = {name: node.metadata.labels["tier"] for name, node in nodes.items() if "tier" in node.metadata.labels}
    assert tiers == {"node-a1": "control", "node-b1": "cronjob"}
    assert [name for name, node in nodes.items() if node.spec.taints] == ["node-c4"]
    assert [name for name, node in nodes.items() if node.spec.unschedulable] == ["node-b4"]
    assert set(RESERVED) == {"node-a1", "node-b1", "node-b4", "node-c4"}


def test_the_manifests():
    objects = [one for act in stage.acts() for one in manifests.read([act.file])]
    assert all(one.kind in KINDS for one in objects)
    by_name = {one.document["metadata"]["name"]: one.document for one in objects}
    assert by_name["nginx"]["spec"]["replicas"] == 3
    assert by_name["crowd"]["spec"]["replicas"] == CROWD
    selectors = [
        one.document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["nodeSelector"]
        for one in objects
        if one.kind.kind == "CronJob"
    ]
    assert selectors == [{"tier": "cronjob"}] * 3
    for act in stage.acts():
        assert len(act.title) < 60


def test_the_plugin_is_short():
    assert [plugin.name for plugin in load_plugins([str(stage.POLICY)])] == ["tier"]
    code = [line for line in stage.POLICY.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(code) <= 12


async def test_almost_no_expectation_is_met_at_the_start(show):
    unmet = [expectation.what for expectation in EXPECTATIONS if not expectation.met(show.seen)]
    assert len(unmet) == len(EXPECTATIONS) - 1
    assert not show.succeeded


async def test_other_pods_on_reserved_nodes_are_failures(show):
    expectation = EXPECTATIONS[-1]
    see(show, pod("batch", "batch", "node-c4"))
    assert expectation.met(show.seen)
    see(show, pod("nginx", "nginx", "node-a1"))
    assert not expectation.met(show.seen)


async def test_lines_report_each_placement_and_each_reason_once(show):
    console = Console(file=io.StringIO(), width=80)
    screen = LineScreen(console, show)
    with screen:
        screen.refresh()
        see(show, pod("nginx-1", "nginx", "node-a2"), pod("nginx-2", "nginx", "node-a3"), pod("fresh", "fresh"))
        see(show, pod("nowhere", "nowhere", reason="0/12 nodes are available: " + "so many reasons " * 10))
        screen.refresh()
        see(show, *(pod(f"crowd-{number}", "crowd", f"node-{number}") for number in range(5)))
    lines = [line.partition(" s  ")[2].rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == [
        "the scheduler lists the cluster",
        "  nginx → node-a2, node-a3",
        "  default/nowhere is pending: 0/12 nodes are available: " + ("so many reasons " * 10).rstrip(),
        "  crowd → 5 pods on 5 nodes",
    ]


async def test_the_table_fits_a_small_terminal(show):
    see(
        show,
        pod("nginx-1", "nginx", "node-a2", "Running"),
        pod("report-1", "report", "node-b1", "Succeeded"),
        pod("report-2", "report", "node-b1", "Succeeded"),
        pod("crowd-1", "crowd", "node-a2"),
        pod("nowhere", "nowhere", reason=REASON),
    )
    text = rendered(picture(show, stage.nodes(), "http://127.0.0.1:41234", RunningClock(20)))
    assert len(text.splitlines()) < 24
    rows = {line.split()[0]: " ".join(line.split()) for line in text.splitlines() if line.split()}
    assert rows["node-a2"] == "node-a2 zone-a nginx crowd …"
    assert rows["node-b1"] == "node-b1 zone-b tier=cronjob report ✓2"
    assert rows["node-b4"] == "node-b4 zone-b cordoned"
    assert rows["node-c4"] == "node-c4 zone-c tainted dedicated=batch"
    assert "4 pods bound, 1 pending, 0 decisions" in text
    assert "default/nowhere is pending" in text


async def test_the_summary_lists_failures(show):
    text = rendered(summary(show))
    assert "✗ not met: the three pods of nginx are running" in text
    assert "p50 0 ms, p99 0 ms" in text


def rendered(renderable):
    console = Console(file=io.StringIO(), width=80)
    console.print(renderable)
    return console.file.getvalue()
