"""A scheduler with `bayplan extender` as its extender.

The decisions have to be the same as if the scheduler ran the extender's plugins itself.
"""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import yaml
from running import bayplan_run, running_scheduler
from tests.extender.extender_process import bayplan_extender
from tests.support.invariants import waiting_or_bound
from workloads import NAME, pod, pods

from bayplan import SKIP, Plugin, filter_plugin, score_plugin
from bayplan.client import ApiError, HttpClient
from bayplan.core.api.kinds import PRIORITY_CLASS
from bayplan.core.config import parse_configuration
from bayplan.core.config.types import API_VERSION, KIND
from bayplan.running.extender.paths import DEFAULT_PATHS
from bayplan.running.extender.plugins import profile_of_plugins
from bayplan.running.extender.running import running_extender
from bayplan.running.extender.server import ServerSettings
from bayplan.running.extender.snippet import extenders_snippet

pytestmark = [
    pytest.mark.feature("Serving as an extender: with a Bayplan scheduler"),
    pytest.mark.usefixtures("invariants"),
]

FORMS = ["names", "whole nodes", "whole nodes, alone"]


@filter_plugin
def not_node_0(_pod, node):
    return "node-0 is closed" if node.name == "node-0" else None


@score_plugin
def prefer_high_numbers(_pod, node):
    return 10 * int(node.name.removeprefix("node-"))


@filter_plugin
def one_each(_pod, node):
    return "one is enough" if node.pods else None


@filter_plugin
def breaks_once(pod, _node):
    if pod.annotations.get("break") and pod.phase == "Pending" and not pod.status.conditions:
        raise RuntimeError("broken")


class NoBind(Plugin):
    """NoBind bindings to the extender."""

    name = "leaves"
    asked: list[str]

    def __init__(self):
        type(self).asked = []

    async def bind(self, cycle, pod, node_name):
        self.asked.append(f"{pod.key} to {node_name}")
        return SKIP


@asynccontextmanager
async def scheduler_and_extender(cluster, *plugins, form="names"):
    """A scheduler with an extender that runs these plugins, configured from the extender's own output."""
    async with AsyncExitStack() as stack:
        client = None if form.endswith("alone") else await stack.enter_async_context(HttpClient(cluster.access))

        def build(handle):
            return profile_of_plugins(plugins, handle)

        extender = await stack.enter_async_context(running_extender(build, client, ServerSettings(blocked_after=0.4)))
        if extender.watched is not None:
            await extender.watched.synced.wait()
        snippet = extenders_snippet(
            extender.server.url, extender.verbs, DEFAULT_PATHS, weight=extender.profiles.weight, watches=form == "names"
        )
        document = {"apiVersion": API_VERSION, "kind": KIND, **yaml.safe_load(snippet)}
        extenders = parse_configuration(document).extenders
        scheduler = await stack.enter_async_context(running_scheduler(cluster.access, extenders=extenders))
        yield scheduler, extender


async def on_node(cluster, name, node):
    await cluster.observer.until(lambda: cluster.observer.node_of(f"default/{name}") == node)


async def pending_message(cluster, name):
    """The first event about a pending pod, once its condition is written as well: a test may end the scheduler then."""
    key = f"default/{name}"
    events = await cluster.observer.until(lambda: cluster.observer.events_of(key, "FailedScheduling"))
    await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
    return events[0]["note"]


@pytest.mark.parametrize("form", FORMS)
async def test_plugins_of_the_extender_decide(cluster, form):
    await cluster.add_nodes(3, cpu="2")
    async with scheduler_and_extender(cluster, not_node_0, prefer_high_numbers, form=form):
        await cluster.create(pod("first", "1500m"))
        await on_node(cluster, "first", "node-2")
        await cluster.create(pod("second", "1500m"))
        await on_node(cluster, "second", "node-1")
        await cluster.create(pod("third", "1500m"))
        note = await pending_message(cluster, "third")
    assert note.startswith("0/3 nodes are available: 1 node-0 is closed, 2 Insufficient cpu.")


@pytest.mark.parametrize("plugins_are", ["in an extender", "in the scheduler"])
async def test_pending_pod_has_the_reasons_of_the_plugins(cluster, plugins_are):
    await cluster.add_nodes(1)
    async with AsyncExitStack() as stack:
        if plugins_are == "in an extender":
            await stack.enter_async_context(scheduler_and_extender(cluster, not_node_0))
        else:
            await stack.enter_async_context(running_scheduler(cluster.access, not_node_0))
        await cluster.create(pod("web"))
        assert (await pending_message(cluster, "web")).startswith("0/1 nodes are available: 1 node-0 is closed.")
        await cluster.add_node("node-1")
        await on_node(cluster, "web", "node-1")


