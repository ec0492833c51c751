"""The client for extenders: which ones it calls, how it interprets responses, and how it handles errors."""

import asyncio
import json

import numpy as np
import pytest
from tests.extender.stub_extender import HANG_UP, NEVER, StubExtender
from tests.support.tables import cases

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config.types import Extender, ExtenderManagedResource
from bayplan.core.framework.extenders import ExtenderError, ExtenderFilter, ExtenderPreempt, ExtenderScore, Filtered
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.status import Status
from bayplan.running.extender.client import HttpExtenders
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("HTTP extenders: questions and answers")

POD = make_pod("p")
RESULT = {"NodeNames": ["b", "c"]}


@pytest.fixture
def cluster():
    return make_cluster(*map(make_node, "abc"), *(make_pod(f"on-{name}", node=name) for name in "abc"))


def configured(stub, **fields):
    verbs = {f"{verb}Verb": verb for verb in stub.answers}
    return Extender(urlPrefix=f"{stub.url}/", **({"weight": 1, "nodeCacheCapable": True} | verbs | fields))


async def asked(question, *extenders):
    async with HttpExtenders(extenders) as client, asyncio.timeout(10):
        return await client.answer(question)


def filtering(cluster, pod=POD):
    return ExtenderFilter(pod, cluster.state.nodes.at(np.arange(3)))


def scoring(cluster, pod=POD):
    return ExtenderScore(pod, cluster.state.nodes.at(np.arange(3)))


def preempting(cluster, pod=POD):
    nodes = cluster.state.nodes
    candidates = tuple(Candidate(nodes.name(at), tuple(nodes.pods(at)), at) for at in range(2))
    return ExtenderPreempt(pod, candidates, nodes)


def named(*names):
    return {"items": [{"metadata": {"name": name}} for name in names]}


def no(why="no"):
    return Status.unschedulable(why)


def never(why="never"):
    return Status.unresolvable(why)


@pytest.mark.parametrize(
    ("fields", "answer", "left", "refused"),
    [
        pytest.param({}, RESULT, "bc", {}, id="names"),
        pytest.param({}, {"nodenames": ["b"], "else": 1}, "b", {}, id="names in another case and unknown fields"),
        pytest.param({}, {"NodeNames": ["c", "a"]}, "ca", {}, id="in another order"),
        pytest.param({}, {"NodeNames": []}, "", {}, id="no nodes"),
        pytest.param({}, {"NodeNames": ["b", "b"]}, "b", {}, id="duplicates"),
        pytest.param({}, {}, "", {}, id="an empty result means no nodes"),
        pytest.param({}, b"null", "", {}, id="null means no nodes"),
        pytest.param({}, {"NodeNames": None, "Nodes": named("a")}, "a", {}, id="nodes in response to names"),
        pytest.param(
            {}, {"NodeNames": ["b"], "Nodes": named("a")}, "b", {}, id="names override nodes in response to names"
        ),
        pytest.param({"nodeCacheCapable": False}, {"Nodes": named("a", "c")}, "ac", {}, id="nodes"),
        pytest.param({"nodeCacheCapable": False}, {"Nodes": {"items": None}}, "", {}, id="no nodes"),
        pytest.param({"nodeCacheCapable": False}, RESULT, "", {}, id="names in response to nodes are ignored"),
        pytest.param(
            {},
            {**RESULT, "FailedNodes": {"a": "no", "x": "?"}, "FailedAndUnresolvableNodes": {"y": "never"}},
            "bc",
            {"a": no(), "x": no("?"), "y": never()},
            id="reasons",
        ),
        pytest.param(
            {},
            {"FailedNodes": {"a": "no", "b": "no"}, "FailedAndUnresolvableNodes": {"a": "never"}},
            "",
            {"a": never(), "b": no()},
            id="unresolvable overrides failed",
        ),
        pytest.param({"filterVerb": ""}, 500, "abc", {}, id="an extender that does not filter"),
    ],
)
async def test_filter(cluster, fields, answer, left, refused):
    async with StubExtender(filter=answer) as stub:
        result = await asked(filtering(cluster), configured(stub, **fields))
    assert isinstance(result, Filtered)
    assert (list(result.feasible), result.rejected) == (list(left), refused)


FAILURES = [
    pytest.param(500, "failed {verb} with extender at URL {url}/{verb}, code 500", id="500"),
    pytest.param(204, "failed {verb} with extender at URL {url}/{verb}, code 204", id="another status than 200"),
    pytest.param(HANG_UP, "extender at URL {url}/{verb}: it closed the connection", id="closed connection"),
    pytest.param(NEVER, "extender at URL {url}/{verb}: no response within 0.2 s", id="timeout"),
    pytest.param(b"<html>", "extender at URL {url}/{verb}: invalid response: not JSON", id="not JSON"),
    pytest.param(b"", "extender at URL {url}/{verb}: invalid response", id="empty body"),
    pytest.param(b'"yes"', "extender at URL {url}/{verb}: invalid response: body: Expected", id="another JSON type"),
]


