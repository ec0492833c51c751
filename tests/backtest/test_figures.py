"""Figures over several seeds, calibrations, and how times are shown."""

from dataclasses import replace

import pytest
from tests.backtest.histories import pool_node, record
from tests.backtest.test_comparison import compared
from tests.support.tables import cases

from bayplan.answers.backtest.calibration import calibrated
from bayplan.answers.backtest.comparison import notes_of
from bayplan.answers.backtest.figures import figures_of, middle
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.new_pools import parse_pool
from bayplan.answers.backtest.running import FleetChoice, SimulationRun, open_history
from bayplan.answers.backtest.shown import clock, duration, hours
from bayplan.answers.insight.prices import Prices
from bayplan.answers.simulation.behaviour import Termination
from bayplan.answers.simulation.happenings import PodArrives
from bayplan.answers.simulation.meter import ClusterMeter
from bayplan.answers.simulation.metered_nodes import Size
from bayplan.answers.simulation.metered_pods import Spread, Waits
from bayplan.answers.simulation.models.parameters import Parameters, PodParameters
from bayplan.testing import make_pod

EMPTY = ClusterMeter(60.0).summary()


def summary(*, p99=20.0, evictions=0, never_placed=0, share=0.5):
    return replace(
        EMPTY,
        waits=Waits(0.0, 10.0, p99),
        evictions={"preempted": evictions},
        never_placed=never_placed,
        widest=Spread("web", share),
        median_share=0.4,
    )


def row(now, then, what):
    (figure,) = [each for each in figures_of((*now, *then), 7.0) if each.what == what]
    return figure.row(middle(now), middle(then), figure.spread(now, then))[1:]


@cases(
    "now, then, expected",
    {
        "one seed": ([20.0], [30.0], ("20 s", "30 s", "+10 s")),
        "the same with all seeds": (
            [20.0, 22.0, 21.0],
            [30.0, 31.0, 30.0],
            ("21 s (20 s to 22 s)", "30 s (30 s to 31 s)", "+9 s"),
        ),
        "not the same with all": (
            [20.0, 40.0, 21.0],
            [30.0, 31.0, 30.0],
            ("21 s (20 s to 40 s)", "30 s (30 s to 31 s)", "+9 s, chance"),
        ),
    },
)
def test_a_figure_is_the_median_with_its_spread(now, then, expected):
    assert row([summary(p99=each) for each in now], [summary(p99=each) for each in then], "wait p99") == expected


@cases(
    "recorded, simulated, fault",
    {
        "as recorded": (summary(evictions=100), [summary(evictions=90)], None),
        "evictions": (summary(evictions=100), [summary(evictions=150)], "100 evictions, simulated 150"),
        "drains are inputs": (replace(summary(), evictions={"drained": 100}), [summary()], None),
        "within the seeds": (summary(evictions=100), [summary(evictions=60), summary(evictions=150)], None),
        "never placed": (summary(never_placed=3), [summary(never_placed=16)], "3 never placed, simulated 16"),
        "the longest waits": (
            summary(p99=8.0),
            [summary(p99=18.6)],
            "99 % of the pods waited up to 8.0 s, simulated 19 s",
        ),
    },
)
def test_a_calibration_judges_evictions_never_placed_and_p99(recorded, simulated, fault):
    found = calibrated(recorded, middle(simulated), simulated, 1.0, 100)
    assert found.faults == (() if fault is None else (fault,))
    assert str(found).startswith("Good match" if fault is None else "Poor match")


def test_a_service_that_is_in_one_zone_hides_no_other():
    meter = ClusterMeter(100.0)
    for zone in "ab":
        meter.node_added(0.0, zone, {"topology.kubernetes.io/zone": zone}, Size(4000, 4))
    for service, nodes in {"one": "aaaa", "even": "aabb", "other": "aaab"}.items():
        for number, node in enumerate(nodes):
            meter.pod_bound(0.0, f"{service}-{number}", node, service, 0.0, Size())
    found = meter.summary()
    assert (found.widest, found.median_share) == (Spread("one", 1.0), 0.75)


@pytest.mark.parametrize(
    ("days", "shown", "unit"),
    [
        (7.0, "7.0 days", "hour"),
        (0.5, "12.0 hours", "hour"),
        (1 / 288, "5 minutes", "minute"),
        (5e-4, "43 seconds", "minute"),
    ],
)
def test_times_have_the_unit_of_the_length(days, shown, unit):
    assert duration(days) == shown
    assert clock(days)[0] == unit


def test_a_few_node_hours_are_not_nothing():
    assert [hours(each) for each in (0.0, 0.0831, 3.14, 1796.2)] == ["0", "0.083", "3.1", "1,796"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve pods come at once, so that their nodes depend on the seed; they have no grace period."""
    pods = [
        PodArrives(20.0, make_pod(f"pod-{n}", cpu="1", spec={"terminationGracePeriodSeconds": 0})) for n in range(12)
    ]
    nodes = [pool_node(f"n{n}", zone="ab"[n % 2]) for n in range(4)]
    return record(tmp_path_factory.mktemp("histories") / "week", pods, seconds=300.0, nodes=nodes)


def test_a_comparison_of_several_seeds_says_so(folder):
    found = compared(folder, "NodeResourcesFit.weight=2", seeds=3)
    assert found.seeds == 3
    assert not any("--seeds" in note for note in found.notes)
    assert "(5 minutes from" in found.text()
    assert " minute " in found.text() or not found.differences


def test_a_comparison_of_one_seed_says_that_it_is_one(folder):
    found = compared(folder, "NodeResourcesFit.weight=2")
    assert "one seed was simulated: --seeds 5 shows by how much the figures differ between seeds" in found.notes


def test_a_termination_time_that_no_grace_period_allows_is_named(folder):
    """Pods of traces have no grace period, so the parameter changes nothing."""
    history = open_history(folder)
    ahead = Lookahead(history, lambda _: None)
    slow = SimulationRun(parameters=Parameters(pods=PodParameters(termination_seconds=5)))
    note = "pods.terminationSeconds 5 has no effect: no pod has a grace period of more than 0 s"
    assert note in notes_of(history, ahead, slow)
    assert note not in notes_of(history, ahead, SimulationRun())


def test_a_price_of_a_pool_of_the_candidate_is_used(folder):
    pool = parse_pool("name=big,cpu=16,memory=64Gi")
    found = compared(
        folder,
        fleet=FleetChoice("none"),
        candidate_fleet=FleetChoice("cluster-autoscaler", (pool,)),
        prices=Prices({"m5.xlarge": 0.2, "big": 0.8}, "prices.yaml"),
    )
    assert not any("there are no nodes of type" in note for note in found.notes)


def test_pods_take_as_long_to_end_as_those_of_their_workload():
    web = make_pod("web", owner=("apps/v1", "ReplicaSet", "web"))
    other = make_pod("other", owner=("apps/v1", "ReplicaSet", "other"))
    quick = make_pod("quick", spec={"terminationGracePeriodSeconds": 1})
    seen = Termination(5.0, {"replicaset default/web": [2.0], "": [7.0]})
    assert [seen.of(each) for each in (web, other, quick)] == [2.0, 7.0, 1.0]
    assert Termination(5.0).of(web) == 5.0
