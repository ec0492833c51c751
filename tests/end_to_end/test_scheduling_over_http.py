import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from running import FAST, running_scheduler
from tests.support.invariants import waiting_or_bound
from workloads import NAME, node_affinity, pod, pods

from bayplan.core.api.kinds import NODE, POD
from bayplan.testing.observer import condition_of

pytestmark = pytest.mark.usefixtures("invariants")

EFFECTS = json.loads((Path(__file__).parents[1] / "data/kube-scheduler/effects.json").read_text())
TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Exists"}


async def test_pods_are_placed_on_feasible_nodes(cluster):
    await cluster.add_node("fast", labels={"disk": "ssd"})
    await cluster.add_node("plain", labels={"disk": "spinning"})
    await cluster.add_node("tainted", taints=[TAINT])
    await cluster.add_node("cordoned")
    await cluster.client.patch(NODE, "cordoned", {"spec": {"unschedulable": True}})
    async with running_scheduler(cluster.access):
        await cluster.create(
            pod("fast-disk", affinity=node_affinity("disk", "In", "ssd")),
            pod("fast-by-selector", nodeSelector={"disk": "ssd"}),
            pod("no-disk", affinity=node_affinity("disk", "DoesNotExist"), tolerations=[TOLERATION]),
            pod("by-name", nodeName="", affinity=node_affinity("kubernetes.io/hostname", "In", "plain")),
            pod("port-1", port=8080),
            pod("port-2", port=8080),
            pod("port-3", port=8080),
            pod("big", "3500m"),
            pod("nowhere", nodeSelector={"disk": "tape"}),
        )
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
    where = {key.removeprefix("default/"): one["spec"].get("nodeName") for key, one in cluster.observer.pods.items()}
    assert where["fast-disk"] == where["fast-by-selector"] == "fast"
    assert where["no-disk"] == "tainted"
    assert where["by-name"] == "plain"
    assert {where["port-1"], where["port-2"]} == {"fast", "plain"}
    assert where["port-3"] is None
    assert where["big"] in {"fast", "plain"}
    assert (await cluster.condition("port-3"))["message"].startswith(
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        "2 node(s) didn't have free ports for the requested pod ports. "
    )
    assert "nowhere" not in {name for name, node in where.items() if node}


async def test_events_do_not_wait_for_the_bindings_of_a_burst(cluster, proxy):
    await cluster.add_nodes(2)
    proxy.inject("POST", "/binding$", times=None, delay=0.05)
    async with running_scheduler(proxy.access, max_connections=2):
        await cluster.create_fast(pods("many", 30))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
    sent = [
        "binding" if seen.path.endswith("/binding") else "event" for seen in proxy.requests if seen.method == "POST"
    ]
    assert sent.index("event") < len(sent) / 2


