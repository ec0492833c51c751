"""The next placement of a history that is decided otherwise: exactly those that asking all of them again finds."""

import pytest
from histories import pool_node, record

from bayplan.answers.backtest.decisions import ask_again
from bayplan.answers.backtest.differences import next_difference
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.history.reading import History
from bayplan.answers.insight.prices import Prices
from bayplan.answers.simulation.happenings import PodArrives
from bayplan.core.api.kinds import NODE
from bayplan.testing.builders import make_pod

PACKING = ("NodeResourcesFit.scoringStrategy.type=MostAllocated", "NodeResourcesFit.weight=20")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    pods = [make_pod(f"pod-{n}", cpu=f"{300 + 100 * (n % 5)}m") for n in range(24)]
    arrivals = [PodArrives(10.0 + 20 * n, pod, 200.0 if n % 3 == 0 else None) for n, pod in enumerate(pods)]
    nodes = [pool_node(f"node-{n}", cpu=str(4 + n), zone="ab"[n % 2]) for n in range(4)]
    return History.open(record(tmp_path_factory.mktemp("differences") / "h", arrivals, seconds=900, nodes=nodes))


def scheduler_with(*settings):
    return SimulatedScheduler(with_settings(None, (), settings))


def all_differences(history, scheduler):
    moments, number, found = HistoryMoments(history), 0, []
    while True:
        world = scheduler.world(0)
        world.move(moments.snapshot(number).documents, history.begin)
        each = next_difference(world, moments, number)
        if each.step is None:
            assert each.reached == len(moments)
            return moments, found
        assert each.reached == each.step - 1
        found.append(each)
        number = each.step


@pytest.mark.parametrize("settings", [(), PACKING, ("PodTopologySpread.weight=50",)])
def test_differences_are_those_of_asking_all_again(history, settings):
    scheduler = scheduler_with(*settings)
    ahead = Lookahead(history, Prices({}).of)
    asked = ask_again(history, ahead, scheduler, None)
    moments, found = all_differences(history, scheduler)
    assert asked.asked == asked.recorded == 24
    assert len(found) == asked.recorded - asked.equal
    assert len({moments.steps[each.step - 1].subject for each in found}) == len(found)


def test_difference_says_what_is_better(history):
    moments, found = all_differences(history, scheduler_with(*PACKING))
    assert found
    assert all(
        each.other.startswith("node node-") and "better (" in each.other and "NodeResourcesFit +" in each.other
        for each in found
    )
    assert all(moments.steps[each.step - 1].node not in each.other for each in found)


def test_search_ends_where_it_is_enough(history):
    scheduler = scheduler_with()
    moments, world = HistoryMoments(history), scheduler.world(0)
    world.move(moments.snapshot(0).documents, history.begin)
    left = iter([False] * 5)
    found = next_difference(world, moments, 0, lambda: next(left, True))
    assert (found.step, found.reached) == (None, 5)


def test_pods_of_other_schedulers_are_counted_and_not_asked(history):
    configuration = with_settings(None, (), ("NodeResourcesFit.weight=1",))
    for profile in configuration.profiles:
        profile.schedulerName = f"not-{profile.schedulerName}"
    scheduler = SimulatedScheduler(configuration)
    moments, world = HistoryMoments(history), scheduler.world(0)
    world.move(moments.snapshot(0).documents, history.begin)
    found = next_difference(world, moments, 0)
    assert (found.step, found.skipped) == (None, 24)


def test_world_can_be_taken_back(history):
    moments, world = HistoryMoments(history), scheduler_with().world(0)
    world.move(moments.snapshot(0).documents, history.begin)
    before = dict(world.state.objects[NODE]), world.state.pod_count
    next_difference(world, moments, 0)
    world.reset()
    assert (dict(world.state.objects[NODE]), world.state.pod_count) == before
