"""How the runner combines the results of plugins, and handles plugins that fail."""

import numpy as np
import pytest

from bayplan import Plugin, Rejections, Status, Wait
from bayplan.core.framework.binding_runner import run_permit, run_reserve, run_unreserve
from bayplan.core.framework.interface import Candidate, CycleState, NodeNames, PostFilterResult, Shortlist
from bayplan.core.framework.profile import Point, Profile, takes_part
from bayplan.core.framework.runner import run_filter, run_post_filter, run_pre_filter, run_pre_score, run_score
from bayplan.core.framework.status import SKIP, Code, PluginError
from bayplan.core.framework.verdicts import Diagnosis, Verdicts
from bayplan.testing.builders import make_cluster, make_node, make_pod

POD = make_pod("p")
METHODS = {
    Point.PRE_FILTER: "pre_filter",
    Point.FILTER: "filter",
    Point.POST_FILTER: "post_filter",
    Point.PRE_SCORE: "pre_score",
    Point.SCORE: "score",
    Point.PERMIT: "permit",
}


@pytest.fixture
def nodes():
    return make_cluster(make_node("a"), make_node("b"), make_node("c")).state.nodes


def answering(point, answer, name="P", method=""):
    """A plugin that returns `answer` at one point, or calls a callable, or raises an exception."""

    def give(_, *arguments):
        if isinstance(answer, Exception):
            raise answer
        return answer(*arguments) if callable(answer) else answer

    return type(name, (Plugin,), {"name": name, method or METHODS[point]: give})()


def profile(point, *plugins, weights=None):
    return Profile("test", {point: plugins}, weights or {})


class TestPreFilter:
    def run(self, nodes, *answers):
        plugins = [answering(Point.PRE_FILTER, answer, name=f"P{n}") for n, answer in enumerate(answers)]
        cycle = CycleState()
        return run_pre_filter(profile(Point.PRE_FILTER, *plugins), cycle, POD, nodes), cycle

    def test_skip_skips_the_filter(self, nodes):
        outcome, cycle = self.run(nodes, SKIP, None)
        assert (outcome.refusal, outcome.names, cycle.skip_filter) == (None, None, {"P0"})

    def test_node_names_are_intersected(self, nodes):
        outcome, _ = self.run(nodes, NodeNames(frozenset("ab")), NodeNames(frozenset("bc")))
        assert (outcome.names, outcome.narrowed_by) == (frozenset("b"), frozenset({"P0", "P1"}))

    @pytest.mark.parametrize(
        ("answers", "reason"),
        [
            ([NodeNames(frozenset())], "node(s) didn't satisfy plugin P0"),
            (
                [NodeNames(frozenset("a")), NodeNames(frozenset("b"))],
                "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously",
            ),
        ],
    )
    def test_no_node_names_left_is_unresolvable(self, nodes, answers, reason):
        outcome, _ = self.run(nodes, *answers)
        assert (outcome.refusal.code, outcome.refusal.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)

    def test_unresolvable_stops_pre_filter_but_unschedulable_does_not(self, nodes):
        asked = []
        late = lambda *_: asked.append("late")  # noqa: E731
        outcome, _ = self.run(nodes, Status.unresolvable("no"), late)
        assert (outcome.refusal.message, asked) == ("no", [])
        outcome, _ = self.run(nodes, "not now", late)
        assert (outcome.refusal.message, outcome.refusal.plugin, asked) == ("not now", "P0", ["late"])