async def test_pending_pod_has_a_condition_and_is_scheduled_later(cluster):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access):
        await cluster.create(pod("fits"), pod("vip", cpu="2"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        recorded = dict(EFFECTS["conditions"]["too-big"][0])
        message = recorded["message"]
        condition = await cluster.condition("vip")
        assert condition.pop("lastTransitionTime")
        del recorded["lastTransitionTime"]
        assert condition == recorded
        await cluster.add_node("b", cpu="4")
        await cluster.observer.until(lambda: cluster.observer.node_of("default/vip") == "b")
        bound = await cluster.condition("vip")
        await cluster.observer.until(lambda: cluster.observer.events_of("default/vip", "Scheduled"))
    assert bound["status"] == "True"
    for name, reason, note in [
        ("fits", "Scheduled", "Successfully assigned default/fits to a"),
        ("vip", "FailedScheduling", message),
        ("vip", "Scheduled", "Successfully assigned default/vip to b"),
    ]:
        event = copy.deepcopy(cluster.observer.events_of(f"default/{name}", reason)[0])
        recorded = next(
            one for one in EFFECTS["events"] if one["regarding"]["name"] == name and one["reason"] == reason
        )
        uid = cluster.observer.pods[f"default/{name}"]["metadata"]["uid"]
        assert event["reportingInstance"].startswith(f"{NAME}-")
        assert event["regarding"].pop("uid") == uid
        assert event["regarding"].pop("resourceVersion")
        recorded = {
            **recorded,
            "note": note,
            "reportingController": NAME,
            "regarding": {k: v for k, v in recorded["regarding"].items() if k not in {"uid", "resourceVersion"}},
        }
        for varies in ("eventTime", "reportingInstance"):
            del recorded[varies]
        assert {key: event.get(key) for key in recorded} == recorded


async def test_pod_with_a_missing_claim_has_the_recorded_condition(cluster):
    await cluster.add_node("a", cpu="1")
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]
    async with running_scheduler(cluster.access):
        await cluster.create(pod("no-claim", volumes=claims))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/no-claim", "FailedScheduling"))
        # The condition may be written after the event.
        await cluster.observer.until(lambda: cluster.observer.pods["default/no-claim"]["status"].get("conditions"))
        condition = await cluster.condition("no-claim")
    recorded = dict(EFFECTS["conditions"]["no-claim"][0])
    for either in (condition, recorded):
        assert either.pop("lastTransitionTime")
    assert condition == recorded


async def test_pods_of_other_schedulers_are_ignored(cluster):
    await cluster.add_node("a")
    async with running_scheduler(cluster.access):
        await cluster.create(
            pod("default", scheduler="default-scheduler"), pod("other", scheduler="other"), pod("ours")
        )
        await cluster.observer.until(lambda: cluster.observer.events_of("default/ours", "Scheduled"))
    assert not cluster.observer.node_of("default/default")
    assert not cluster.observer.node_of("default/other")
    assert [event["regarding"]["name"] for event in cluster.observer.events] == ["ours"]
    assert len(cluster.observer.versions("default/other")) == 1


async def test_gated_pod_is_not_attempted(cluster):
    await cluster.add_node("a")
    async with running_scheduler(cluster.access) as scheduler:
        await cluster.create(pod("gated", schedulingGates=[{"name": "example.com/quota"}]), pod("free"))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/free", "Scheduled"))
        assert scheduler.decisions == 1
        condition = await cluster.condition("gated")
        recorded = EFFECTS["conditions"]["gated"][0]
        assert {**condition, "lastTransitionTime": recorded["lastTransitionTime"]} == recorded
        await cluster.client.patch(POD, "gated", {"spec": {"schedulingGates": None}}, "default")
        await cluster.observer.until(lambda: cluster.observer.events_of("default/gated", "Scheduled"))
    assert not cluster.observer.events_of("default/gated", "FailedScheduling")


async def test_freed_resources_are_used_again(cluster):
    await cluster.add_nodes(4, cpu="1")
    async with running_scheduler(cluster.access):
        await cluster.create_fast(pods("p", 50, "100m"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        bound = [one for one in cluster.observer.pods.values() if one["spec"].get("nodeName")]
        assert len(bound) == 40
        for one in bound[:10]:
            await cluster.delete(one["metadata"]["name"])
        await cluster.observer.until(
            lambda: (
                len(cluster.observer.pods) == 40
                and all(one["spec"].get("nodeName") for one in cluster.observer.pods.values())
            )
        )


async def test_repeated_failure_becomes_an_event_series(cluster):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access, settings=replace(FAST, unschedulable_timeout=0.2)) as scheduler:
        await cluster.create(pod("big", cpu="2"))
        await cluster.observer.until(lambda: scheduler.decisions >= 8)
    events = cluster.observer.events_of("default/big", "FailedScheduling")
    # The condition creates a new version of the pod, and an event refers to one version.
    assert len(events) == len({event["regarding"]["resourceVersion"] for event in events}) == 2
    assert events[1]["series"]["count"] >= 2
    created, updated = cluster.observer.versions("default/big")
    assert (condition_of(created), condition_of(updated)["reason"]) == (None, "Unschedulable")


@pytest.fixture(autouse=True)
def _no_warnings(caplog):
    """No test of this module makes the scheduler log warnings."""
    yield
    assert [record.getMessage() for record in caplog.records if record.name.startswith("bayplan.running.service")] == []
