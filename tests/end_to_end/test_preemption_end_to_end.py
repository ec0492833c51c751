"""Preemption as in kube-scheduler: effects, disruption budgets, and no delay of other pods."""

import asyncio
import json
from pathlib import Path

import pytest
from running import running_scheduler
from tests.support.tables import cases
from workloads import NAME, pod, pods

from bayplan.client import ApiError
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET, PRIORITY_CLASS
from bayplan.core.framework.interface import Plugin, Wait
from bayplan.testing.observer import condition_of

pytestmark = [pytest.mark.feature("DefaultPreemption: end to end"), pytest.mark.usefixtures("invariants")]

EFFECTS = json.loads((Path(__file__).parents[1] / "data/kube-scheduler/effects.json").read_text())
PODS = r"/pods/"


def classed(name, cpu, priority, **spec):
    return pod(name, cpu, priorityClassName=priority, terminationGracePeriodSeconds=1, **spec)


@pytest.fixture
async def cluster(cluster):
    """A cluster with three priority classes."""
    for name, value in (("low", 1), ("middle", 10), ("high", 100)):
        try:
            await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        except ApiError as error:
            if error.status != 409:
                raise
    return cluster


async def on_node(cluster, *names, node=None):
    def there():
        return all(cluster.observer.node_of(f"default/{name}") in ({node} if node else {"a", "b"}) for name in names)

    await cluster.observer.until(there)


def values_of(cluster, name, field):
    """All values of a status field, in order."""
    return [version["status"].get(field) for version in cluster.observer.versions(f"default/{name}")]


async def test_preemptor_runs_on_the_node_of_its_victim(cluster):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access):
        await cluster.create(classed("fits", "800m", "low"))
        await on_node(cluster, "fits")
        uids = {"victim": cluster.observer.pods["default/fits"]["metadata"]["uid"]}
        await cluster.create(classed("vip", "800m", "high"))
        uids["preemptor"] = cluster.observer.pods["default/vip"]["metadata"]["uid"]
        await on_node(cluster, "vip")
        await cluster.observer.until(lambda: values_of(cluster, "vip", "phase")[-1] == "Running")
        await cluster.observer.until(lambda: cluster.observer.events_of("default/vip", "Scheduled"))
    assert "a" in values_of(cluster, "vip", "nominatedNodeName"), "while the victim terminated"
    assert values_of(cluster, "vip", "nominatedNodeName")[-1] is None
    disrupted = condition_of(cluster.observer.versions("default/fits")[-1], "DisruptionTarget")
    assert disrupted.pop("lastTransitionTime")
    assert disrupted == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{NAME}: preempting to accommodate a higher priority pod",
        "lastProbeTime": None,
        "observedGeneration": 1,
    }
    assert events_of(cluster, "default/fits", "Preempted") == [recorded("fits", "Preempted", uids["preemptor"])]
    assert events_of(cluster, "default/vip", "FailedScheduling")[:1] == [recorded("vip", "FailedScheduling")]
    assert events_of(cluster, "default/vip", "Scheduled") == [recorded("vip", "Scheduled")]


def recorded(name, reason, preemptor=""):
    """An event recorded from kube-scheduler, in the form that is expected here."""
    event = next(one for one in EFFECTS["events"] if one["regarding"]["name"] == name and one["reason"] == reason)
    return {**comparable(event), "note": event["note"].replace("<uid>", preemptor), "reportingController": NAME}


def events_of(cluster, key, reason):
    fields = EFFECTS["events"][0]
    return [
        comparable({field: event.get(field) for field in fields}) for event in cluster.observer.events_of(key, reason)
    ]


def comparable(event):
    regarding = {key: value for key, value in event["regarding"].items() if key not in {"uid", "resourceVersion"}}
    kept = {key: value for key, value in event.items() if key not in {"eventTime", "reportingInstance", "series"}}
    return {**kept, "regarding": regarding}


