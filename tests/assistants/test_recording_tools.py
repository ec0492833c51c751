"""why and replay as tools: the answers of the commands, and a line for what can't be answered; nothing is imported."""

import json
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.assistants import assistant, called, refused

from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.answers.replay.moments import PodNames, decisions_of
from bayplan.faces.assistants.shortening import MOST
from bayplan.faces.cli import main
from bayplan.running.recording import files
from bayplan.running.recording.entries import RecordedPlugin
from bayplan.running.recording.files import Recording

NIGHT = max((Path(__file__).parents[1] / "data" / "recordings").glob("version-*.tar"))
CODE = """
from pathlib import Path
Path({marker!r}).touch()
from bayplan import filter_plugin
@filter_plugin
def helper(pod, node):
    return None
"""


def bayplan(*arguments):
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def evicted_pod():
    names = PodNames()
    victims = [uid for decided in decisions_of(Recording.open(NIGHT), names.take) for uid in decided.victims]
    return names.of(victims)[0]


async def test_tools_exist_only_with_a_recording():
    async with assistant(recording=NIGHT) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*QUESTIONS, "why", "replay"]
    async with assistant() as client:
        assert "why" not in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"pod": "urgent"}, ["why", "default/urgent", "--recording", NIGHT]),
        ({"pod": "urgent", "at": "2100-01-01T00:00:00Z"}, ["why", "urgent", "--at", "2100-01-01T00:00:00Z"]),
        ({"pod": evicted_pod(), "about": "eviction"}, ["why", evicted_pod(), "--evicted"]),
    ],
    ids=["the last decision", "before a time", "an eviction"],
)
async def test_why_is_the_answer_of_the_command(arguments, options):
    command = [*options, *([] if "--recording" in options else ["--recording", NIGHT])]
    async with assistant(recording=NIGHT) as client:
        text = await client.call_tool("why", arguments)
        _, answer = await called(client, "why", **arguments)
    assert answer == json.loads(bayplan(*command, "-o", "json"))
    assert answer["decision"] > 0
    said, told = (block.text for block in text.content)
    assert told.split() == bayplan(*command).split()
    assert len(told) <= MOST
    assert f"--recording {NIGHT}" in said


async def test_replay_is_the_answer_of_the_command():
    async with assistant(recording=NIGHT) as client:
        said = (await client.call_tool("replay", {})).content[1].text
        _, answer = await called(client, "replay")
    assert [run | {"source": ""} for run in answer["runs"]] == [
        json.loads(bayplan("replay", NIGHT, "-o", "json")) | {"source": ""}
    ]
    assert said.splitlines()[0] in bayplan("replay", NIGHT)
    assert "all are the same" in said


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("why", {"pod": "nowhere"}, "the recording has no decision about pod default/nowhere; it goes from "),
        ("why", {"pod": "urgent", "at": "1999-01-01T00:00:00Z"}, "default/urgent before 1999-01-01 00:00:00 UTC; it"),
        ("why", {"pod": "urgent", "at": "noon"}, "at 'noon': "),
        ("why", {"pod": "urgent", "about": "eviction"}, "no decision that evicts pod default/urgent; it goes from "),
        ("why", {"pod": "urgent", "recording": "/etc"}, "unknown field `recording`"),
        ("replay", {"recording": "/etc"}, "unknown field `recording`"),
    ],
)
async def test_what_the_recording_lacks_is_one_line(name, arguments, message):
    async with assistant(recording=NIGHT) as client:
        found = await refused(client, name, **arguments)
        assert (await called(client, "replay"))[1]["runs"], "the server answers on"
    assert message in found
    assert "\n" not in found


@pytest.mark.parametrize("name", ["why", "replay"])
async def test_recording_that_goes_while_the_server_runs_is_one_line(name, tmp_path):
    night = tmp_path / "night.tar"
    shutil.copy(NIGHT, night)
    async with assistant(recording=night) as client:
        night.unlink()
        assert str(night) in await refused(client, name, **({"pod": "urgent"} if name == "why" else {}))


@pytest.mark.parametrize("name", ["why", "replay"])
async def test_question_that_takes_too_long_ends(name):
    async with assistant(recording=NIGHT, longest=1e-6) as client:
        arguments = {"pod": "urgent"} if name == "why" else {}
        assert "which is the server's limit of time" in await refused(client, name, **arguments)


def recorded_with_a_plugin(folder, reference):
    """A true recording that names a plugin, whose file leaves a mark when it is imported."""
    run = Recording.open(NIGHT)
    manifest = run.manifest
    plugin = RecordedPlugin(reference, ("helper",), "0" * 64)
    manifest.setting = msgspec.structs.replace(manifest.setting, plugins=(plugin,))
    place = folder / "night" / "run-000001"
    place.mkdir(parents=True)
    for name, read in run._segments:
        (place / name).write_bytes(read())
    files._write_manifest(place, manifest)
    return folder / "night"


@pytest.mark.parametrize("reference", ["helper.py", "helper", "helper.py:helper"])
async def test_plugin_that_the_user_does_not_name_is_said_and_never_imported(reference, tmp_path, monkeypatch):
    marker = tmp_path / "RAN"
    (tmp_path / "helper.py").write_text(CODE.format(marker=str(marker)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    async with assistant(recording=recorded_with_a_plugin(tmp_path, reference)) as client:
        for name, arguments in (("why", {"pod": "urgent"}), ("replay", {})):
            found = await refused(client, name, **arguments)
            assert "was recorded with plugin helper (" in found
            assert "name your own copy of it with --plugin; what a recording names is never loaded" in found
    assert not marker.exists()
    assert "helper" not in sys.modules