def in_trouble(message, stub, verb):
    return message.format(verb=verb, url=stub.url)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        *FAILURES,
        pytest.param({"NodeNames": ["b"], "Error": "out of order"}, "out of order", id="an error in the result"),
        pytest.param(
            {"NodeNames": ["z"]},
            'extender "{url}" claims a filtered node "z" which is not found in the input node list',
            id="an unknown node name",
        ),
        pytest.param(
            {"Nodes": named("z")},
            'extender "{url}" claims a filtered node "z" which is not found in the input node list',
            id="an unknown whole node",
        ),
        pytest.param({"Nodes": {"items": [7]}}, "{url}: invalid node in the response", id="an invalid node"),
        pytest.param({"NodeNames": "b"}, "{url}/filter: invalid response: NodeNames", id="not a list"),
    ],
)
async def test_a_failed_filter_fails_the_attempt_unless_the_extender_is_ignorable(cluster, caplog, answer, message):
    async with StubExtender(filter=answer) as stub, StubExtender(filter=RESULT) as other:
        failing = configured(stub, httpTimeout="200ms")
        with pytest.raises(ExtenderError) as caught:
            await asked(filtering(cluster), failing, configured(other))
        assert in_trouble(message, stub, "filter") in str(caught.value)
        assert other.asked == []
        failing.ignorable = True
        result = await asked(filtering(cluster), failing, configured(other))
        assert list(result.feasible) == ["b", "c"]
        assert other.questions("filter")[0]["NodeNames"] == ["a", "b", "c"]
    assert f"ignoring extender {stub.url} in filter" in caplog.text


async def test_an_extender_that_cannot_be_reached(cluster):
    async with StubExtender(filter=RESULT) as stub:
        extender = configured(stub)
    with pytest.raises(ExtenderError, match=r"extender at URL http://.*/filter: cannot be reached: "):
        await asked(filtering(cluster), extender)


async def test_each_extender_gets_the_remaining_nodes_and_ignorable_ones_come_last(cluster):
    async with (
        StubExtender(filter={"NodeNames": ["c"], "FailedNodes": {"b": "last"}}) as ignorable,
        StubExtender(filter={"NodeNames": ["c", "b"], "FailedNodes": {"a": "first"}}) as first,
        StubExtender(filter={"Nodes": named("b", "c")}) as second,
    ):
        result = await asked(
            filtering(cluster),
            configured(ignorable, ignorable=True),
            configured(first),
            configured(second, nodeCacheCapable=False),
        )
    assert first.questions("filter")[0]["NodeNames"] == ["a", "b", "c"]
    sent = second.questions("filter")[0]["Nodes"]["items"]
    assert [node["metadata"]["name"] for node in sent] == ["c", "b"]
    assert ignorable.questions("filter")[0]["NodeNames"] == ["b", "c"]
    assert list(result.feasible) == ["c"]
    assert result.rejected == {"a": no("first"), "b": no("last")}


async def test_extenders_are_not_called_without_nodes(cluster):
    async with StubExtender(filter={"NodeNames": []}) as first, StubExtender(filter=RESULT) as second:
        result = await asked(filtering(cluster), configured(first), configured(second))
    assert (list(result.feasible), second.asked) == ([], [])


@cases(
    "answer, weight, scores",
    {
        "scaled": ([{"Host": "a", "Score": 3}, {"Host": "b", "Score": 10}], 1, {"a": 30, "b": 100}),
        "weighted": ([{"Host": "a", "Score": 3}], 7, {"a": 210}),
        "another case and empty fields": ([{"host": "a", "score": 1}, {}], 1, {"a": 10, "": 0}),
        "an unknown node": ([{"Host": "z", "Score": 1}], 1, {"z": 10}),
        "duplicates are added": ([{"Host": "a", "Score": 1}, {"Host": "a", "Score": 2}], 1, {"a": 30}),
        "below 0": ([{"Host": "a", "Score": -5}], 1, {"a": -50}),
        "above 10": ([{"Host": "a", "Score": 1000}], 1, {"a": 10000}),
        "overflow of int64": ([{"Host": "a", "Score": 2**62}], 1, {"a": -(2**63)}),
        "beyond int64": ([{"Host": "a", "Score": 2**63}], 1, {}),
        "a fraction": ([{"Host": "a", "Score": 1.5}], 1, {}),
        "none": ([], 1, {}),
        "null": (b"null", 1, {}),
    },
)
async def test_prioritize(cluster, answer, weight, scores):
    async with StubExtender(prioritize=answer) as stub:
        assert await asked(scoring(cluster), configured(stub, weight=weight)) == scores


