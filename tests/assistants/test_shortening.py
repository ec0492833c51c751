"""Answers that are too long are cut, remain JSON, and say what was cut and how to ask for less."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.assistants import assistant, called
from tests.support.served_questions import node, pod

from bayplan.faces.assistants.shortening import MOST, shortened

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=200),
    lambda each: st.lists(each, max_size=50) | st.dictionaries(st.text(max_size=20), each, max_size=60),
    max_leaves=60,
)


@given(st.dictionaries(st.text(max_size=9), VALUES, max_size=12), st.integers(20, 3000))
@settings(derandomize=True)
def test_any_answer_is_short_json_that_says_what_was_cut(answer, most):
    found = shortened(answer, most)
    assert len(found.text) <= most
    assert isinstance(json.loads(found.text), dict)
    assert (json.loads(found.text) == answer) is (found.cut == ())


def test_what_was_cut_is_named_with_its_size():
    answer = {"pods": [{"name": "a" * 90}] * 4000, "nodes": {f"node-{number}": "x" * 60 for number in range(500)}}
    found = shortened({**answer, "message": "m" * 9000, "count": 7}, 3000)
    short = json.loads(found.text)
    assert found.cut == ("pods: 10 of 4,000", "nodes: 10 of 500", "message: long texts")
    assert short["pods"] == answer["pods"][:10]
    assert list(short["nodes"]) == list(answer["nodes"])[:10]
    assert short["count"] == 7
    assert short["message"] == f"{'m' * 300}..."


def test_short_answer_is_complete():
    answer = {"pods": [{"name": f"pod-{number}"} for number in range(200)]}
    found = shortened(answer)
    assert json.loads(found.text) == answer
    assert not found.cut


async def test_long_answer_says_how_to_ask_for_less():
    nodes = [node(f"node-{number}") for number in range(1500)]
    async with assistant(*nodes, *(pod(f"big-{number}", "9") for number in range(3))) as client:
        said, answer = await called(client, "why-not", pod="big-0", node="node-3")
        assert "cut" not in said
        said, answer = await called(client, "explain", pod="big-0")
        assert "The answer was too long and is cut (groups.nodes: 100 of 1,500" in said
        assert "To ask for less, ask why-not about one node. The command shows all of it." in said
        assert len(json.dumps(answer)) <= MOST
        assert answer["message"].startswith("0/1500 nodes are available")
