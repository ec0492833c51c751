"""why and replay as tools: the answers of the commands, and a line for what can't be answered; nothing is imported."""

import json
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.assistants import assistant, called, refused
from tests.support.tables import cases

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


async def test_moves_are_the_answer_of_the_command():
    command = ["why", "urgent", "--recording", NIGHT, "--moved"]
    async with assistant(recording=NIGHT) as client:
        result = await client.call_tool("why", {"pod": "urgent", "about": "moves"})
        _, answer = await called(client, "why", pod="urgent", about="moves")
    said, told = (block.text for block in result.content)
    assert told == bayplan(*command)
    assert answer == json.loads(bayplan(*command, "-o", "json"))
    assert answer["placements"]
    assert "why default/urgent --moved --recording" in said


FIRST = f"{Recording.open(NIGHT).manifest.began:%Y-%m-%dT%H:%M:%SZ}"
MOMENTS = {
    "a pod": ({"pod": "urgent"}, ["--pod", "urgent"]),
    "a time": ({"until": FIRST}, ["--until", FIRST]),
    "an eviction": ({"preemptionOf": evicted_pod()}, ["--preemption-of", evicted_pod()]),
}


@cases("arguments, options", MOMENTS)
async def test_replay_stops_where_the_command_does(arguments, options):
    async with assistant(recording=NIGHT) as client:
        said, told = (block.text for block in (await client.call_tool("replay", arguments)).content)
        _, answer = await called(client, "replay", **arguments)
    assert answer == json.loads(bayplan("replay", NIGHT, *options, "-o", "json"))
    assert bayplan("replay", NIGHT, *options).startswith(told)
    assert f"{options[0]} " in said


PACKING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "bayplan-scheduler",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ],
        }
    ],
}
OTHERS = {
    "a configuration": ({"configuration": PACKING}, ["--config", "{file}"]),
    "settings": ({"settings": ["NodeResourcesFit.enabled=false"]}, ["--set", "NodeResourcesFit.enabled=false"]),
    "a version": ({"emulatedVersion": "1.37"}, ["--emulated-version", "1.37"]),
    "plugins of the user": ({"withPlugins": True}, ["--plugin", "{plugin}"]),
}
REFUSING = """
from bayplan import filter_plugin
@filter_plugin
def refusing(pod, node):
    return "never"
"""


@cases("arguments, options", OTHERS)
async def test_other_policy_is_asked_as_by_the_command(arguments, options, tmp_path):
    file, plugin = tmp_path / "configuration.json", tmp_path / "refusing.py"
    file.write_text(json.dumps(PACKING))
    plugin.write_text(REFUSING)
    options = [each.format(file=file, plugin=plugin) for each in options]
    async with assistant(recording=NIGHT, plugins=(str(plugin),)) as client:
        said, told = (block.text for block in (await client.call_tool("replay", arguments)).content)
        _, answer = await called(client, "replay", **arguments)
    expected = json.loads(bayplan("replay", NIGHT, *options, "-o", "json"))
    assert answer["runs"] == [{**expected, "problem": ""}]
    assert told.split() == bayplan("replay", NIGHT, *options).split()
    assert answer["runs"][0]["asked"] > 0
    assert options[0] in said
    assert (answer["runs"][0]["not_placed"] > 0) is ("withPlugins" in arguments)


async def test_other_policy_has_only_plugins_that_the_user_names(tmp_path, monkeypatch):
    marker = tmp_path / "RAN"
    (tmp_path / "helper.py").write_text(CODE.format(marker=str(marker)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    async with assistant(recording=NIGHT) as client:
        for name in ("helper", "helper.py", "helper.py:helper"):
            profile = {"plugins": {"filter": {"enabled": [{"name": name}]}}}
            assert name in await refused(client, "replay", configuration={**PACKING, "profiles": [profile]})
            assert name in await refused(client, "replay", settings=[f"{name}.enabled=true"])
        assert "unknown field `plugin`" in await refused(client, "replay", plugin="helper.py")
    assert not marker.exists()
    assert "helper" not in sys.modules


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("why", {"pod": "nowhere"}, "the recording has no decision about pod default/nowhere; it goes from "),
        ("why", {"pod": "urgnt"}, "no decision about pod default/urgnt: did you mean 'default/urgent'?; it goes from "),
        ("why", {"pod": "urgent", "at": "1999-01-01T00:00:00Z"}, "default/urgent before 1999-01-01 00:00:00 UTC; it"),
        ("why", {"pod": "urgent", "at": "noon"}, "at 'noon': "),
        ("why", {"pod": "urgent", "about": "eviction"}, "no decision that evicts pod default/urgent; it goes from "),
        ("why", {"pod": "urgent", "recording": "/etc"}, "unknown field `recording`"),
        ("why", {"pod": "nowhere", "about": "moves"}, "the recording has no decision about pod default/nowhere; it"),
        ("why", {"pod": "urgent", "about": "moves", "at": "03:12"}, "at: with moves, the answer is about all times"),
        ("replay", {"recording": "/etc"}, "unknown field `recording`"),
        ("replay", {"pod": "nowhere"}, "the recording has no decision about pod default/nowhere; it goes from "),
        ("replay", {"until": "noon"}, "until 'noon': "),
        ("replay", {"pod": "a", "preemptionOf": "b"}, "pod and preemptionOf: expected only one of them"),
        ("replay", {"pod": "a", "settings": ["x.weight=1"]}, "stop a replay: not with another policy"),
        ("replay", {"settings": ["Nothing.weight=1"]}, "settings: Nothing.weight=1: "),
        ("replay", {"emulatedVersion": "1.9"}, "emulatedVersion: unknown version '1.9'"),
        ("replay", {"configuration": {"profiles": 7}}, "configuration"),
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
