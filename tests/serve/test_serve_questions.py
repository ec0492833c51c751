"""Every question gets the same answer over HTTP, from the Python API, and from the command that a person would type."""

import json

import pytest
from click.testing import CliRunner
from tests.support.asked_questions import ASKED
from tests.support.served_questions import served_objects, small_cluster

from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.faces.asking.replies import LINES
from bayplan.faces.cli import main
from bayplan.insight import Insight, Snapshot

NAMES = {"a", "b"}
"""What a diff calls its two sides: a command uses the names of its files."""


def in_python(name, parameters):
    import msgspec

    insight = Insight(Snapshot.of(small_cluster(), source="file cluster.yaml"))
    question = msgspec.convert(parameters, QUESTIONS[name])
    return json.loads(json.dumps(question.ask(insight).to_dict())), question


async def test_every_question_is_asked_here():
    assert {name for name, _ in ASKED.values()} == set(QUESTIONS)


async def test_http_gives_the_answers_of_python():
    async with served_objects(*small_cluster()) as client:
        for name, parameters in ASKED.values():
            assert await client.ask(name, **parameters) == in_python(name, parameters)[0], name


@pytest.mark.parametrize("case", ASKED)
def test_the_command_gives_the_answer_of_python(case, tmp_path, monkeypatch):
    name, parameters = ASKED[case]
    answer, question = in_python(name, parameters)
    monkeypatch.chdir(tmp_path)
    kinds = parameters.get("kinds", [])
    files = {"cluster.yaml": list(small_cluster()), "before.yaml": parameters.get("before", [])}
    files |= {f"objects-{number}.yaml": kind["objects"] for number, kind in enumerate(kinds, start=1)}
    files["objects.yaml"] = kinds[0]["objects"] if len(kinds) == 1 else parameters.get("objects", [])
    for file, objects in files.items():
        (tmp_path / file).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    (tmp_path / "prices.yaml").write_text(json.dumps(parameters.get("prices")))
    for kind in ("durations", "models"):
        (tmp_path / f"{kind}.yaml").write_text(json.dumps(parameters.get(kind)))
    (tmp_path / "recommendations.yaml").write_text(json.dumps(parameters.get("requests")))
    (tmp_path / "configuration.yaml").write_text(json.dumps(parameters.get("configuration")))
    _, *arguments = question.command()
    source = ["cluster.yaml"] if "before.yaml" in arguments else ["--from", "cluster.yaml"]
    result = CliRunner().invoke(main, [*arguments, *source, "-o", "json"])
    assert result.exit_code in {0, 1}, result.output
    found = json.loads(result.stdout)
    for each in found.get("findings", []):
        assert (each["file"], each["line"]) == ("objects.yaml", 1)  # which only the command knows
        each |= {"file": "", "line": 0}
    assert {key: found[key] for key in found.keys() - NAMES} == {key: answer[key] for key in answer.keys() - NAMES}


async def lines_of(response):
    return [json.loads(line) async for line in response.content]


