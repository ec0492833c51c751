"""Gangs on the embedded cluster: competing gangs, the status of their PodGroups, and faults."""

import asyncio
import random
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import embedded
from running import FAST
from tests.support.waiting import PATIENCE
from workloads import pod

from bayplan.client import HttpClient
from bayplan.core.api.coscheduling import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL, POD_GROUPS
from bayplan.core.api.kinds import CUSTOM_RESOURCE_DEFINITION, JOB, PRIORITY_CLASS, custom_kind
from bayplan.core.config import load_configuration
from bayplan.core.config.profiles import build_profile
from bayplan.running.service.scheduler import Scheduler

pytestmark = pytest.mark.usefixtures("invariants")

ROOT = Path(__file__).parents[2]
KIND = custom_kind(POD_GROUPS)
ROUNDS = 20


@pytest.fixture
async def cluster(tmp_path):
    """A cluster with PodGroups."""
    async with embedded(tmp_path, files=["podgroup-crd.yaml"]) as cluster:
        await watch_until(cluster.client, CUSTOM_RESOURCE_DEFINITION, established)
        yield cluster


def established(definition):
    conditions = (definition.status.conditions if definition.status else None) or ()
    return any((each.type, each.status) == ("Established", "True") for each in conditions)


async def watch_until(client, kind, condition):
    """Watch the only object of a kind until it meets a condition. Returns its versions."""
    seen = []
    async with asyncio.timeout(PATIENCE), aclosing(client.watch(kind, bookmarks=False)) as events:
        async for event in events:
            seen.append(event.object)
            if condition(event.object):
                break
    return seen


@asynccontextmanager
async def coscheduler(access):
    """The scheduler of examples/coscheduling."""
    profile = load_configuration(ROOT / "examples" / "coscheduling" / "config.yaml").profiles[0]
    async with HttpClient(access) as client:
        build = lambda handle: {profile.schedulerName: build_profile(profile, handle)}  # noqa: E731
        scheduler = Scheduler(client, build, replace(FAST, seed=1))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            try:
                await scheduler.synced.wait()
                yield scheduler
            finally:
                stop.set()


def group(name, min_member, **spec):
    return {
        "apiVersion": KIND.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": min_member, **spec},
    }


def members(gang, names, cpu="1", labels=None, **spec):
    for name in names:
        document = pod(name, cpu, **spec)
        document["metadata"]["labels"] = labels or {POD_GROUP_LABEL: gang}
        yield document


def bound(cluster, names):
    return [name for name in names if cluster.observer.node_of(f"default/{name}")]


def reasons(cluster, names):
    """The messages of the conditions of pending pods."""
    for name in names:
        status = cluster.observer.pods[f"default/{name}"]["status"]
        yield next(
            (each.get("message", "") for each in status.get("conditions") or () if each["status"] == "False"), ""
        )


async def test_competing_gangs_run_one_at_a_time(cluster):
    await cluster.add_nodes(4, cpu="1")
    rng = random.Random(7)
    async with coscheduler(cluster.access) as scheduler:
        for number in range(ROUNDS):
            await run_competing_gangs(cluster, scheduler, number, rng)


async def run_competing_gangs(cluster, scheduler, number, rng):
    """Creates two gangs in random order: one runs, and the other holds no resources until the first is deleted."""
    gangs = {f"{color}-{number}": [f"{color}-{number}-{index}" for index in range(4)] for color in ("red", "blue")}
    for gang in gangs:
        await cluster.client.create(KIND, group(gang, 4))
    arriving = [one for gang, names in gangs.items() for one in members(gang, names)]
    rng.shuffle(arriving)
    await cluster.create_fast(arriving)
    observer = cluster.observer
    await observer.until(lambda: any(len(bound(cluster, names)) == 4 for names in gangs.values()))
    first, second = sorted(gangs, key=lambda gang: -len(bound(cluster, gangs[gang])))
    await observer.until(lambda: all("members fit" in reason for reason in reasons(cluster, gangs[second])))
    assert set(reasons(cluster, gangs[second])) == {
        f"gang {second}: 0 of 4 members fit; the next one: 0/4 nodes are available: 4 Insufficient cpu."
    }
    assert bound(cluster, gangs[second]) == []
    assert scheduler.state.pod_count == 4
    assert len(scheduler.waiting) == 0
    for name in gangs[first]:
        await cluster.delete(name)
    await observer.until(lambda: len(bound(cluster, gangs[second])) == 4)
    for name in gangs[second]:
        await cluster.delete(name)


