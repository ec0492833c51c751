"""docs/requests.md shows what its commands print."""

import re
import shlex
import shutil
from functools import reduce
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.backtest.histories import pool_node, record

from bayplan.answers.simulation.happenings import PodArrives
from bayplan.faces.cli import main
from bayplan.testing import make_pod

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/requests.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ (bayplan .*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command):
    return CliRunner().invoke(main, shlex.split(command, comments=True)[1:], catch_exceptions=False)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_example_is_what_the_command_prints(command, shown):
    result = run(command)

    assert result.exit_code == 0, result.output
    assert result.stdout == shown


def test_page_has_an_example_of_each_command():
    assert [command.split()[1] for command, _ in EXAMPLES] == ["what-if", "what-if", "diff"]


def test_other_commands_run(folder):
    """Those about a cluster are asked about that of the examples, and the history is a small one."""
    web = {"namespace": "shop", "cpu": "1", "labels": {"pod-template-hash": "5d9c"}}
    owner = "apps/v1", "ReplicaSet", "web-5d9c"
    pods = [PodArrives(60.0 + n, make_pod(f"web-{n}", owner=owner, **web)) for n in range(4)]
    record(folder / "last-week", pods, seconds=3600.0, nodes=[pool_node("n0")])
    made = {
        "what-if --requests vpas.json": "what-if --requests examples/requests/recommendations.csv",
        "--prices prices.yaml": "--prices examples/requests/prices.yaml --from examples/requests/cluster.yaml",
    }
    asked = [each for each in COMMANDS if each.startswith(("bayplan what-if", "bayplan compare"))]
    for command in asked:
        here = reduce(lambda text, known: text.replace(*known), made.items(), command)
        result = run(here)
        assert result.exit_code == 0, result.output
    assert len(asked) == 2
