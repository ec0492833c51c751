"""Kubernetes' own PodGroups with `bayplan run` and its feature gates: gangs, topology constraints, and preemption."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
from clusters import embedded
from running import bayplan_run
from tests.support.invariants import check_invariants
from tests.support.waiting import PATIENCE
from workloads import NAME, pod

from bayplan.core.api.kinds import EVENT, POD_GROUP, POD_GROUP_V1ALPHA2, PRIORITY_CLASS

pytestmark = pytest.mark.usefixtures("invariants")

GANGS = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GANGS},TopologyAwareWorkloadScheduling=true"
WHOLE = f"{GANGS},WorkloadAwarePreemption=true"


@pytest.fixture
async def cluster(tmp_path):
    """A cluster whose server has PodGroups."""
    async with embedded(tmp_path, alpha=True) as cluster:
        yield cluster


@pytest.fixture
async def newer(tmp_path):
    """The same of Kubernetes 1.37."""
    async with embedded(tmp_path, alpha=True, version="1.37") as cluster:
        yield cluster


@asynccontextmanager
async def scheduler(cluster, gates):
    kubeconfig = cluster.scheduler_kubeconfig
    arguments = ("--kubeconfig", kubeconfig, "--scheduler-name", NAME, "--feature-gates", gates)
    async with bayplan_run(*arguments, "--leader-elect=false") as running:
        yield running


async def create_group(cluster, name, min_count, topology=None, kind=POD_GROUP_V1ALPHA2, **spec):
    constraints = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}, **constraints, **spec}
    await cluster.client.create(kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def members(group, count, cpu="1", **spec):
    return [pod(f"{group}-{number}", cpu, schedulingGroup={"podGroupName": group}, **spec) for number in range(count)]


def bound(cluster, group):
    """The nodes of a group's bound pods, by pod."""
    pods = (key.partition("/")[2] for key in cluster.observer.pods)
    nodes = {name: cluster.observer.node_of(f"default/{name}") for name in pods if name.startswith(f"{group}-")}
    return {name: node for name, node in nodes.items() if node}


async def until_condition(cluster, group, *words, kind=POD_GROUP_V1ALPHA2):
    """Watch groups until the condition of one has this status, reason and message."""
    async with asyncio.timeout(PATIENCE), aclosing(cluster.client.watch(kind, "default", bookmarks=False)) as events:
        async for event in events:
            found = event.object
            conditions = (found.status.conditions if found.status else None) or ()
            if found.metadata.name == group and any(
                (each.status, each.reason, each.message)[: len(words)] == words for each in conditions
            ):
                return


async def test_competing_groups_run_one_at_a_time(cluster):
    await cluster.add_nodes(4, cpu="1")
    for name in ("red", "blue"):
        await create_group(cluster, name, 4)
    async with scheduler(cluster, GANGS):
        await cluster.create_fast([*members("red", 4), *members("blue", 4)])
        await cluster.observer.until(lambda: any(len(bound(cluster, name)) == 4 for name in ("red", "blue")))
        first, second = sorted(("red", "blue"), key=lambda name: -len(bound(cluster, name)))
        await until_condition(cluster, first, "True", "Scheduled")
        lacking = "0/4 nodes are available: 4 Insufficient cpu."
        message = f"gang {second}: 0 of 4 members fit; the next one: {lacking}"
        await until_condition(cluster, second, "False", "Unschedulable", message)
        assert bound(cluster, second) == {}
        for name in bound(cluster, first):
            await cluster.delete(name)
        await cluster.observer.until(lambda: len(bound(cluster, second)) == 4)
        await until_condition(cluster, second, "True", "Scheduled")


async def test_a_group_of_1_37_is_placed_when_it_needs_fewer_members(newer):
    await newer.add_nodes(2, cpu="1")
    async with scheduler(newer, "GenericWorkload=true"):
        await create_group(newer, "crew", 3, kind=POD_GROUP)
        await newer.create(*members("crew", 3))
        message = "gang crew: 2 of 3 members fit; the next one: 0/2 nodes are available: 2 Insufficient cpu."
        message += " pod group preemption: No preemption victims found for incoming preemptor"
        await until_condition(newer, "crew", "False", "Unschedulable", message, kind=POD_GROUP)
        fewer = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        await newer.client.patch(POD_GROUP, "crew", fewer, "default")
        await newer.observer.until(lambda: len(bound(newer, "crew")) == 2)
        await until_condition(newer, "crew", "True", "Scheduled", kind=POD_GROUP)
    check_invariants(newer.observer, NAME)


async def test_members_are_created_one_by_one(cluster):
    await cluster.add_nodes(2, cpu="2")
    async with scheduler(cluster, GANGS):
        one, two, three, late = members("crew", 4)
        await cluster.create(one)
        await create_group(cluster, "crew", 3)
        await cluster.create(two, pod("plain", "100m"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/plain"))
        assert bound(cluster, "crew") == {}
        await cluster.delete("plain")
        await cluster.create(three)
        await cluster.observer.until(lambda: len(bound(cluster, "crew")) == 3)
        await cluster.create(late)
        await cluster.observer.until(lambda: len(bound(cluster, "crew")) == 4)
        await until_condition(cluster, "crew", "True", "Scheduled", "")


async def test_group_is_placed_in_one_rack(cluster):
    racks = {"a-0": "a", "a-1": "a", "b-0": "b", "b-1": "b"}
    for name, rack in racks.items():
        await cluster.add_node(name, cpu="1" if name == "a-1" else "2", labels={"rack": rack})
    await create_group(cluster, "crew", 4, "rack")
    await create_group(cluster, "more", 4, "rack")
    async with scheduler(cluster, TOPOLOGY):
        await cluster.create_fast(members("crew", 4))
        await cluster.observer.until(lambda: len(bound(cluster, "crew")) == 4)
        assert {racks[node] for node in bound(cluster, "crew").values()} == {"b"}
        await cluster.create_fast(members("more", 4))
        message = (
            "gang more: 3 of 4 members fit in a, the best of 2 placements; "
            "the next one: 0/2 nodes are available: 2 Insufficient cpu."
        )
        await until_condition(cluster, "more", "False", "Unschedulable", message)
        assert bound(cluster, "more") == {}
        await cluster.add_node("a-2", cpu="1", labels={"rack": "a"})
        await cluster.observer.until(lambda: len(bound(cluster, "more")) == 4)
        assert {"a-0", "a-1", "a-2"} == set(bound(cluster, "more").values())
        await until_condition(cluster, "more", "True", "Scheduled")


async def test_group_is_preempted_as_a_whole(cluster):
    await cluster.add_nodes(2, cpu="2")
    for name, value in (("low", -10), ("high", 10)):
        await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
    await create_group(cluster, "humble", 2, priorityClassName="low", disruptionMode="PodGroup")
    async with scheduler(cluster, WHOLE):
        await cluster.create_fast(members("humble", 2, "2", terminationGracePeriodSeconds=1))
        await cluster.observer.until(lambda: len(bound(cluster, "humble")) == 2)
        await create_group(cluster, "vip", 2, priorityClassName="high")
        await cluster.create_fast(members("vip", 2))
        await cluster.observer.until(lambda: len(bound(cluster, "vip")) == 2)
        await cluster.observer.until(lambda: bound(cluster, "humble") == {})  # the other one may still terminate
        uid = (await cluster.client.get(POD_GROUP_V1ALPHA2, "vip", "default")).metadata.uid
        events = (await cluster.client.list(EVENT, "default")).items
        notes = [each.note for each in events if each.reason == "Preempted"]
        assert notes == [f"Preempted by podgroup {uid} on node cluster"] * 2