async def test_gang_waits_for_members_and_resources(cluster):
    await cluster.add_nodes(2, cpu="1")
    names = ["one", "two", "three"]
    arriving = list(members("crew", names))
    async with coscheduler(cluster.access):
        await cluster.client.create(KIND, group("crew", 3))
        await cluster.create(*arriving[:2])
        await cluster.observer.until(lambda: all("sibling pods" in reason for reason in reasons(cluster, names[:2])))
        await cluster.create(arriving[2])
        fit = "gang crew: 2 of 3 members fit; the next one: 0/2 nodes are available: 2 Insufficient cpu."
        await cluster.observer.until(lambda: set(reasons(cluster, names)) == {fit})
        assert bound(cluster, names) == []
        await cluster.add_node("node-2", cpu="1")
        await cluster.observer.until(lambda: bound(cluster, names) == names)


async def test_group_created_after_its_pods(cluster):
    await cluster.add_nodes(2, cpu="1")
    async with coscheduler(cluster.access):
        await cluster.create(*members("late", ["one", "two"]))
        await cluster.observer.until(
            lambda: all("PodGroup not found" in reason for reason in reasons(cluster, ["one", "two"]))
        )
        await cluster.client.create(KIND, group("late", 2))
        await cluster.observer.until(lambda: len(bound(cluster, ["one", "two"])) == 2)


async def test_gang_by_labels(cluster):
    await cluster.add_nodes(2, cpu="1")
    labels = {LIGHTWEIGHT_LABEL: "green", MIN_AVAILABLE_LABEL: "2"}
    first, second = members("green", ["one", "two"], labels=labels)
    async with coscheduler(cluster.access):
        await cluster.create(first)
        await cluster.observer.until(lambda: all("sibling pods" in reason for reason in reasons(cluster, ["one"])))
        await cluster.create(second)
        await cluster.observer.until(lambda: len(bound(cluster, ["one", "two"])) == 2)


async def test_gang_preempts_for_all_members_or_none(cluster):
    await cluster.add_nodes(2, cpu="2")
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "low"}, "value": -10})
    low = {"priorityClassName": "low", "terminationGracePeriodSeconds": 1}
    humble = [pod(f"humble-{number}", "2", **low) for number in range(2)]
    async with coscheduler(cluster.access):
        await cluster.create(*humble)
        await cluster.observer.until(lambda: len(bound(cluster, ["humble-0", "humble-1"])) == 2)
        await cluster.client.create(KIND, group("big", 5))
        large = [f"big-{number}" for number in range(5)]
        await cluster.create_fast(list(members("big", large)))
        await cluster.observer.until(lambda: all("0 of 5 members fit" in reason for reason in reasons(cluster, large)))
        assert {"default/humble-0", "default/humble-1"} <= cluster.observer.pods.keys()
        await cluster.client.create(KIND, group("right", 4))
        right = [f"right-{number}" for number in range(4)]
        await cluster.create_fast(list(members("right", right)))
        await cluster.observer.until(lambda: len(bound(cluster, right)) == 4)
        assert not {"default/humble-0", "default/humble-1"} & cluster.observer.pods.keys()
        assert bound(cluster, large) == []


async def test_group_status_has_its_phase(cluster):
    await cluster.add_nodes(2, cpu="1")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "crew"},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {
                "metadata": {"labels": {POD_GROUP_LABEL: "crew"}, "annotations": {"bayplan.dev/run-seconds": "1"}},
                "spec": {**pod("x", "1")["spec"], "restartPolicy": "Never"},
            },
        },
    }
    async with coscheduler(cluster.access):
        await cluster.client.create(KIND, group("crew", 2))
        await watch_until(cluster.client, KIND, in_phase("Pending"))
        await cluster.client.create(JOB, job, "default")
        seen = await watch_until(cluster.client, KIND, in_phase("Finished"))
    last = seen[-1]["status"]
    assert last["occupiedBy"] == "default/crew"
    assert last["scheduleStartTime"].endswith("Z")
    assert (last["running"], last["succeeded"], last["failed"]) == (0, 2, 0)
    order = ["Pending", "Scheduling", "Running", "Finished"]
    phases = [each["status"]["phase"] for each in seen]
    assert phases == sorted(phases, key=order.index)


def in_phase(phase):
    return lambda pod_group: (pod_group.get("status") or {}).get("phase") == phase
