"""Objects that cannot be decoded, and plugins that fail, are reported; all other pods are scheduled."""

import logging
import threading
from dataclasses import replace

import pytest
from clusters import embedded
from running import FAST, running_scheduler, unrecorded_scheduler
from tests.support.invariants import check_invariants, waiting_or_bound
from tests.support.tables import cases
from workloads import NAME, node_affinity, pod

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.framework.interface import Plugin
from bayplan.testing.observer import condition_of

POD_ANSWERS, NODE_ANSWERS = r"/pods\?", r"/nodes\?"


@pytest.mark.parametrize(
    ("make", "broken", "message"),
    [
        pytest.param(
            lambda: pod("strange", "987m"), {b'"987m"': b'"plenty"'}, "'plenty' is not a quantity", id="bad quantity"
        ),
        pytest.param(
            lambda: pod("strange", affinity=node_affinity("tier", "In", "strange-value")),
            {b'"In"': b'"Near"'},
            # kube-scheduler has the same message.
            "didn't match Pod's node affinity/selector",
            id="unknown operator",
        ),
        pytest.param(
            lambda: pod("strange", affinity=node_affinity("tier", "In", "strange-value")),
            {b'["strange-value"]': b'"strange-value"'},
            "values",
            id="string for a list",
        ),
        pytest.param(
            lambda: pod("strange", priority=None, terminationGracePeriodSeconds=98765),
            {b'"terminationGracePeriodSeconds":98765': b'"terminationGracePeriodSeconds":"soon"'},
            "terminationGracePeriodSeconds",
            id="string for a number",
        ),
    ],
)
@cases("node_first", {"": False, "the node is reported first": True})
async def test_undecodable_pod_stays_pending(cluster, proxy, caplog, make, broken, message, node_first, invariants):
    await cluster.add_node("a", labels={"tier": "strange-value"})
    caplog.set_level(logging.INFO, "bayplan")
    fault = proxy.inject("GET", POD_ANSWERS, times=None, replace=broken)
    async with running_scheduler(proxy.access):
        await cluster.create(make(), pod("plain-1"), pod("plain-2"))
        await cluster.observer.until(
            lambda: cluster.observer.node_of("default/plain-1") and cluster.observer.node_of("default/plain-2")
        )
        events = await cluster.observer.until(lambda: cluster.observer.events_of("default/strange"))
        assert {event["reason"] for event in events} == {"FailedScheduling"}
        assert message in events[0]["note"]
        assert cluster.observer.node_of("default/strange") == ""
        assert any("default/strange" in record.getMessage() for record in caplog.records)
        # Once it can be decoded, it is scheduled, whichever watch is faster.
        proxy.faults.remove(fault)
        if node_first:
            proxy.inject("GET", r"/pods\?.*watch=", delay=1.0)
        proxy.cut()
        await cluster.client.patch(POD, "strange", {"metadata": {"labels": {"changed": "yes"}}}, "default")
        await cluster.add_node("b", labels={"tier": "strange-value"})
        await cluster.observer.until(lambda: cluster.observer.node_of("default/strange"))


@cases(
    "field, kept, broken",
    {
        "null map": ("nodeSelector", {"tier": "x"}, {b'"nodeSelector":{"tier":"x"}': b'"nodeSelector":null'}),
        "null lists": (
            "tolerations",
            [{"key": "only-here", "operator": "Exists"}],
            {b'"ports":[]': b'"ports":null', b'"env":[]': b'"env":null'},
        ),
    },
)
async def test_null_is_decoded_as_empty(cluster, proxy, field, kept, broken, invariants):
    await cluster.add_node("a")
    proxy.inject("GET", POD_ANSWERS, times=None, replace=broken)
    async with running_scheduler(proxy.access):
        await cluster.create(pod("strange", **{field: kept}))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/strange") == "a")


