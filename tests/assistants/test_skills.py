"""The skills call tools that exist, with arguments that these take; server.json has what registries ask for."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from test_recording_tools import NIGHT
from tests.support.assistants import assistant
from tests.support.served_questions import small_cluster

ROOT = Path(__file__).parents[2]
SKILLS = sorted((ROOT / "skills").glob("*/SKILL.md"))
CALL = re.compile(r"^ *```json\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_there_are_four():
    assert [each.parent.name for each in SKILLS] == ["drain-plans", "night-reports", "pending-pods", "policy-trials"]


@pytest.mark.parametrize("path", SKILLS, ids=[each.parent.name for each in SKILLS])
async def test_skill_is_described_and_its_calls_are_answered(path):
    _, header, text = path.read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(header)
    assert set(about) == {"name", "description"}
    assert about["name"] == path.parent.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", about["name"])
    assert 50 < len(about["description"]) <= 1024
    assert "Use it" in about["description"]
    calls = [json.loads(each) for each in CALL.findall(text)]
    assert len(calls) >= 3
    recording = NIGHT if path.parent.name == "night-reports" else ""
    async with assistant(*small_cluster(), recording=recording) as client:
        for call in calls:
            assert call["arguments"]["output"] == "brief"
            result = await client.call_tool(call["tool"], call["arguments"])
            assert not result.is_error, (call, result.content)
            assert sum(len(each.text) for each in result.content) <= 1500


def test_server_json_has_what_registries_ask_for():
    """The limits of the schema of 2025-12-11, and that the versions and the requirement are those of the project."""
    found = json.loads((ROOT / "server.json").read_text())
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", found["name"])
    assert len(found["description"]) <= 100
    assert found["version"] == PROJECT["version"]
    (package,) = found["packages"]
    assert {"registryType", "identifier", "transport"} <= set(package)
    assert (package["identifier"], package["version"]) == (PROJECT["name"], PROJECT["version"])
    assert package["transport"] == {"type": "stdio"}
    assert package["runtimeArguments"][0]["value"] in PROJECT["optional-dependencies"]["mcp"]
    for each in (*package["runtimeArguments"], *package["packageArguments"]):
        assert each["type"] == "positional" or each["name"].startswith("--")
        assert each.get("format", "string") in {"string", "number", "boolean", "filepath"}
    assert package["packageArguments"][0] == {"type": "positional", "value": "mcp"}
    assert f"mcp-name: {found['name']}" in (ROOT / "README.md").read_text()
