"""The path of a pod and of a gang, as ARCHITECTURE.md draws it, is the path through the code."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from tests.support.stories import in_virtual_time, scheduling

from bayplan.core.plugins.coscheduling.plugin import Coscheduling
from bayplan.testing.builders import make_node

ROOT = Path(__file__).parents[2]
_STAGE = re.compile(r"^([\w.]+) +(\w+/\w+/\w+)\.py\b", re.MULTILINE)


def drawn():
    """The stages of a pod, and of a gang: (name, module), in the order of the document."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## The path of a pod", 1)[1].split("\n## ", 1)[0]
    blocks = [_STAGE.findall(block) for block in section.split("```")[1::2]]
    return [[(name, "bayplan." + path.replace("/", ".")) for name, path in block] for block in blocks]


POD_PATH, GANG_PATH = drawn()


class Gangs(Coscheduling):
    """Coscheduling next to the default plugins."""

    name = "Gangs"


@pytest.fixture
def called(monkeypatch):
    """The names of the drawn functions, in the order of their calls."""
    calls = []
    for name, path in {*POD_PATH, *GANG_PATH}:
        module = importlib.import_module(path)
        *owners, attribute = name.split(".")
        owner = getattr(module, owners[0]) if owners else module
        original = getattr(owner, attribute)

        def wrapped(*args, _name=name, _original=original, **kwargs):
            calls.append(_name)
            return _original(*args, **kwargs)

        if owners:
            monkeypatch.setattr(owner, attribute, wrapped)
            continue
        for each in [each for key, each in sys.modules.items() if key.startswith("bayplan")]:
            if vars(each).get(attribute) is original:  # where it was imported to
                monkeypatch.setattr(each, attribute, wrapped)
    return calls


async def schedule(called, pods, least):
    """Schedule pods on a cluster with one node, and return the calls since they were created."""
    async with scheduling(make_node("a"), plugins=[Gangs]) as here:
        called.clear()
        await here.add(*pods, least=least)
        await here.settle(1)
        assert set(here.nodes()) == set(pods)
        return list(called)


def run(called, *pods, least=None):
    return in_virtual_time(schedule(called, pods, least))


def missing(calls, path):
    """The first drawn function that is not called after those before it; None if all are, in the drawn order."""
    rest = iter(calls)
    return next((name for name, _ in path if name not in rest), None)


def test_a_pod_takes_the_path_of_the_drawing(called):
    calls = run(called, "web")
    assert missing(calls, POD_PATH) is None
    once = {"attempt", "SchedulingCycle.run", "Executor.carry_out", "ClusterState.assume", "BindingCycles.start"}
    assert {name: calls.count(name) for name in once} == dict.fromkeys(once, 1)


def test_a_gang_takes_the_path_of_the_drawing(called):
    calls = run(called, "one", "two", least=2)
    assert missing(calls, GANG_PATH) is None
    turn = calls[calls.index("GangAttempt.run") :]
    carried = turn.index("Executor.carry_out")
    assert turn[:carried].count("SchedulingCycle.run") == turn[:carried].count("StateWhatIf.place") == 2
    assert turn[carried:].count("ClusterState.assume") == turn[carried:].count("BindingCycles.start") == 2


def test_effects_follow_the_decision(called):
    calls = run(called, "web")
    before = calls[: calls.index("Executor.carry_out")]
    assert not {"ClusterState.assume", "run_reserve", "run_permit", "BindingCycles.start"} & set(before)


def test_the_drawing_has_both_paths():
    assert (len(POD_PATH), len(GANG_PATH)) == (16, 14)