@pytest.mark.parametrize(("answer", "message"), FAILURES)
async def test_a_failed_prioritize_adds_nothing(cluster, caplog, answer, message):
    async with StubExtender(prioritize=answer) as stub, StubExtender(prioritize=[{"Host": "a", "Score": 1}]) as other:
        extenders = configured(stub, httpTimeout="200ms"), configured(other)
        assert await asked(scoring(cluster), *extenders) == {"a": 10}
    assert in_trouble(message, stub, "prioritize") in caplog.text


async def test_prioritize_calls_all_extenders_concurrently(cluster):
    together = asyncio.Barrier(3)

    async def answer(question):
        await together.wait()
        return [{"Host": question["NodeNames"][0], "Score": 2}]

    async with StubExtender(prioritize=answer) as one, StubExtender(prioritize=answer) as other:
        asking = asyncio.create_task(asked(scoring(cluster), configured(one), configured(other, weight=3)))
        await together.wait()
        assert await asking == {"a": 80}


@cases(
    "answer, left",
    {
        "one of them": ({"b": {"Pods": [{"UID": "default-on-b"}], "NumPDBViolations": 1}}, [("b", ["on-b"], 1)]),
        "in the order of the response": (
            {"b": {"Pods": [{"UID": "default-on-b"}]}, "a": {"Pods": [{"UID": "default-on-a"}]}},
            [("b", ["on-b"], 0), ("a", ["on-a"], 0)],
        ),
        "another node": ({"c": {"Pods": [{"UID": "default-on-c"}]}}, [("c", ["on-c"], 0)]),
        "none": ({}, []),
        "null": (None, []),
    },
)
async def test_preempt(cluster, answer, left):
    async with StubExtender(preempt={"NodeNameToMetaVictims": answer}) as stub:
        result = await asked(preempting(cluster), configured(stub))
    assert [(each.node_name, [pod.name for pod in each.victims], each.violations) for each in result] == left


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        *FAILURES,
        pytest.param(
            {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "ghost"}]}}},
            "extender: {url} claims to preempt pod (UID: ghost) on node: a, but the pod is not found on that node",
            id="an unknown pod",
        ),
        pytest.param(
            {"NodeNameToMetaVictims": {"z": {"Pods": []}}},
            'extender {url} wants to preempt on node "z", which does not exist',
            id="an unknown node",
        ),
    ],
)
async def test_a_failed_preempt(cluster, answer, message):
    question = preempting(cluster)
    async with StubExtender(preempt=answer) as stub:
        failing = configured(stub, httpTimeout="200ms")
        with pytest.raises(ExtenderError) as caught:
            await asked(question, failing)
        assert in_trouble(message, stub, "preempt") in str(caught.value)
        failing.ignorable = True
        assert await asked(question, failing) == question.candidates


@cases("victims", {"empty": {"Pods": []}, "null": {"Pods": None}, "nothing": None})
async def test_a_candidate_without_victims(cluster, victims):
    question = preempting(cluster)
    kept = {"Pods": [{"UID": question.candidates[1].victims[0].uid}]}
    async with StubExtender(preempt={"NodeNameToMetaVictims": {"a": victims, "b": kept}}) as stub:
        with pytest.raises(ExtenderError, match='expected at least one victim pod on node "a"'):
            await asked(question, configured(stub))
        left = await asked(question, configured(stub, ignorable=True))
    assert [each.node_name for each in left] == ["b"]


async def test_each_extender_gets_the_remaining_candidates(cluster):
    question = preempting(cluster)
    kept = {"b": {"Pods": [{"UID": question.candidates[1].victims[0].uid}], "NumPDBViolations": 0}}
    async with (
        StubExtender(preempt={"NodeNameToMetaVictims": kept}) as first,
        StubExtender(preempt={}) as second,
        StubExtender(preempt={}) as third,
    ):
        left = await asked(question, configured(first), configured(second), configured(third))
    assert second.questions("preempt")[0]["NodeNameToMetaVictims"] == kept
    assert (left, third.asked) == ((), [])


async def test_bind():
    async with StubExtender(bind={}) as stub, HttpExtenders([configured(stub)]) as client:
        assert await client.bind(POD, "a")
    uid = POD.uid
    assert stub.asked == [("bind", {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "a"})]


@pytest.mark.parametrize(
    ("answer", "message"),
    [*FAILURES, pytest.param({"Error": "out of order"}, "out of order", id="an error in the result")],
)
async def test_a_failed_bind_is_not_retried(answer, message):
    async with StubExtender(bind=answer) as stub:
        failing = configured(stub, httpTimeout="200ms")
        async with HttpExtenders([failing]) as client:
            with pytest.raises(ExtenderError) as caught:
                await client.bind(POD, "a")
        assert in_trouble(message, stub, "bind") in str(caught.value)
        assert stub.verbs() == ["bind"]
        failing.ignorable = True
        async with HttpExtenders([failing]) as client:
            assert not await client.bind(POD, "a"), "the Bind plugins bind it"