async def test_connected_extender_sees_bound_pods(cluster):
    await cluster.add_nodes(3)
    async with scheduler_and_extender(cluster, one_each) as (_, extender):
        state = extender.watched._state
        for number in range(3):
            await cluster.create(pod(f"web-{number}"))
            await cluster.observer.until(lambda bound=number + 1: state.pod_count == bound)
        await cluster.create(pod("one-too-many"))
        assert (await pending_message(cluster, "one-too-many")).startswith("0/3 nodes are available: 3 one is enough.")
    assert len({cluster.observer.node_of(f"default/web-{number}") for number in range(3)}) == 3


@pytest.mark.parametrize("form", FORMS[:2])
async def test_no_preemption_on_nodes_that_the_plugins_reject(cluster, form):
    for name, value in (("low", 1), ("middle", 5), ("high", 100)):
        try:
            await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        except ApiError as error:
            if error.status != 409:
                raise
    await cluster.add_nodes(2, cpu="1")
    for number, name in enumerate(("low", "middle")):
        more = {"priorityClassName": name, "terminationGracePeriodSeconds": 0}
        selector = {"nodeSelector": {"kubernetes.io/hostname": f"node-{number}"}}
        async with running_scheduler(cluster.access):
            await cluster.create(pod(name, "800m", **more, **selector))
            await on_node(cluster, name, f"node-{number}")
    async with scheduler_and_extender(cluster, not_node_0, form=form):
        await cluster.create(pod("vip", "800m", priorityClassName="high"))
        await on_node(cluster, "vip", "node-1")
    assert "default/low" in cluster.observer.pods, "evicting it would have been cheaper but useless"
    assert "default/middle" not in cluster.observer.pods


async def test_extender_binds(cluster):
    await cluster.add_nodes(2)
    async with scheduler_and_extender(cluster, NoBind, prefer_high_numbers) as (scheduler, _):
        await cluster.create(*pods("web", 3))
        await cluster.observer.until(lambda: all(cluster.observer.node_of(f"default/web-000{n}") for n in range(3)))
        await cluster.observer.until(lambda: scheduler.bound == 3)
    assert sorted(NoBind.asked) == [f"default/web-000{n} to node-1" for n in range(3)]


async def test_failing_plugin_fails_the_attempt(cluster):
    await cluster.add_nodes(1)
    async with scheduler_and_extender(cluster, breaks_once):
        document = pod("web")
        document["metadata"]["annotations"] = {"break": "once"}
        await cluster.create(document)
        assert 'running "breaks_once" filter plugin: RuntimeError: broken' in await pending_message(cluster, "web")
        await on_node(cluster, "web", "node-0")


async def test_run_accepts_the_output_of_extender(cluster, tmp_path):
    await cluster.add_nodes(3)
    policy, configuration = tmp_path / "policy.py", tmp_path / "configuration.yaml"
    policy.write_text(
        "from bayplan import filter_plugin, score_plugin\n\n\n@filter_plugin\ndef not_node_0(pod, node):\n"
        "    return 'node-0 is closed' if node.name == 'node-0' else None\n\n\n@score_plugin\ndef higher(pod, node):\n"
        "    return 10 * int(node.name[-1])\n"
    )
    kubeconfig = cluster.scheduler_kubeconfig
    async with bayplan_extender("--plugin", policy, "--kubeconfig", kubeconfig, "--port", 0, "-v") as extender:
        await extender.serving()
        await extender.until(lambda: "synced 3 nodes" in extender.errors)
        configuration.write_text(
            f"apiVersion: {API_VERSION}\nkind: {KIND}\nleaderElection: {{leaderElect: false}}\n"
            f"profiles:\n- schedulerName: {NAME}\n{extender.snippet}"
        )
        async with bayplan_run("--config", configuration, "--kubeconfig", kubeconfig):
            await cluster.create(pod("web"))
            await on_node(cluster, "web", "node-2")
            await cluster.create(pod("misfit", nodeSelector={"kubernetes.io/hostname": "node-0"}))
            note = await pending_message(cluster, "misfit")
        assert "filter: default/web: 2 of 3 nodes" in extender.errors
    assert note.startswith(
        "0/3 nodes are available: 1 node-0 is closed, 2 node(s) didn't match Pod's node affinity/selector."
    )
