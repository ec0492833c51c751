"""Every command that calls plugins of the user while it serves limits its memory to what `--memory` says."""

import json

import pytest
from tests.support.commands import bayplan
from tests.support.served_questions import node, pod

from bayplan.answers.backtest import limited
from bayplan.answers.backtest.sample import write_sample

PLUGIN = """
from bayplan import filter_plugin

@filter_plugin
def nothing(pod, node):
    return None
"""


class Limited(Exception):
    """The limit that was set."""


@pytest.fixture
def sources(tmp_path, monkeypatch):
    def limit(mib):
        raise Limited(mib)

    monkeypatch.setattr(limited, "limit_memory", limit)
    (tmp_path / "policy.py").write_text(PLUGIN)
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), pod("p")]}))
    write_sample(tmp_path / "night", days=0.02)
    return tmp_path


@pytest.mark.parametrize(("given", "mib"), [((), 4096), (("--memory", 100), 100)])
@pytest.mark.parametrize("command", ["serve", "ui", "mcp --http", "ui on a history"])
def test_server_with_plugins_is_limited(sources, command, given, mib):
    source = sources / ("night" if "history" in command else "cluster.json")
    words = command.removesuffix(" on a history").split()

    ended = bayplan(*words, "--from", source, "--plugin", sources / "policy.py", *given, status=None)

    assert (type(ended.exception), str(ended.exception)) == (Limited, str(mib))


def test_too_little_memory_is_an_error(sources):
    assert "63 is not in the range x>=64" in bayplan("serve", "--memory", 63, status=2).stderr