MINE = [ExtenderManagedResource(name="example.com/gpu")]


def wanting(**resources):
    return make_pod("p", spec={"containers": [{"name": "c", "resources": resources}]})


@cases(
    "pod, interested",
    {
        "no managed resource": (make_pod("p", cpu="1"), False),
        "requests": (wanting(requests={"example.com/gpu": "1"}), True),
        "limits": (wanting(limits={"example.com/gpu": "1"}), True),
        "another resource": (wanting(requests={"example.com/other": "1"}), False),
        "in an init container": (
            make_pod("p", spec={"initContainers": [{"name": "i", "resources": {"limits": {"example.com/gpu": "1"}}}]}),
            True,
        ),
    },
)
async def test_managed_resources(cluster, pod, interested):
    async with StubExtender(filter=RESULT, prioritize=[], preempt={}, bind={}) as stub:
        extender = configured(stub, managedResources=MINE)
        for question in (filtering, scoring, preempting):
            await asked(question(cluster, pod), extender)
        async with HttpExtenders([extender]) as client:
            assert client.are_asked(pod) is interested
            assert await client.bind(pod, "a") is interested
    assert len(stub.asked) == (4 if interested else 0)


@cases(
    "fields, are_asked, want_nodes",
    {
        "filter": ({"filterVerb": "f"}, True, True),
        "prioritize": ({"prioritizeVerb": "p"}, True, True),
        "filter with nodeCacheCapable": ({"filterVerb": "f", "nodeCacheCapable": True}, True, False),
        "preempt": ({"preemptVerb": "p"}, True, False),
        "bind": ({"bindVerb": "b"}, False, False),
    },
)
def test_which_extenders_a_cycle_needs(fields, are_asked, want_nodes):
    client = HttpExtenders([Extender(urlPrefix="http://127.0.0.1:1", **fields)])
    assert (client.are_asked(POD), client.want_nodes) == (are_asked, want_nodes)


async def test_connections_are_reused_and_broken_ones_replaced(cluster):
    answers = RESULT, RESULT, HANG_UP, RESULT
    async with StubExtender(filter=answers) as stub, HttpExtenders([configured(stub)]) as client:
        for _ in range(3):
            assert list((await client.answer(filtering(cluster))).feasible) == ["b", "c"]
    assert stub.verbs() == ["filter"] * 4, "a filter request is repeated on a new connection"
    assert len(stub.connections) == 2


async def test_an_error_is_logged_once_until_the_extender_works_again(cluster, caplog):
    answers = 500, 500, [], 500
    async with StubExtender(prioritize=answers) as stub, HttpExtenders([configured(stub)]) as client:
        for _ in range(4):
            await client.answer(scoring(cluster))
    messages = [record.message.partition(stub.url)[2] for record in caplog.records if record.levelname == "WARNING"]
    assert [text.partition(":")[0] for text in messages] == [
        " in prioritize",
        " works again in prioritize",
        " in prioritize",
    ]


async def test_whole_objects_are_sent_with_unknown_fields():
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "uid": "u", "managedFields": [{"manager": "m"}], "new": 1},
        "spec": {"containers": [{"name": "c", "new": [None]}], "new": {}},
        "new": "yes",
    }
    pod = PodInfo.from_raw(json.dumps(document).encode())
    cluster = make_cluster()
    for name in "ab":
        node = make_node(name)
        cluster.state.set_node(node, json.dumps({"metadata": {"name": name}, "new": name}).encode())
    victim = cluster.state.assume(pod, "a")
    expected = {key: value for key, value in document.items() if key not in {"kind", "apiVersion"}}
    expected["metadata"] = {"name": "p", "uid": "u", "new": 1}
    placed = {**expected, "spec": {**expected["spec"], "nodeName": "a"}}
    question = ExtenderPreempt(pod, (Candidate("a", (victim,), 0),), cluster.state.nodes)
    async with StubExtender(filter=RESULT, preempt={}) as stub:
        extender = configured(stub, nodeCacheCapable=False, ignorable=True)
        await asked(ExtenderFilter(pod, cluster.state.nodes.at(np.arange(2))), extender)
        await asked(question, extender)
    items = [{"metadata": {"name": name}, "new": name} for name in "ab"]
    assert stub.asked == [
        ("filter", {"Pod": expected, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}),
        (
            "preempt",
            {
                "Pod": expected,
                "NodeNameToVictims": {"a": {"Pods": [placed], "NumPDBViolations": 0}},
                "NodeNameToMetaVictims": None,
            },
        ),
    ]