@cases(
    "broken",
    {
        "bad quantity": {b'"cpu":"13"': b'"cpu":"many"'},
        "list for a string": {b'"providerID":"far://away"': b'"providerID":["far"]'},
    },
)
async def test_undecodable_node_is_not_used(cluster, proxy, caplog, broken, invariants):
    await cluster.add_node("good")
    await cluster.add_node("strange", cpu="13")
    await cluster.client.patch(NODE, "strange", {"spec": {"providerID": "far://away"}})
    fault = proxy.inject("GET", NODE_ANSWERS, times=None, replace=broken)
    async with running_scheduler(proxy.access):
        await cluster.create(pod("small"), pod("large", "10"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/small") == "good")
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        pending = (await cluster.condition("large"))["message"]
        assert pending.startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        assert any("node strange" in record.getMessage() for record in caplog.records)
        proxy.faults.remove(fault)
        proxy.cut()
        await cluster.client.patch(NODE, "strange", {"metadata": {"labels": {"changed": "yes"}}})
        await cluster.observer.until(lambda: cluster.observer.node_of("default/large") == "strange")


async def test_undecodable_node_update_is_ignored(cluster, proxy, caplog, invariants):
    await cluster.add_node("a")
    proxy.inject("GET", NODE_ANSWERS, times=None, replace={b'"cpu":"13"': b'"cpu":"many"'})
    async with running_scheduler(proxy.access):
        await cluster.client.patch(NODE, "a", {"status": {"allocatable": {"cpu": "13"}}}, subresource="status")
        await cluster.observer.until(
            lambda: any("version of node a:" in record.getMessage() for record in caplog.records)
        )
        await cluster.create(pod("small", "3"), pod("large", "10"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
    assert cluster.observer.node_of("default/small") == "a"
    assert cluster.observer.node_of("default/large") == ""


@pytest.fixture
async def small_cluster(tmp_path):
    """A cluster for tests of plugins, which do not depend on the API server."""
    async with embedded(tmp_path) as cluster:
        await cluster.add_nodes(2)
        yield cluster
        check_invariants(cluster.observer, NAME)


class Breaks(Plugin):
    """Fails for a pod, the first two times. What plugins do at other points is tested in tests/service."""

    name = "Breaks"
    times = 0

    def filter(self, cycle, pod, node):
        if pod.name == "unlucky" and self.times < 2:
            self.times += 1
            raise KeyError("missing")


async def test_failure_of_a_plugin_fails_the_attempt(small_cluster, caplog):
    cluster, broken = small_cluster, Breaks()
    async with unrecorded_scheduler(cluster.access, broken):  # no entry says what changes the plugin
        await cluster.create(pod("unlucky"), pod("lucky"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/lucky"))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/unlucky", "FailedScheduling"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/unlucky"))
    assert broken.times == 2
    failure = cluster.observer.events_of("default/unlucky", "FailedScheduling")[0]["note"]
    assert "Breaks" in failure
    assert failure in caplog.text
    conditions = [condition_of(version) for version in cluster.observer.versions("default/unlucky")]
    assert "SchedulerError" in {condition and condition.get("reason") for condition in conditions}


async def test_blocking_plugin_is_logged_with_its_stack(small_cluster, caplog):
    cluster = small_cluster
    named = threading.Event()

    class Release(logging.Handler):
        def emit(self, record):
            if "plugin Sleepy in Filter has been blocking" in record.getMessage():
                named.set()

    class Sleepy(Plugin):
        name = "Sleepy"

        def filter(self, cycle, pod, node):
            assert named.wait(20), "not reported"

    handler = Release()
    logging.getLogger("bayplan").addHandler(handler)
    try:
        async with running_scheduler(cluster.access, Sleepy(), settings=replace(FAST, blocked_after=0.2)):
            await cluster.create(pod("slow"))
            await cluster.observer.until(lambda: cluster.observer.node_of("default/slow"))
    finally:
        logging.getLogger("bayplan").removeHandler(handler)
    assert 'assert named.wait(20), "not reported"' in caplog.text