class TestFilter:
    def reject(self, *names):
        return lambda _, __, node: f"not {node.name}" if node.name in names else None

    def test_later_filters_run_on_feasible_nodes_only(self, nodes):
        asked = []
        first = answering(Point.FILTER, self.reject("a"), name="First")
        second = answering(Point.FILTER, lambda *arguments: asked.append(arguments[-1].name), name="Second")
        verdicts = run_filter(profile(Point.FILTER, first, second), CycleState(), POD, nodes)
        assert (asked, verdicts.feasible().tolist()) == (["b", "c"], [1, 2])
        assert (verdicts.of(0).plugin, verdicts.of(0).message) == ("First", "not a")

    def test_first_rejection_counts_and_later_errors_are_ignored(self, nodes):
        first = answering(Point.FILTER, self.reject("a"), name="First")
        failing = Rejections(
            np.array([1, 0, 2], dtype=np.int32), (Status.error("broken"), Status.unschedulable("full"))
        )
        second = answering(Point.FILTER, failing, name="Second", method="filter_nodes")
        verdicts = run_filter(profile(Point.FILTER, first, second), CycleState(), POD, nodes)
        assert verdicts.error() is None
        assert {position: (status.plugin, status.message) for position, status in verdicts.rejected()} == {
            0: ("First", "not a"),
            2: ("Second", "full"),
        }

    def test_filter_nodes_knows_the_nodes_that_are_feasible_so_far(self, nodes):
        seen = []

        def slow(cycle, pod, shown):
            seen.append(cycle.standing.tolist())

        first = answering(Point.FILTER, lambda cycle, pod, node: "first" if node.name == "b" else None)
        last = answering(Point.FILTER, slow, "Slow", "filter_nodes")
        run_filter(profile(Point.FILTER, first, last), CycleState(), POD, nodes)
        assert seen == [[True, False, True]]

    def test_filter_nodes_may_use_the_same_array_in_every_call(self, nodes):
        index = np.zeros(3, dtype=np.int32)

        def reject(position, reason):
            def reject_it(cycle, pod, nodes):
                index[:] = 0
                index[position] = 1
                return Rejections(index, [Status.unschedulable(reason)])

            return answering(Point.FILTER, reject_it, reason, "filter_nodes")

        verdicts = run_filter(profile(Point.FILTER, reject(0, "first"), reject(2, "second")), CycleState(), POD, nodes)
        assert [verdicts.of(position).message for position in range(3)] == ["first", "", "second"]

    def test_filters_add_to_earlier_verdicts_and_leave_these_as_they_are(self, nodes):
        def rejecting(*names):
            return answering(Point.FILTER, lambda cycle, pod, node: "".join(names) if node.name in names else None)

        earlier = run_filter(profile(Point.FILTER, rejecting("a")), CycleState(), POD, nodes)
        verdicts = run_filter(profile(Point.FILTER, rejecting("a", "b")), CycleState(), POD, nodes, earlier)
        assert [verdicts.of(position).message for position in range(3)] == ["a", "ab", ""]
        assert [earlier.of(position).message for position in range(3)] == ["a", "", ""]

    def test_skipped_filter_is_not_called(self, nodes):
        cycle = CycleState(skip_filter={"P"})
        plugin = answering(Point.FILTER, "never")
        assert run_filter(profile(Point.FILTER, plugin), cycle, POD, nodes).feasible_mask.all()

    @pytest.mark.parametrize(
        ("plugin", "problem"),
        [
            (answering(Point.FILTER, ValueError("odd")), 'running "P" filter plugin: ValueError: odd'),
            (answering(Point.FILTER, 7), "returned 7; expected None, a reason"),
            (answering(Point.FILTER, SKIP), "returned Skip, expected success or a rejection"),
            (
                answering(Point.FILTER, np.zeros(3), method="filter_nodes"),
                "filter_nodes must return None or Rejections of 3 nodes",
            ),
        ],
    )
    def test_invalid_result_raises_plugin_error(self, nodes, plugin, problem):
        with pytest.raises(PluginError) as error:
            run_filter(profile(Point.FILTER, plugin), CycleState(), POD, nodes)
        assert problem in str(error.value)
        assert error.value.plugin == "P"


class TestScore:
    def scores(self, nodes, *plugins, **weights):
        found = run_score(profile(Point.SCORE, *plugins, weights=weights), CycleState(), POD, nodes)
        return {name: scores.tolist() for name, scores in found.items()}

    def test_scores_of_both_forms_are_weighted(self, nodes):
        single = answering(Point.SCORE, lambda _, __, node: ord(node.name) - ord("a"), name="Single")
        whole = answering(Point.SCORE, np.array([5, 6, 7]), name="Whole", method="score_nodes")
        assert self.scores(nodes, single, whole, Single=3) == {"Single": [0, 3, 6], "Whole": [5, 6, 7]}

    @pytest.mark.parametrize(
        ("answer", "method", "problem"),
        [
            (
                101,
                "score",
                (
                    'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score 101, '
                    "it should in the range of [0, 100] after normalizing"
                ),
            ),
            (
                -1,
                "score",
                (
                    'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score -1, '
                    "it should in the range of [0, 100] after normalizing"
                ),
            ),
            (2**63, "score", "expected an integer of 64 bits, got 9223372036854775808"),
            (-(2**63) - 1, "score", "expected an integer of 64 bits, got -9223372036854775809"),
            ("best", "score", "expected an integer"),
            (1.5, "score", "expected an integer, got 1.5: floats are not rounded, round them in the plugin"),
            (np.float64(1), "score", "floats are not rounded, round them in the plugin"),
            (
                np.array([1.5, 2, 3]),
                "score_nodes",
                "expected an array of 3 integers, got float64[3]: floats are not rounded, round them in the plugin",
            ),
            (np.array([1, 2]), "score_nodes", "expected an array of 3 integers, got int64[2]"),
            ([1, 2, 3], "score_nodes", "expected an array of 3 integers, got list"),
        ],
    )
    def test_invalid_result_raises_plugin_error(self, nodes, answer, method, problem):
        with pytest.raises(PluginError, match='Score plugins: plugin "P" ') as error:
            self.scores(nodes, answering(Point.SCORE, answer, method=method))
        assert problem in str(error.value)

    @pytest.mark.parametrize("score", [-(2**63), 2**63 - 1])
    def test_a_score_to_normalize_may_be_any_integer_of_64_bits(self, nodes, score):
        class Extreme(Plugin):
            name = "Extreme"

            def score(self, cycle, pod, node):
                return score

            def normalize_scores(self, cycle, pod, scores, nodes):
                assert scores.tolist() == [score] * 3
                return scores * 0

        assert self.scores(nodes, Extreme()) == {"Extreme": [0, 0, 0]}

    def test_pre_score_skips_the_score(self, nodes):
        cycle = CycleState()
        run_pre_score(profile(Point.PRE_SCORE, answering(Point.PRE_SCORE, SKIP)), cycle, POD, nodes)
        assert cycle.skip_score == {"P"}


