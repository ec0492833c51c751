"""Comparisons whose best answer is known by construction."""

import json

import pytest
from tests.backtest.histories import ZONE, pool_node, record
from tests.simulation.timelines import OWNED

from bayplan import score_plugin
from bayplan.answers.backtest.comparison import compare
from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.new_pools import parse_pool
from bayplan.answers.backtest.running import FleetChoice, SimulatedScheduler, SimulationRun, open_history
from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.insight.prices import Prices
from bayplan.answers.simulation.behaviour import Behaviour
from bayplan.answers.simulation.happenings import NodeGoes, PodArrives
from bayplan.core.api.kinds import SERVICE
from bayplan.core.config import KubeSchedulerConfiguration
from bayplan.core.config.types import KubeSchedulerProfile
from bayplan.testing import make_pod
from bayplan.testing.builders import make_service

PACK = "NodeResourcesFit.scoringStrategy.type=MostAllocated"
PRICES = Prices({"m5.xlarge": 0.2}, "prices.yaml")
HOURS = 8
NODES = [pool_node(f"n{n:02}") for n in range(20)]


def packable(folder, configuration=None):
    """20 nodes, each with room for 4 pods: 60 pods arrive one by one, so that 15 nodes would be enough.

    LeastAllocated uses all nodes; MostAllocated frees exactly 5 of 20.
    """
    pods = [PodArrives(60.0 + n, make_pod(f"web-{n:02}", cpu="1", memory="1Gi", owner=OWNED)) for n in range(60)]
    return record(folder, pods, seconds=HOURS * 3600.0, nodes=NODES, configuration=configuration)


def in_one_zone(folder):
    """Six pods that need a node each and prefer zone a, which has six nodes. A node of zone b goes before they arrive.

    Spread evenly, 3 of the pods are in zone b, which needs exactly 3 nodes more.
    """
    labels = {"app": "web"}
    in_zone_a = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
    near = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": in_zone_a}]}
    web = {"cpu": "3", "labels": labels, "owner": OWNED, "affinity": {"nodeAffinity": near}}
    pods = [PodArrives(60.0 + n, make_pod(f"web-{n}", **web)) for n in range(6)]
    nodes = [*(pool_node(f"a{n}") for n in range(6)), pool_node("b0", zone="b")]
    service = SERVICE, "default/web", make_service("web", labels)
    return record(folder, [NodeGoes(10.0, "b0"), *pods], seconds=4 * 3600.0, nodes=nodes, objects=[service])


def compared(folder, *settings, fleet=None, candidate_fleet=None, prices=PRICES, seed=0, **options):
    history = open_history(folder)
    ahead = Lookahead(history, prices.of)
    now = SimulatedScheduler()
    candidate = SimulatedScheduler(with_settings(None, (), settings)) if settings else now
    fleet = fleet or FleetChoice()
    runs = (
        SimulationRun(now, fleet, prices=prices, seed=seed),
        SimulationRun(candidate, candidate_fleet or fleet, prices=prices, seed=seed),
    )
    return compare(history, ahead, *runs, **options)


def row(found, what):
    return next(each for each in found.rows() if each["what"] == what)


def test_packing_frees_exactly_five_of_twenty_nodes(tmp_path):
    found = compared(packable(tmp_path / "history"), f"default-scheduler/{PACK}")
    assert found.calibration.equal_decisions == 1.0
    assert found.calibration.node_difference == 0.0
    assert not found.calibration.faults
    assert found.autoscaler == "none"
    assert round(found.now.curve[-1].empty) == 0
    assert found.candidate.curve[-1].empty == 5
    assert (found.now.nodes, found.candidate.nodes) == (20, 20)
    assert found.changed_decisions > 10
    assert "5" in row(found, "nodes without workloads, average")["candidate"]


def test_an_autoscaler_removes_the_nodes_that_packing_frees(tmp_path):
    found = compared(
        packable(tmp_path / "history"), f"default-scheduler/{PACK}", fleet=FleetChoice("cluster-autoscaler"), seed=3
    )
    assert found.candidate.curve[-1].nodes == 15
    assert found.candidate.node_hours <= found.now.node_hours
    assert found.candidate.cost == pytest.approx(found.candidate.node_hours * 0.2)
    assert row(found, "cost")["candidate"].startswith("$")