async def test_progress_comes_as_lines_before_the_answer(monkeypatch):
    monkeypatch.setattr("bayplan.faces.asking.replies.PAUSE", 0.0)
    parameters = {"kinds": [{"objects": ASKED["capacity"][1]["kinds"][0]["objects"]}]}
    async with served_objects(*small_cluster()) as client:
        answer = await client.ask("capacity", **parameters, most=3)
        async with client.send("POST", "/v1/questions/explain-pending", {}, Accept=LINES) as response:
            assert response.content_type == LINES
            *progress, last = await lines_of(response)
        async with client.send("POST", "/v1/questions/capacity", {**parameters, "most": 3}, Accept=LINES) as response:
            assert (await lines_of(response))[-1] == {"answer": answer}
        async with client.send("POST", "/v1/questions/explain", {"pod": "none"}, Accept=LINES) as response:
            assert await lines_of(response) == [
                {"error": "there is no pod default/none in file cluster.yaml", "status": 422}
            ]
    assert last["answer"]["pending"] == 2
    assert all(set(line) == {"progress"} for line in progress)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("scale-up", {"prices": {"big": -1}}, 422, "prices: big: -1.0 is no price: expected dollars for an hour"),
        ("explain", {"pod": "nowhere/web"}, 422, "there is no pod nowhere/web in file cluster.yaml"),
        ("explain", {}, 400, "the body: Object missing required field `pod`"),
        ("explain", {"pod": 1}, 400, "the body: Expected `str`, got `int` - at `$.pod`"),
        ("explain", {"pod": "a", "nod": "b"}, 400, "the body: Object contains unknown field `nod`"),
        ("explain-pending", {"selector": "a b"}, 422, "selector 'a b': "),
        ("explain-workload", {"workload": "web"}, 400, "the body: Expected `str` matching regex"),
        ("fit", {"objects": [{"kind": "Pod"}]}, 422, "object 1"),
        ("fit", {"objects": [1]}, 400, "the body: Expected `object`, got `int` - at `$.objects[0]`"),
        ("drain", {}, 422, "expected the names of nodes, or a selector"),
        ("drain", {"selector": "a=b"}, 422, "no node has the labels a=b"),
        ("what-if", {}, 422, "expected at least one change"),
        ("what-if", {"addNodes": ["9999999xlike:node-a1"]}, 422, "the limit of nodes is 5,000"),
        ("what-if", {"configuration": {"kind": 1}}, 422, "configuration: "),
        ("diff", {}, 422, "before, objects and configuration: expected one of them"),
        ("diff", {"before": [{}]}, 422, "before: object 1"),
        ("balance", {"like": "web-0", "objects": [{}]}, 422, "like and objects: expected one of them"),
        ("none", {}, 404, "there is no /v1/questions/none; /openapi.json tells what there is"),
    ],
)
async def test_what_cannot_be_answered_is_one_line(path, body, status, message):
    async with served_objects(*small_cluster()) as client:
        found = await client.call("POST", f"/v1/questions/{path}", body, status)
    assert set(found) == {"error"}
    assert message in found["error"]
    assert "\n" not in found["error"]


async def test_answer_as_text_is_that_of_the_command():
    async with served_objects(*small_cluster()) as client:
        body = {"addNodes": ["1xlike:node-b1"]}
        async with client.send("POST", "/v1/questions/what-if", body, Accept="text/plain") as response:
            text = await response.text()
            assert response.content_type == "text/plain"
        found = await client.ask("what-if", **body)
    assert text.splitlines()[0] == "no pod changes; 2 pods pending afterwards"
    assert next(iter(found.items())) == ("summary", text.splitlines()[0])


async def test_texts_of_callers_are_quoted(caplog):
    async with served_objects(*small_cluster()) as client:
        found = await client.call("GET", "/v1/%0aerror:%20\u202ethe%20end", status=404)
    assert found["error"].startswith(r"there is no '/v1/\nerror: \u202ethe end'; ")
    assert "\u202e" not in caplog.text


async def test_other_methods_and_media_types_are_refused():
    async with served_objects(*small_cluster()) as client:
        found = await client.call("GET", "/v1/questions/fit", status=405)
        assert found == {"error": "/v1/questions/fit requires POST"}
        found = await client.call("POST", "/v1/questions/usage", {}, 415, Content_Type="text/plain")
        assert found == {"error": "Content-Type text/plain: expected application/json"}
        async with client.session.post(
            client.url + "/v1/questions/usage", data=b"\xff{", headers={"Authorization": f"Bearer {client.token}"}
        ) as response:
            assert response.status == 415  # aiohttp's default type
        for data in (b"\xff", b"{", b"[" * 100_000, b'{"objects":' + b"[" * 100_000):
            headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
            async with client.session.post(client.url + "/v1/questions/fit", data=data, headers=headers) as response:
                assert response.status == 400
                assert (await response.json())["error"].startswith("the body: ")


async def test_a_fault_is_one_line_and_logged(monkeypatch, caplog):
    def fail(*_, **__):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Insight, "usage", fail)
    async with served_objects(*small_cluster()) as client:
        found = await client.ask("usage", status=500)
        async with client.send("POST", "/v1/questions/usage", {"by": []}, Accept=LINES) as response:
            assert (await lines_of(response))[-1]["status"] == 500
    assert found == {"error": "the request failed; the server's log says why"}
    assert "ZeroDivisionError" in caplog.text


async def test_the_cluster_is_described():
    async with served_objects(*small_cluster()) as client:
        found = await client.call("GET", "/v1/cluster")
    assert (found["source"], found["nodes"], found["pods"]) == ("file cluster.yaml", 3, 4)
    assert (found["live"], found["lost"], found["problems"]) == (False, "", [])
