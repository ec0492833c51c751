"""Tools are the questions, with the same answers; they only read, and what they can't answer is said in one line."""

import json
import shlex
import threading

import msgspec
import pytest
from jsonschema import Draft202012Validator
from mcp import MCPError
from tests.support.asked_questions import ASKED
from tests.support.assistants import assistant, called, refused
from tests.support.served_questions import node, pod, small_cluster
from tests.support.waiting import PATIENCE, without_end

from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.answers.snapshots.rights import FOLLOWED
from bayplan.core.api.kinds import LEASE
from bayplan.faces.asking.sources import ClusterSource
from bayplan.faces.assistants import tools
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import make_client


def in_python(name, parameters):
    question = msgspec.convert(parameters, QUESTIONS[name])
    insight = Insight(Snapshot.of(small_cluster(), source="file cluster.yaml"))
    return json.loads(json.dumps(question.ask(insight).to_dict())), question.command()


async def test_tools_are_the_questions_with_their_parameters():
    async with assistant() as client:
        listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == list(QUESTIONS)
    for tool in listed:
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"
        assert tool.description == QUESTIONS[tool.name].__doc__
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (True, False, False)
    schemas = {tool.name: Draft202012Validator(tool.input_schema) for tool in listed}
    for name, parameters in ASKED.values():
        schemas[name].validate(parameters)
        assert not schemas[name].is_valid({**parameters, "other": 1})


async def test_answers_are_those_of_python_with_the_command():
    async with assistant(*small_cluster()) as client:
        for name, parameters in ASKED.values():
            said, answer = await called(client, name, **parameters)
            expected, command = in_python(name, parameters)
            assert answer == expected, name
            assert f"`{shlex.join(command)}`" in said
            assert tools.DATA in said


async def test_answer_is_the_text_of_the_command_where_it_is_short():
    async with assistant(*small_cluster()) as client:
        for name, parameters in ASKED.values():
            result = await client.call_tool(name, parameters)
            insight = Insight(Snapshot.of(small_cluster(), source="file cluster.yaml"))
            assert result.content[1].text == msgspec.convert(parameters, QUESTIONS[name]).ask(insight).text()
        result = await client.call_tool("what-if", {"addNodes": ["1xlike:node-b1"]})
        assert result.content[1].text.startswith(
            "no pod changes; 2 pods pending afterwards\nif you add 1 node like node-b1\n"
        )
        assert "expected text, json or brief" in await refused(client, "usage", output="yaml")


async def test_no_cause_of_pending_pods_is_cut():
    """16 causes of 60 pods each, on 40 nodes, each with a message of its own."""
    nodes = [node(f"node-{number}") for number in range(40)]
    pods = [
        pod(f"kind{kind}-{number}", "9", schedulingGates=[{"name": f"example.com/{'g' * 40}-{kind}"}])
        for kind in range(16)
        for number in range(60)
    ]
    async with assistant(*nodes, *pods) as client:
        result = await client.call_tool("explain-pending", {})
        _, answer = await called(client, "explain-pending")
    for kind in range(16):
        assert f"default/kind{kind}-0" in result.content[1].text
    assert len(answer["causes"]) == 16


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_generations_of_the_protocol_get_instructions_and_answers(mode):
    async with assistant(*small_cluster(), mode=mode) as client:
        assert "only read" in client.instructions
        assert "file cluster.yaml" in client.instructions
        assert (await called(client, "explain", pod="big-0"))[1]["outcome"] == "pending"


async def test_progress_is_told_while_a_question_is_asked(monkeypatch):
    monkeypatch.setattr("bayplan.faces.asking.replies.PAUSE", 0.001)
    usage = Insight.explain_all

    heard = threading.Event()

    def slow(self, *arguments, progress, **options):
        for number in range(3):
            progress(f"step {number}")
            heard.wait(PATIENCE)
        return usage(self, *arguments, progress=progress, **options)

    monkeypatch.setattr(Insight, "explain_all", slow)
    told = []

    async def tell(done, _, text):
        told.append((done, text))
        heard.set()

    async with assistant(*small_cluster(), mode="legacy") as client:
        await client.call_tool("explain-pending", {}, progress_callback=tell)
    assert (1, "step 0") in told
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("explain", {"pod": "nowhere/web"}, "there is no pod nowhere/web in file cluster.yaml"),
        ("explain", {}, "the arguments: Object missing required field `pod`"),
        ("explain", {"pod": 1}, "the arguments: Expected `str`, got `int` - at `$.pod`"),
        ("explain", {"pod": "a", "nod": "b"}, "the arguments: Object contains unknown field `nod`"),
        ("fit", {"objects": [{"kind": "Pod"}]}, "object 1"),
        ("drain", {}, "expected the names of nodes, or a selector"),
        ("what-if", {"addNodes": ["9999999xlike:node-a1"]}, "the limit of nodes is 5,000"),
    ],
)
async def test_what_cannot_be_answered_is_one_line_for_the_model(name, arguments, message):
    async with assistant(*small_cluster()) as client:
        found = await refused(client, name, **arguments)
    assert message in found
    assert "\n" not in found


async def test_unknown_tool_names_those_that_exist():
    async with assistant() as client:
        with pytest.raises(MCPError, match="there is no tool 'delete'; there is doctor, explain, "):
            await client.call_tool("delete", {})


async def test_long_question_and_fault_are_said_and_others_are_answered(monkeypatch, caplog):
    def explain_all(self, *_, progress, **__):
        without_end(progress, "explaining")

    def usage(*_, **__):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Insight, "explain_all", explain_all)
    monkeypatch.setattr(Insight, "usage", usage)
    async with assistant(*small_cluster(), longest=0.5) as client:
        assert "longer than 0.5 s" in await refused(client, "explain-pending")
        assert await refused(client, "usage") == "the request failed; the server's log says why"
        assert (await called(client, "explain", pod="big-0"))[1]["outcome"] == "pending"
    assert "ZeroDivisionError" in caplog.text


async def test_live_cluster_is_only_read():
    """The API server counts the requests that could write; Secrets and ConfigMaps are not read either."""
    api = make_client(make_node("a"), make_pod("web"), make_pod("big", requests={"cpu": "900"}))
    async with assistant(source=ClusterSource(api, "the cluster")) as client:
        assert (await called(client, "explain", pod="big"))[1]["outcome"] == "pending"
        for name, parameters in ASKED.values():
            await client.call_tool(name, parameters)
    sent = [request.info for request in api.transport.requests]
    assert {info.verb for info in sent} == {"list", "watch"}
    assert {info.resource for info in sent} == {kind.plural for kind in (*FOLLOWED, LEASE)}
