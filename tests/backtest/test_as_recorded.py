"""Whether recorded decisions are found equal: a scheduler knew what comes later in a history, and sees only a part."""

import pytest
from tests.history.small_histories import at, node, pod

from bayplan.answers.backtest.decisions import ask_again
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.history.following import Following
from bayplan.answers.history.reading import History
from bayplan.answers.history.writing import write_history
from bayplan.answers.insight.prices import Prices
from bayplan.core.api.kinds import NODE, POD


class Recorded:
    """A history that is written event by event."""

    def __init__(self, nodes):
        self._following = Following()
        self._changes = []
        for name in nodes:
            self._changes += self._following.put(NODE, node(name), at(0), initial=True)

    def create(self, name, seconds, *, created=None, **more):
        document = pod(name, **more)
        document["metadata"]["creationTimestamp"] = f"{at(seconds if created is None else created):%Y-%m-%dT%H:%M:%SZ}"
        self._changes += self._following.put(POD, document, at(seconds))
        return document

    def bind(self, document, to, seconds):
        bound = {**document, "spec": {**document["spec"], "nodeName": to}}
        self._changes += self._following.put(POD, bound, at(seconds))

    def equal(self, folder):
        """How many decisions are equal, of how many."""
        write_history(folder, self._changes, source="a test")
        history = History.open(folder)
        asked = ask_again(history, Lookahead(history, Prices({}).of), SimulatedScheduler(), None)
        return asked.equal, asked.recorded


@pytest.mark.parametrize(
    ("created", "bound", "equal"),
    [(1, 8, 2), (1, 40, 1), (3, 8, 1)],
    ids=["decided before, bound soon", "bound too late", "decided later"],
)
def test_a_pod_that_is_bound_later_may_count_already(created, bound, equal, tmp_path):
    """`slow` goes to a and waits for its volumes. `next` goes to b, which is better only because of that."""
    history = Recorded(["a", "b"])
    old = history.create("old", 0.5, cpu="500m")
    history.bind(old, "b", 0.6)
    slow = history.create("slow", 1 if created == 1 else 2.5, created=created, cpu="2")
    following = history.create("next", 2)
    history.bind(following, "b", 4)
    history.bind(slow, "a", bound)
    found, asked = history.equal(tmp_path / "h")
    assert asked == 3
    assert found == 1 + equal


@pytest.mark.parametrize(("used", "equal"), [(110, True), (60, False)])
def test_in_a_large_cluster_better_nodes_may_not_have_been_looked_at(used, equal, tmp_path):
    """Of 200 nodes, kube-scheduler looks for 100 that fit, in a row."""
    history = Recorded([f"node-{number:03}" for number in range(200)])
    for number in range(used):
        history.bind(history.create(f"old-{number}", 1), f"node-{number:03}", 1.5)
    chosen = history.create("new", 40)
    history.bind(chosen, "node-050", 41)
    found, asked = history.equal(tmp_path / "h")
    assert asked == used + 1
    assert found == used + equal
