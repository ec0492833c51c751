"""The sample history: what a simulated scheduler made of a made-up week."""

from pathlib import Path

import pytest
from tests.support.commands import bayplan

from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.history.events import NodeAdded, NodeRemoved, PodArrived, PodBound, PodEnded
from bayplan.answers.history.reading import History


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "h"
    write_sample(folder, days=1)
    return folder


def test_it_has_decisions_and_tells_one_story(sample: Path) -> None:
    history = History.open(sample)
    assert (history.synthetic, history.problems, history.gaps) == (True, (), ())
    assert history.notes == (
        "arrivals are made up, and a simulated scheduler has placed them: they are no measurements",
    )
    start = list(history.start().objects())
    nodes = {each["metadata"]["name"] for each in start if each["kind"] == "Node"}
    placed = {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in start if each["kind"] == "Pod"}
    assert len(nodes) == 24
    waiting: set[str] = set()
    names: set[str] = set()
    for event in history.events():
        match event:
            case NodeAdded(name=name):
                nodes.add(name)
            case NodeRemoved(name=name):
                nodes.remove(name)
                assert name not in placed.values()
            case PodArrived(uid=uid, key=key):
                assert uid not in placed
                waiting.add(uid)
                names.add(key)
            case PodBound(uid=uid, node=node):
                assert node in nodes
                waiting.remove(uid)
                placed[uid] = node
            case PodEnded(uid=uid):
                placed.pop(uid, None)
                waiting.discard(uid)
    assert len(nodes) < 24
    assert len(placed) > 50
    assert len(waiting) < 5
    assert not [name for name in names if "+" in name]


def test_the_first_line_that_a_newcomer_sees_is_a_good_match(sample: Path) -> None:
    policy = "NodeResourcesFit.scoringStrategy.type=MostAllocated"
    result = bayplan("compare", "--history", sample, "--autoscaler", "cluster-autoscaler", "--set", policy)
    assert result.output.startswith("Good match: the simulation of now is like the history: ")


def test_questions_about_its_moments_have_answers(sample: Path) -> None:
    night = ("--from", sample, "--at", "2026-03-02T03:10:00Z")
    assert bayplan("explain", "deployment/web", "-n", "shop", *night).output == (
        "deployment shop/web: 0 pods pending, 11 placed\n"
    )
    usage = bayplan("usage", *night).output
    assert "deployment shop/web" in usage
    assert "replicaset" not in usage
    (line,) = (line for line in usage.splitlines() if line.startswith("shop "))
    assert line.split()[2] == "0", "no pod waits in the middle of the night"
