"""compare over HTTP and for assistants: the answer of `bayplan compare`, about the history that the server has."""

import json
import shutil

import msgspec
import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.backtest.histories import pool_node, record
from tests.simulation.timelines import OWNED
from tests.support.asked_questions import CONFIGURATION
from tests.support.assistants import assistant, called, refused
from tests.support.commands import bayplan
from tests.support.served_questions import served_objects, small_cluster
from tests.support.waiting import without_end

from bayplan.answers.backtest.questions import history_questions
from bayplan.answers.simulation.happenings import PodArrives
from bayplan.faces.asking.replies import LINES
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_pod

PACK = "NodeResourcesFit.scoringStrategy.type=MostAllocated"
POOL = "name=big,cpu=16,memory=64Gi,type=big,price=0.5,replaces=pool"
ASKED = {
    "a setting": {"settings": [PACK]},
    "a configuration": {"configuration": CONFIGURATION, "prices": {"m5.xlarge": 0.2}},
    "node pools": {"nodePools": [POOL], "autoscaler": "cluster-autoscaler", "prices": {"m5.xlarge": 0.2}},
    "an autoscaler": {"candidateAutoscaler": "karpenter", "models": {"pods": {"startupSeconds": 9}}, "seed": 3},
    "a version": {"candidateEmulatedVersion": "1.37"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A history of four nodes and eight pods."""
    pods = [PodArrives(60.0 + n, make_pod(f"web-{n}", cpu="1", memory="1Gi", owner=OWNED)) for n in range(8)]
    nodes = [pool_node(f"n{n}", zone="ab"[n % 2]) for n in range(4)]
    return str(record(tmp_path_factory.mktemp("histories") / "week", pods, seconds=3600.0, nodes=nodes))


@pytest.mark.parametrize("case", ASKED)
async def test_http_and_assistants_give_the_answer_of_the_command(case, folder, tmp_path, monkeypatch):
    parameters = ASKED[case]
    monkeypatch.chdir(tmp_path)
    files = {
        "configuration.yaml": parameters.get("configuration"),
        "prices.yaml": parameters.get("prices"),
        "models.yaml": parameters.get("models"),
    }
    for name, document in files.items():
        (tmp_path / name).write_text(yaml.safe_dump(document))
    question = msgspec.convert(parameters, history_questions(folder)["compare"])
    done = bayplan(*question.command()[1:], "-o", "json")
    expected = json.loads(done.stdout.replace("prices.yaml:", "prices:"))
    async with served_objects(*small_cluster(), history=folder) as client:
        assert await client.ask("compare", **parameters) == expected
    async with assistant(*small_cluster(), history=folder) as client:
        said, short = await called(client, "compare", **parameters)
    assert short["calibration"] == expected["calibration"]
    assert f"bayplan compare {'--set' if case == 'a setting' else '--'}" in said


async def test_openapi_document_has_it_only_with_a_history(folder):
    async with served_objects(*small_cluster(), history=folder) as client:
        document = await client.call("GET", "/openapi.json")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    operation = document["paths"]["/v1/questions/compare"]["post"]
    assert LINES in operation["responses"]["200"]["content"]
    async with served_objects(*small_cluster()) as client:
        assert "/v1/questions/compare" not in (await client.call("GET", "/openapi.json"))["paths"]
        await client.call("POST", "/v1/questions/compare", ASKED["a setting"], status=404)


async def test_progress_is_streamed_and_others_are_answered_meanwhile(folder, monkeypatch):
    monkeypatch.setattr("bayplan.faces.asking.replies.PAUSE", 0.0)

    def slow(*_, progress, **__):
        without_end(progress, "simulating, 7%")

    monkeypatch.setattr("bayplan.answers.backtest.questions.compare", slow)
    async with (
        served_objects(*small_cluster(), history=folder, longest=1.0) as client,
        client.send("POST", "/v1/questions/compare", ASKED["a setting"], Accept=LINES) as response,
    ):
        while json.loads(await response.content.readline()) != {"progress": "simulating, 7%"}:
            pass
        assert (await client.ask("explain", pod="big-0"))["outcome"] == "pending"
        last = [json.loads(line) async for line in response.content][-1]
    assert last["status"] == 504
    assert "longer than 1 s" in last["error"]


async def test_history_that_grows_is_read_again(folder, tmp_path):
    grown = tmp_path / "grown"
    shutil.copytree(folder, grown)
    async with served_objects(*small_cluster(), history=str(grown)) as client:
        first = await client.ask("compare", settings=[PACK])
        shutil.rmtree(grown)
        pods = [PodArrives(60.0, make_pod("api-0", cpu="1", owner=OWNED))]
        record(grown, pods, seconds=7200.0, nodes=[pool_node("n0")])
        second = await client.ask("compare", settings=[PACK])
    assert second["days"] == 2 * first["days"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {},
            "expected a candidate: settings, configuration, nodePools, objects, requests, scaleRequests, candidateAuto",
        ),
        ({"settings": ["X.y=1"]}, "--set X.y=1: there is no plugin X"),
        ({"nodePools": ["big"]}, "--node-pool big: 'big': expected name=NAME"),
        ({"settings": [PACK], "prices": {"big": -1}}, "prices: big: -1.0 is no price"),
        ({"candidateEmulatedVersion": "1.x"}, "candidateEmulatedVersion: "),
        ({"settings": [PACK], "models": {"x": 1}}, "models: Object contains unknown field `x`"),
        ({"configuration": {"kind": "Pod"}}, "configuration: "),
    ],
)
async def test_what_cannot_be_compared_is_one_line(folder, parameters, message):
    async with served_objects(*small_cluster(), history=folder) as client:
        found = await client.ask("compare", 422, **parameters)
    assert message in found["error"]
    async with assistant(*small_cluster(), history=folder) as client:
        assert message in await refused(client, "compare", **parameters)


def test_history_that_does_not_exist_is_one_message(tmp_path):
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    result = bayplan("serve", "--from", cluster, "--history", tmp_path / "none", status=2)
    assert str(tmp_path / "none") in result.stderr
    assert isinstance(result.exception, SystemExit)


async def test_now_is_the_scheduler_of_the_server(folder, monkeypatch):
    """Both sides of a comparison have its plugins."""
    seen = []
    compare = "bayplan.answers.backtest.questions.compare"

    def catch(_history, _ahead, now, candidate, **_):
        seen.extend((now.scheduler, candidate.scheduler))
        raise ZeroDivisionError

    monkeypatch.setattr(compare, catch)
    question = msgspec.convert({"settings": [PACK]}, history_questions(folder)["compare"])
    insight = Insight(Snapshot())
    with pytest.raises(ZeroDivisionError):
        question.ask(insight)
    now, candidate = seen
    assert now.configuration is insight.configuration
    assert candidate.configuration is not None
    assert now.plugins is candidate.plugins is insight.plugins