def test_spreading_by_zone_needs_three_more_nodes(tmp_path):
    even = f"[{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule}}]"
    settings = f"PodTopologySpread.defaultConstraints={even}", "PodTopologySpread.defaultingType=List"
    found = compared(in_one_zone(tmp_path / "history"), *settings)
    assert found.autoscaler == "cluster-autoscaler"
    assert found.now.curve[-1].nodes == 6
    assert found.candidate.curve[-1].nodes == 9
    assert (found.now.widest.share, found.candidate.widest.share) == (1.0, pytest.approx(0.5, abs=0.01))
    assert row(found, "largest share of a service in one zone")["difference"] == "-50 points"
    assert found.candidate.never_placed == 0


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, form):
    folder = packable(tmp_path / "history")

    def run(seed):
        found = compared(folder, PACK, fleet=FleetChoice("karpenter"), seed=seed)
        return json.dumps(found.to_dict()) if form == "json" else found.text()

    assert run(1) == run(1)


def test_a_pool_of_larger_nodes_replaces_the_small_ones(tmp_path):
    pool = parse_pool("name=large,cpu=16,memory=64Gi,price=0.7,replaces=pool")
    found = compared(
        packable(tmp_path / "history"),
        fleet=FleetChoice("none"),
        candidate_fleet=FleetChoice("cluster-autoscaler", (pool,)),
        prices=PRICES.but({"large": 0.7}),
    )
    assert found.candidate.curve[-1].nodes == 4  # 60 pods of 1 CPU, 16 on a node
    assert found.candidate.never_placed == 0
    assert found.changed_decisions == 0
    assert found.candidate.cost < found.now.cost


def test_a_simulation_that_is_not_like_the_history_says_so_first(tmp_path):
    """The history was made by a scheduler that packs, and now is said to be the default one."""
    packing = with_settings(None, (), [PACK])
    folder = packable(tmp_path / "history", packing)
    found = compared(folder, "NodeResourcesFit.weight=2")
    assert found.calibration.equal_decisions < 0.5
    assert found.text().startswith("Poor match: the simulation of now is not like the history: only ")


def test_waits_are_those_of_the_history(tmp_path):
    """Nodes with room for one pod each, and jobs of 100 s: the waits follow from that."""
    pods = [PodArrives(10.0 + n, make_pod(f"job-{n:02}", cpu="3"), runs=100.0) for n in range(30)]
    folder = record(
        tmp_path / "history",
        pods,
        seconds=3600.0,
        nodes=[pool_node(f"n{n}") for n in range(3)],
        behaviour=Behaviour(attempt_seconds=0.002),
    )
    found = compared(folder, "NodeResourcesFit.weight=2")
    assert found.recorded.waits.p95 > 800
    assert found.now.waits == found.recorded.waits
    assert found.now.placed == found.recorded.placed == 30


@pytest.mark.parametrize("name", ["default-scheduler", "packer"])
def test_a_scheduler_that_the_candidate_does_not_serve_is_named(tmp_path, name):
    folder = packable(tmp_path / "history")
    history = open_history(folder)
    candidate = SimulatedScheduler(KubeSchedulerConfiguration(profiles=[KubeSchedulerProfile(schedulerName=name)]))
    runs = SimulationRun(seed=0), SimulationRun(candidate, seed=0)
    text = (
        "no scheduler of the candidate serves 60 pods of scheduler 'default-scheduler': they have the nodes that were "
        "recorded, or none. Its profiles are packer: give one of them schedulerName default-scheduler"
    )
    found = [each for each in compare(history, Lookahead(history, PRICES.of), *runs).notes if "serves" in each]
    assert found == ([] if name == "default-scheduler" else [text])


@score_plugin
def fuller(pod, node):
    return 1


class TestSettingsOfPluginsWithSmallLetters:
    plugins = (fuller,)

    def test_they_are_plugins_where_no_field_has_the_name(self):
        configuration = with_settings(None, self.plugins, ["fuller.weight=5"])
        enabled = configuration.profiles[0].plugins.multiPoint.enabled
        assert [each.weight for each in enabled if each.name == "fuller"] == [5]

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("fulller.weight=5", "there is no field and no plugin fulller: did you mean 'fuller'?"),
            ("paralelism=5", "there is no field and no plugin paralelism: did you mean 'parallelism'?"),
            ("parallelism=many", "parallelism: "),
        ],
    )
    def test_what_is_neither_a_field_nor_a_plugin_is_said(self, setting, message):
        with pytest.raises(BacktestError, match=f"--set {setting}: .*") as caught:
            with_settings(None, self.plugins, [setting])
        assert message in str(caught.value)
