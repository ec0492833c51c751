"""A scheduler with HTTP extenders that filter, prioritize, preempt and bind, and may fail."""

import asyncio
import json

import pytest
from running import running_scheduler
from tests.extender.stub_extender import StubExtender
from tests.support.tables import cases
from workloads import pod, pods

from bayplan.client import ApiError
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS
from bayplan.core.config.types import Extender

pytestmark = [pytest.mark.feature("HTTP extenders: end to end"), pytest.mark.usefixtures("invariants")]

EVERYTHING = {"filter": lambda question: {"NodeNames": question["NodeNames"]}}


def configured(stub, **fields):
    verbs = {f"{verb}Verb": verb for verb in stub.answers}
    return Extender(urlPrefix=stub.url, **({"weight": 1, "nodeCacheCapable": True} | verbs | fields))


async def on_node(cluster, name, node):
    await cluster.observer.until(lambda: cluster.observer.node_of(f"default/{name}") == node)


def comparable(obj):
    """An object without the fields that are added later, and those that client-go's informers drop."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in {"managedFields", "resourceVersion"}}
    return {"metadata": metadata, "spec": obj["spec"]}


async def test_filter_and_prioritize(cluster):
    names = await cluster.add_nodes(3)
    answers = {
        "filter": lambda question: {
            "Nodes": {"items": [node for node in question["Nodes"]["items"] if node["metadata"]["name"] != "node-0"]},
            "FailedNodes": {"node-0": "not this one"},
        },
        "prioritize": [{"Host": "node-2", "Score": 10}],
    }
    async with StubExtender(**answers) as stub:
        extender = configured(stub, nodeCacheCapable=False, weight=10)
        async with running_scheduler(cluster.access, extenders=[extender]):
            await cluster.create(pod("web"))
            await on_node(cluster, "web", "node-2")
        (filtered,) = stub.questions("filter")
        (scored,) = stub.questions("prioritize")
    assert {node["metadata"]["name"] for node in filtered["Nodes"]["items"]} == set(names)
    assert [node["metadata"]["name"] for node in scored["Nodes"]["items"]] == ["node-1", "node-2"]
    created = json.loads(await cluster.client.request("GET", POD.path("default", "web")))
    del created["spec"]["nodeName"]
    assert comparable(filtered["Pod"]) == comparable(created)
    node = json.loads(await cluster.client.request("GET", NODE.path(None, "node-1")))
    sent = next(each for each in filtered["Nodes"]["items"] if each["metadata"]["name"] == "node-1")
    assert comparable(sent) == comparable(node)
    assert not {"kind", "apiVersion"} & {*sent, *filtered["Pod"]}


async def test_pod_rejected_by_an_extender_is_retried_after_any_event(cluster):
    await cluster.add_nodes(2)
    refused = {"NodeNames": [], "FailedNodes": {"node-0": "too hot"}, "FailedAndUnresolvableNodes": {"node-1": "lost"}}
    answers = {"filter": lambda question: refused if len(question["NodeNames"]) < 3 else {"NodeNames": ["node-9"]}}
    async with StubExtender(**answers) as stub, running_scheduler(cluster.access, extenders=[configured(stub)]):
        await cluster.create(pod("web"))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/web", "FailedScheduling"))
        note = cluster.observer.events_of("default/web", "FailedScheduling")[0]["note"]
        assert note.startswith("0/2 nodes are available: 1 lost, 1 too hot.")
        condition = await cluster.condition("web")
        while condition is None:  # may be written after the event
            condition = await cluster.condition("web")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        await cluster.add_node("node-9")
        await on_node(cluster, "web", "node-9")


async def test_bind(cluster):
    await cluster.add_nodes(1)

    async def bind(question):
        await cluster.client.bind(
            question["PodNamespace"], question["PodName"], question["Node"], uid=question["PodUID"]
        )
        return {"Error": "" if question["PodName"] == "replied" else "lost"}

    async with StubExtender(bind=bind) as stub:
        async with running_scheduler(cluster.access, extenders=[configured(stub)]) as scheduler:
            await cluster.create(pod("replied"), pod("lost"))
            for name in ("replied", "lost"):
                await on_node(cluster, name, "node-0")
                await cluster.observer.until(lambda key=f"default/{name}": cluster.observer.events_of(key, "Scheduled"))
            assert scheduler.bound == 2, "an effective binding counts, regardless of the reply"
        assert len(stub.questions("bind")) == 2


async def test_preempt(cluster):
    for name, value in (("low", 1), ("high", 100)):
        try:
            await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        except ApiError as error:
            if error.status != 409:
                raise
    await cluster.add_nodes(3, cpu="1")

    def keep(question):
        return {"NodeNameToMetaVictims": {"node-1": question["NodeNameToMetaVictims"]["node-1"]}}

    async with StubExtender(preempt=keep) as stub:
        async with running_scheduler(cluster.access, extenders=[configured(stub)]):
            low = {"priorityClassName": "low", "terminationGracePeriodSeconds": 0}
            await cluster.create(*(pod(f"low-{n}", "800m", **low) for n in range(3)))
            await cluster.observer.until(lambda: all(cluster.observer.node_of(f"default/low-{n}") for n in range(3)))
            victim = next(n for n in range(3) if cluster.observer.node_of(f"default/low-{n}") == "node-1")
            await cluster.create(pod("vip", "800m", priorityClassName="high"))
            await on_node(cluster, "vip", "node-1")
        assert set(stub.questions("preempt")[0]["NodeNameToMetaVictims"]) == {"node-0", "node-1", "node-2"}
    assert {f"default/low-{n}" in cluster.observer.pods for n in range(3) if n != victim} == {True}
    assert f"default/low-{victim}" not in cluster.observer.pods


async def test_changes_during_an_extender_call(cluster):
    await cluster.add_nodes(2)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow_filter(question):
        asked.set()
        await answer.wait()
        return {"NodeNames": question["NodeNames"][:1]}

    async with StubExtender(filter=slow_filter) as stub:
        async with running_scheduler(cluster.access, extenders=[configured(stub, httpTimeout="30s")]) as scheduler:
            await cluster.create(pod("web"))
            await asked.wait()
            taken = stub.questions("filter")[0]["NodeNames"][0]
            await cluster.client.delete(NODE, taken)
            await cluster.create(pod("gone"), pod("stays"))
            await cluster.delete("gone")
            assert scheduler.state.nodes.live.sum() == 2, "the state does not change"
            answer.set()
            (left,) = {"node-0", "node-1"} - {taken}
            await on_node(cluster, "web", left)
            await on_node(cluster, "stays", left)
        assert {question["Pod"]["metadata"]["name"] for question in stub.questions("filter")} == {"web", "stays"}


@cases("ignorable", {"ignorable": True, "not ignorable": False})
async def test_failing_extender(cluster, ignorable):
    await cluster.add_nodes(2)
    async with (
        StubExtender(filter=500) as stub,
        running_scheduler(cluster.access, extenders=[configured(stub, ignorable=ignorable)]),
    ):
        await cluster.create(*pods("web", 5))
        if not ignorable:
            await cluster.observer.until(lambda: cluster.observer.events_of("default/web-0004", "FailedScheduling"))
            note = cluster.observer.events_of("default/web-0004", "FailedScheduling")[0]["note"]
            assert note == f"failed filter with extender at URL {stub.url}/filter, code 500"
            assert not any(cluster.observer.node_of(f"default/web-000{n}") for n in range(5))
            stub.answers |= EVERYTHING
        await cluster.observer.until(lambda: all(cluster.observer.node_of(f"default/web-000{n}") for n in range(5)))
