"""Failed bind requests, and their effect on the pod."""

import pytest
from running import running_scheduler
from tests.support.invariants import waiting_or_bound
from tests.support.tables import cases
from workloads import NAME, pod, pods

pytestmark = pytest.mark.usefixtures("invariants")

BIND = "/binding$"


def all_bound(cluster, count):
    places = [cluster.observer.node_of(key) for key in cluster.observer.pods]
    return len(places) == count and all(places)


DECLINED = [*({"status": status} for status in (409, 404, 403, 500, 503)), {"status": 429, "retry_after": 1}]


async def test_declined_bindings_are_retried(cluster, proxy):
    await cluster.add_nodes(4, cpu="2")
    async with running_scheduler(proxy.access):
        faults = [proxy.inject("POST", BIND, times=5, **what) for what in DECLINED]
        await cluster.create_fast(pods("p", 40, "200m"))
        await cluster.observer.until(lambda: all_bound(cluster, 40))
    assert [fault.hits for fault in faults] == [5] * len(DECLINED)


@cases(
    "what",
    {
        "carried out, connection lost": {"drop_response": True},
        "timeout, not carried out": {"delay": 4.0},
        "never answered": {"hang": True},
    },
)
async def test_bindings_without_a_reply_are_retried(cluster, proxy, what):
    await cluster.add_nodes(4, cpu="2")
    # On a busy machine, half a second is too short: the server would carry out requests that have timed out.
    async with running_scheduler(proxy.access, request_timeout=2.0 if {"delay", "hang"} & what.keys() else 20.0):
        fault = proxy.inject("POST", BIND, times=10, **what)
        await cluster.create_fast(pods("p", 40, "200m"))
        await cluster.observer.until(lambda: all_bound(cluster, 40))
    assert fault.hits == 10


async def test_binding_without_a_reply_is_not_repeated(cluster, proxy):
    await cluster.add_node("a")
    async with running_scheduler(proxy.access, request_timeout=2.0):
        proxy.inject("POST", BIND, drop_response=True)
        await cluster.create(pod("once"))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/once", "Scheduled"))
    assert proxy.count("POST", BIND) == 1
    assert [event["reason"] for event in cluster.observer.events_of("default/once")] == ["Scheduled"]


async def test_pod_with_an_unknown_binding_keeps_its_resources(cluster, proxy):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(proxy.access, request_timeout=2.0):
        watches = proxy.inject("GET", r"/pods\?.*watch=", times=None, hang=True)
        proxy.cut()
        proxy.inject("POST", BIND, drop_response=True)
        unknown = proxy.inject("GET", "/pods/first$", times=None, status=500)
        await cluster.observer.until(lambda: watches.hits)
        proxy.faults.remove(watches)
        proxy.cut()
        await cluster.create(pod("first", "800m"), pod("second", "800m"))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/second", "FailedScheduling"))
        proxy.faults.remove(unknown)
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        assert cluster.observer.node_of("default/first") == "a"
        await cluster.delete("first")
        await cluster.observer.until(lambda: cluster.observer.node_of("default/second") == "a")


async def test_repeatedly_failing_binding_is_reported_and_retried(cluster, proxy, caplog):
    await cluster.add_node("a")
    async with running_scheduler(proxy.access):
        fault = proxy.inject("POST", "/pods/refused/binding$", times=None, status=403, message="quota says no")
        await cluster.create(pod("refused"), pod("other"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        condition = await cluster.condition("refused")
        await cluster.observer.until(lambda: fault.hits >= 4)
        proxy.faults.remove(fault)
        await cluster.observer.until(lambda: all_bound(cluster, 2))
    assert condition["reason"] == "SchedulerError"
    problem = 'running Bind plugin "DefaultBinder": quota says no'
    assert condition["message"] == problem
    assert f"pod default/refused: {problem}" in caplog.text


async def test_late_condition_does_not_overwrite_the_bound_one(cluster, proxy):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(proxy.access):
        slow = proxy.inject("PATCH", "/status$", delay=0.7)
        await cluster.create(pod("big", "2"))
        await cluster.observer.until(lambda: slow.hits)
        await cluster.add_node("b", cpu="4")
        await cluster.observer.until(lambda: cluster.observer.node_of("default/big") == "b")
    assert (await cluster.condition("big"))["status"] == "True"
