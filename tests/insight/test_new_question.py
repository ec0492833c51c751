"""A new question is one file, with its struct and its answer, and its line in the list: all faces have it then."""

import json
import sys

import click
import pytest
from click.testing import CliRunner
from tests.support.assistants import assistant, called, refused
from tests.support.served_questions import served_objects, small_cluster

from bayplan.answers.insight.question_list import LISTED, ListedQuestion
from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.faces.cli import main
from bayplan.insight import Insight, QuestionError, Snapshot

FILE = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

from bayplan.answers.insight.answers import Answer, QuestionError, silent
from bayplan.answers.insight.question_parameters import AnyNamespace, Meta, Option, Question, Spoken
from bayplan.core.api.kinds import POD


@dataclass(frozen=True)
class Tenants(Answer):
    """The namespaces of pods, with the number of pods."""

    tenants: dict[str, int]

    def rows(self):
        return [{"tenant": tenant, "pods": pods} for tenant, pods in self.tenants.items()]

    def render(self, *, wide=False):
        return "".join(f"{each['tenant']}: {each['pods']} pods\\n" for each in self.rows())


class AskTenants(Question, frozen=True, kw_only=True):
    """Return whose pods run on a node."""

    name: ClassVar[str] = "tenants"
    spoken = Spoken(help="Show whose pods run on a node.")
    example = {"nodeName": "node-a1"}
    node_name: Annotated[str, Meta(description="The name of a node."), Option("--node")]
    namespace: AnyNamespace | None = None

    def ask(self, insight, progress=silent, shown=20) -> Tenants:
        insight.world.reset()
        if self.node_name not in insight.nodes():
            raise QuestionError(f"there is no node {self.node_name}")
        found = {}
        for pod in insight.world.state.objects[POD].values():
            if pod.node_name == self.node_name and self.namespace in {None, pod.namespace}:
                found[pod.namespace] = found.get(pod.namespace, 0) + 1
        return Tenants(found)
'''
SUMMARY = "Show whose pods run."
ANSWER = {"tenants": {"default": 1}}


@pytest.fixture
def new_question(tmp_path, monkeypatch):
    """The file, and the line."""
    (tmp_path / "asked_tenants.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(LISTED, "tenants", ListedQuestion("asked_tenants:AskTenants", SUMMARY))
    monkeypatch.delitem(sys.modules, "asked_tenants", raising=False)
    yield
    sys.modules.pop("asked_tenants", None)


@pytest.fixture
def cluster_file(tmp_path):
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    return str(file)


pytestmark = pytest.mark.usefixtures("new_question")


def test_the_help_has_its_line_without_importing_it():
    shown = CliRunner().invoke(main, ["--help"]).output
    assert SUMMARY in shown
    assert "asked_tenants" not in sys.modules


def test_it_has_a_command(cluster_file):
    asked = ["tenants", "--node", "node-a1", "--from", cluster_file]
    assert CliRunner().invoke(main, asked).output == "default: 1 pods\n"
    assert json.loads(CliRunner().invoke(main, [*asked, "-o", "json"]).output) == ANSWER
    missing = CliRunner().invoke(main, ["tenants", "--node", "none", "--from", cluster_file])
    assert (missing.exit_code, "there is no node none" in missing.output) == (2, True)
    command = main.get_command(click.Context(main), "tenants")
    assert {"node_name", "namespace"} <= {parameter.name for parameter in command.params}


async def test_it_is_an_operation_of_the_server_and_in_its_document():
    async with served_objects(*small_cluster()) as client:
        assert await client.ask("tenants", nodeName="node-a1") == ANSWER
        assert await client.ask("tenants", nodeName="none", status=422) == {"error": "there is no node none"}
        document = await client.call("GET", "/openapi.json")
    assert {"/v1/questions/tenants", "/v1/transactions/{id}/questions/tenants"} <= set(document["paths"])
    schema = document["components"]["schemas"]["AskTenants"]
    assert schema["required"] == ["nodeName"]
    assert schema["properties"]["nodeName"]["description"] == "The name of a node."


async def test_it_is_a_tool_for_assistants():
    async with assistant(*small_cluster()) as client:
        (tool,) = [each for each in (await client.list_tools()).tools if each.name == "tenants"]
        said, answer = await called(client, "tenants", nodeName="node-a1")
        assert await refused(client, "tenants", nodeName="none") == "there is no node none"
    assert tool.description == "Return whose pods run on a node."
    assert "`bayplan tenants --node node-a1`" in said
    assert answer == ANSWER


def test_it_is_asked_in_python():
    insight = Insight(Snapshot.of(small_cluster()))
    assert insight.ask("tenants", node_name="node-a1").to_dict() == ANSWER
    assert insight.ask("tenants", node_name="node-b1", namespace="shop").to_dict() == {"tenants": {}}


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("tenant", {}, "there is no question tenant; there is doctor, explain"),
        ("tenants", {}, "tenants: Object missing required field `nodeName`"),
        ("tenants", {"node_name": 1}, "tenants: Expected `str`, got `int` - at `$.nodeName`"),
        ("tenants", {"node": "a"}, "tenants: Object contains unknown field `node`"),
    ],
)
def test_what_cannot_be_asked_is_one_error(name, parameters, message):
    with pytest.raises(QuestionError) as raised:
        Insight(Snapshot.of(small_cluster())).ask(name, **parameters)
    assert str(raised.value).startswith(message)


def test_the_list_has_the_names_of_the_structs():
    assert {name: QUESTIONS[name].name for name in QUESTIONS} == {name: name for name in LISTED}