async def test_disruption_budgets_decide_the_victims(cluster):
    await cluster.add_node("a", cpu="1")
    await cluster.add_node("b", cpu="1")
    async with running_scheduler(cluster.access):
        protected, other = classed("protected", "800m", "low"), classed("other", "800m", "middle")
        protected["metadata"]["labels"] = {"app": "db"}
        budget = {"metadata": {"name": "db"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}}
        await cluster.client.create(POD_DISRUPTION_BUDGET, budget, "default")
        await cluster.create(protected, other)
        await on_node(cluster, "protected", "other")
        room = cluster.observer.node_of("default/other")
        await cluster.create(classed("vip", "800m", "high"))
        await on_node(cluster, "vip", node=room)
    assert "default/other" not in cluster.observer.pods
    await cluster.client.delete(POD_DISRUPTION_BUDGET, "db", "default")


async def test_slow_deletion_delays_no_other_pod(cluster, proxy):
    await cluster.add_node("a", cpu="1")
    await cluster.add_node("b", cpu="8")
    async with running_scheduler(proxy.access):
        await cluster.create(*(classed(f"low-{n}", "400m", "low", nodeSelector=ON_A) for n in range(2)))
        await on_node(cluster, "low-0", "low-1")
        slow = proxy.inject("DELETE", PODS, times=None, delay=2.0)
        await cluster.create(classed("vip", "1", "high", nodeSelector=ON_A))
        await cluster.observer.until(lambda: slow.hits)
        others = pods("other", 40)
        await cluster.create_fast(others)
        await on_node(cluster, *(one["metadata"]["name"] for one in others))
        assert slow.hits == 1, "the first delete has not finished"
        assert "default/low-0" in cluster.observer.pods
        assert len(cluster.observer.events_of("default/vip", "FailedScheduling")) == 1, (
            "it must not be attempted during the eviction"
        )
        await on_node(cluster, "vip", node="a")


ON_A = {"kubernetes.io/hostname": "a"}


async def test_preemptor_is_retried_when_eviction_fails(cluster, proxy):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(proxy.access):
        await cluster.create(classed("low", "800m", "low"))
        await on_node(cluster, "low")
        fault = proxy.inject("DELETE", PODS, times=4, status=500)
        await cluster.create(classed("vip", "800m", "high"))
        await on_node(cluster, "vip")
        await cluster.observer.until(lambda: len(cluster.observer.events_of("default/low", "Preempted")) == 1)
    assert fault.hits == 4


class Waits(Plugin):
    """Makes all pods but `vip` wait in Permit."""

    name = "Waits"

    def permit(self, cycle, pod, node_name):
        return None if pod.name == "vip" else Wait(60.0)


class NeverEnds(Plugin):
    """Never finishes PreBind of any pod but `vip`."""

    name = "NeverEnds"

    async def pre_bind(self, cycle, pod, node_name):
        if pod.name != "vip":
            await asyncio.Event().wait()


@cases("plugin, why", {"permit": (Waits(), "preempted"), "pre-bind": (NeverEnds(), "preempted by DefaultPreemption")})
async def test_victims_in_the_binding_cycle_are_rejected_not_deleted(cluster, plugin, why):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access, plugin):
        await cluster.create(classed("early", "800m", "low"))
        await cluster.observer.until(lambda: "a" in values_of(cluster, "early", "nominatedNodeName"))
        await cluster.create(classed("vip", "800m", "high"))
        await on_node(cluster, "vip")
        await cluster.observer.until(lambda: cluster.observer.events_of("default/early", "Preempted"))
    uid = cluster.observer.pods["default/vip"]["metadata"]["uid"]
    (event,) = cluster.observer.events_of("default/early", "Preempted")
    assert event["note"] == f"Preempted by pod {uid} on node a (in kube-scheduler memory)."
    notes = [event["note"] for event in cluster.observer.events_of("default/early", "FailedScheduling")]
    assert notes[0] == why
    assert cluster.observer.node_of("default/early") == ""


async def test_lower_nominations_on_the_node_are_cleared(cluster, proxy):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(proxy.access):
        await cluster.create(classed("low", "800m", "low"))
        await on_node(cluster, "low")
        slow = proxy.inject("DELETE", PODS, times=2, delay=1.0)
        await cluster.create(classed("middle", "800m", "middle"))
        await cluster.observer.until(lambda: slow.hits and "a" in values_of(cluster, "middle", "nominatedNodeName"))
        await cluster.create(classed("vip", "800m", "high"))
        await cluster.observer.until(lambda: values_of(cluster, "middle", "nominatedNodeName")[-1] is None)
        await on_node(cluster, "vip")
    assert cluster.observer.node_of("default/middle") == ""
