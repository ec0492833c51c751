"""The verb prioritize: scores from 0 to 10 for all nodes of the request, in its order."""

import numpy as np
import pytest
from asking import cluster, no_c, node, pod, serving
from tests.support.tables import cases

from bayplan import SKIP, Plugin, score_plugin

pytestmark = pytest.mark.feature("Serving as an extender: prioritize")


def by_label(name="by_label", weight=1):
    return score_plugin(name=name, weight=weight)(lambda _pod, node: int(node.labels.get(name, 0)))


def nodes(**scores):
    """The scores of `by_label`, by node."""
    return [node(name, labels={"by_label": str(score)}) for name, score in scores.items()]


class Relative(Plugin):
    """Normalizes the highest score to 100."""

    name = "Relative"

    def score_nodes(self, cycle, pod, nodes):
        return np.arange(len(nodes))

    def normalize_scores(self, cycle, pod, scores, nodes):
        return scores * 100 // scores.max()


class Remembers(Plugin):
    name = "Remembers"

    def pre_filter(self, cycle, pod, nodes):
        cycle.data[self.name] = 40

    def pre_score(self, cycle, pod, nodes):
        cycle.data[self.name] += 30

    def score(self, cycle, pod, node):
        return cycle.data[self.name]


class Skips(Plugin):
    name = "Skips"

    def pre_score(self, cycle, pod, nodes):
        return SKIP

    def score(self, cycle, pod, node):
        raise AssertionError


class Refuses(Plugin):
    name = "Refuses"

    def pre_filter(self, cycle, pod, nodes):
        return "no"

    def score(self, cycle, pod, node):
        return 100


@pytest.mark.parametrize(
    ("score", "priority"),
    [(0, 0), (4, 0), (5, 1), (14, 1), (15, 2), (50, 5), (54, 5), (55, 6), (94, 9), (95, 10), (100, 10)],
)
async def test_scores_are_rounded_half_up(score, priority):
    async with serving(by_label()) as extender:
        assert await extender.scores(*nodes(a=score)) == {"a": priority}


async def test_the_order_of_the_request_is_kept():
    async with serving(by_label()) as extender:
        assert list((await extender.scores(*nodes(c=10, a=100, b=0))).items()) == [("c", 1), ("a", 10), ("b", 0)]


@cases(
    "plugins, expected",
    {
        "normalised": ([Relative], {"a": 0, "b": 5, "c": 10}),
        "PreFilter and PreScore run first": ([Remembers], {"a": 7, "b": 7, "c": 7}),
        "a skipped plugin": ([Relative, Skips], {"a": 0, "b": 3, "c": 5}),
        "a pod that PreFilter rejects": ([Refuses], {"a": 0, "b": 0, "c": 0}),
        "no score plugins": ([no_c], {"a": 0, "b": 0, "c": 0}),
    },
)
async def test_plugins(plugins, expected):
    async with serving(*plugins) as extender:
        assert await extender.scores(node("a"), node("b"), node("c")) == expected


async def test_weights():
    plugins = [by_label("heavy", 3), by_label("light", 1)]
    sent = [
        node("a", labels={"heavy": "100", "light": "0"}),
        node("b", labels={"heavy": "0", "light": "100"}),
        node("c", labels={"heavy": "100", "light": "100"}),
    ]
    async with serving(*plugins) as extender:
        assert await extender.scores(*sent) == {"a": 8, "b": 3, "c": 10}
        assert extender.running.profiles.weight == 4


async def test_unknown_nodes_score_0():
    flat = score_plugin(name="flat")(lambda _pod, _node: 60)
    async with serving(flat, client=cluster("a")) as extender:
        answer = await extender.ask("prioritize", Pod=pod(), Nodes=None, NodeNames=["new", "a"])
    assert answer == [{"Host": "new", "Score": 0}, {"Host": "a", "Score": 6}]


async def test_no_nodes():
    async with serving(by_label()) as extender:
        assert await extender.ask("prioritize", Pod=pod(), Nodes={"items": []}) == []


INVALID = 'plugin "by_label" returns an invalid score 101, it should in the range of [0, 100] after normalizing'


@cases(
    "args, answer",
    {
        "a plugin that fails": (
            {"Nodes": {"items": nodes(a=101)}},
            (500, f"applying score defaultWeights on Score plugins: {INVALID}\n"),
        ),
        "no pod": ({"Pod": None}, (400, "the request has no Pod\n")),
        "nodes that aren't a list of nodes": ({"Nodes": []}, (400, "Nodes: Expected `object`, got `array`\n")),
    },
)
async def test_errors_are_http_statuses(args, answer):
    async with serving(by_label()) as extender:
        assert await extender.fail("prioritize", **{"Pod": pod(), "Nodes": {"items": []}, **args}) == answer


@pytest.mark.parametrize("path", ["/prioritize", "/priority"])
async def test_other_names_of_the_path(path):
    async with serving(by_label()) as extender:
        assert (await extender.ask(path.strip("/"), Pod=pod(), Nodes={"items": []})) == []
