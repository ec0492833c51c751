"""What a history makes happen in a simulation: pods of nodes, of other schedulers, and of pools that are managed."""

import pytest
from tests.backtest.histories import pool_node, record
from tests.simulation.timelines import OWNED

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import FleetChoice, SimulationRun, open_history, simulate
from bayplan.answers.backtest.stream import Stream
from bayplan.answers.simulation.happenings import NodeComes, NodeGoes, PodArrives, PodEnds, PodIsPlaced
from bayplan.answers.simulation.models.parameters import (
    AutoscalerParameters,
    GroupParameters,
    JobParameters,
    Parameters,
)
from bayplan.answers.simulation.timeline import TimelineObserver
from bayplan.core.api.kinds import NODE, POD
from bayplan.testing import make_pod

DAEMON = ("apps/v1", "DaemonSet", "agent")
FIXED = {"pool": "pool"}
JOB = ("batch/v1", "Job", "nightly")


class Final(TimelineObserver):
    """`nodes` and `pods` at the end."""

    def begin(self, timeline):
        self._timeline = timeline

    def end(self):
        objects = self._timeline.world.state.objects
        self.nodes = sorted(objects[NODE])
        self.pods = {pod.name: pod.node_name for pod in objects[POD].values()}


def agent(node):
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return make_pod(f"agent-{node}", cpu="100m", owner=DAEMON, affinity=affinity)


def replayed(folder, fleet="auto", parameters=None):
    history, final = open_history(folder), Final()
    ahead = Lookahead(history, lambda _: None)
    run = SimulationRun(fleet=FleetChoice(fleet), parameters=parameters or Parameters())
    return simulate(history, ahead, run, also=(final,)), final, ahead


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Nodes a and b of a fixed pool; c of another pool goes after 20 minutes. Each has a pod of a DaemonSet."""
    nodes = [pool_node("a"), pool_node("b"), pool_node("c", pool="spot", cpu="8")]
    happenings = [
        *(PodArrives(0.0, make_pod(f"agent-{name}", cpu="100m", owner=DAEMON, node=name)) for name in "abc"),
        PodArrives(30.0, make_pod("nightly", cpu="1", owner=JOB, node_selector=FIXED), runs=600.0),
        PodArrives(40.0, make_pod("web", cpu="1", owner=OWNED, node_selector=FIXED)),
        PodArrives(50.0, make_pod("large", cpu="6", owner=OWNED)),
        PodEnds(1000.0, "default-large"),
        NodeGoes(1200.0, "c"),
        NodeComes(1800.0, pool_node("d")),
        PodArrives(1801.0, agent("d")),
    ]
    return record(tmp_path_factory.mktemp("histories") / "day", happenings, seconds=7200.0, nodes=nodes)


def test_a_replay_without_an_autoscaler_follows_the_nodes(folder):
    result, final, ahead = replayed(folder, "none")
    assert final.nodes == ["a", "b", "d"]
    assert {name for name in final.pods if name.startswith("agent")} == {"agent-a", "agent-b", "agent-d"}
    assert result.summary.nodes == pytest.approx(ahead.recorded.nodes)
    assert result.summary.placed == ahead.recorded.placed == 3
    assert result.summary.evicted == 0


def test_a_job_runs_as_long_as_it_did(folder):
    _, ahead = open_history(folder), replayed(folder, "none")[2]
    assert [round(seconds) for seconds in ahead.runs if seconds == seconds] == [600]  # noqa: PLR0124 - NaN is not itself
    ends = [each for each in Stream(open_history(folder), ahead, {"default-scheduler"}) if isinstance(each, PodEnds)]
    assert [(round(each.at), each.uid) for each in ends][:1] == [(1000, "default-large")]
    assert all(each.uid != "default-nightly" for each in ends)


def test_given_durations_replace_those_of_the_history(folder):
    never = Parameters(jobs=(JobParameters("job default/nightly", 100_000.0),))
    assert "nightly" in replayed(folder, "none", never)[1].pods
    assert "nightly" not in replayed(folder, "none")[1].pods


def test_managed_pools_have_nodes_as_they_need_them(folder):
    """c is not removed by the history, but because it is empty; nothing asks for d. Every node has its agent."""
    result, final, _ = replayed(folder, "cluster-autoscaler")
    assert result.autoscaler == "cluster-autoscaler"
    assert len(final.nodes) == 1
    agents = [name for name in final.pods if name.startswith("agent")]
    assert [final.pods[name] for name in agents] == final.nodes


def test_limits_of_pools(folder):
    limits = AutoscalerParameters(groups=(GroupParameters(pool="pool", minimum=2), GroupParameters(maximum=5)))
    _, final, _ = replayed(folder, "cluster-autoscaler", Parameters(autoscaler=limits))
    assert final.nodes == ["a", "b"]


def test_pods_of_other_schedulers_keep_their_nodes(folder):
    history, (_, _, ahead) = open_history(folder), replayed(folder, "none")
    happenings = list(Stream(history, ahead, {"another-scheduler"}))
    placed = {each.uid for each in happenings if isinstance(each, PodIsPlaced)}
    assert placed == {"default-nightly", "default-web", "default-large"}