class TestPostFilter:
    def run(self, *results):
        plugins = [answering(Point.POST_FILTER, result, name=f"P{n}") for n, result in enumerate(results)]
        run = run_post_filter(profile(Point.POST_FILTER, *plugins), CycleState(), POD, Diagnosis(total=1), None)
        with pytest.raises(StopIteration) as end:
            next(run)
        return end.value.value

    def test_shortlist_without_extenders(self, nodes):
        candidates = Candidate("a", (), 0), Candidate("b", (), 0)
        result = self.run(
            Shortlist(candidates, nodes, lambda left: PostFilterResult(Status(Code.SUCCESS), left[1].node_name))
        )
        assert (result.nominated_node, result.status.plugin) == ("b", "P0")

    @pytest.mark.parametrize("choose", [lambda left: "nonsense", lambda left: left[0]], ids=["answers", "raises"])
    def test_invalid_choice_raises_plugin_error(self, nodes, choose):
        with pytest.raises(PluginError, match="plugin P0 failed in PostFilter"):
            self.run(Shortlist((), nodes, choose))

    def test_reasons_are_combined_until_a_plugin_succeeds(self):
        no = PostFilterResult(Status.unschedulable("no claims"))
        assert self.run() is None
        assert self.run(no, PostFilterResult(Status.unschedulable("no victims"), "")).status.message == (
            "no claims, no victims"
        )
        assert self.run(no, PostFilterResult(Status(Code.SUCCESS), "a")).nominated_node == "a"

    def test_invalid_result_raises_plugin_error(self):
        with pytest.raises(PluginError, match="P0"):
            self.run("maybe")


class Reserving(Plugin):
    def __init__(self, name, calls, answer=None):
        self.name, self.calls, self.answer = name, calls, answer

    def reserve(self, cycle, pod, node_name):
        self.calls.append(f"+{self.name}")
        return self.answer

    def unreserve(self, cycle, pod, node_name):
        self.calls.append(f"-{self.name}")
        if self.answer == "break":
            raise RuntimeError("broken")


def test_reserve_stops_at_a_rejection_and_unreserve_runs_in_reverse_order():
    calls = []
    plugins = [Reserving("A", calls), Reserving("B", calls, "break"), Reserving("C", calls)]
    chosen = profile(Point.RESERVE, *plugins)
    assert run_reserve(chosen, CycleState(), POD, "a").plugin == "B"
    errors = run_unreserve(chosen, CycleState(), POD, "a")
    assert (calls, [error.plugin for error in errors]) == (["+A", "+B", "-C", "-B", "-A"], ["B"])


def test_permit_collects_waits_and_stops_at_a_rejection():
    waits = [answering(Point.PERMIT, Wait(seconds), name=f"W{seconds}") for seconds in (3, 5)]
    status, seconds = run_permit(profile(Point.PERMIT, *waits), CycleState(), POD, "a")
    assert (status.code, seconds) == (Code.WAIT, {"W3": 3, "W5": 5})
    refusing = answering(Point.PERMIT, "no", name="No")
    status, seconds = run_permit(profile(Point.PERMIT, *waits, refusing), CycleState(), POD, "a")
    assert (status.plugin, seconds) == ("No", {})


def test_plugin_takes_part_in_the_points_it_implements():
    plugin = answering(Point.FILTER, None)
    assert [point for point in Point if takes_part(plugin, point)] == [Point.FILTER]


def test_plugin_without_events_registers_all_events():
    chosen = profile(Point.FILTER, answering(Point.FILTER, None))
    assert [hint.event.resource for hint in chosen.events()["P"]] == ["*"]


def test_adopted_verdicts_are_those_of_the_others():
    state = make_cluster(make_node("a"), make_node("b"), make_node("c")).state
    state.remove_node("b")
    plain, others = Verdicts(state.nodes), Verdicts(state.nodes)
    others.set(2, Status.unschedulable("full").by("P"))
    plain.set(0, Status.unschedulable("broken").by("P"))
    for position in range(3):
        plain.adopt(position, others)
    assert plain.feasible_mask.tolist() == [True, False, False]
    assert [plain.of(position).message for position in range(3)] == ["", "", "full"]
