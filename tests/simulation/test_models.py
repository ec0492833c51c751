"""Models of what surrounds a scheduler: budgets, autoscalers, interruptions, failures."""

import pytest
from tests.simulation.timelines import OWNED, Diary, pods_on, timeline_of

from bayplan.answers.simulation.behaviour import Behaviour, Startup
from bayplan.answers.simulation.happenings import ObjectChanges, PodArrives, PodEnds
from bayplan.answers.simulation.models.autoscaler.autoscaler import Autoscaler
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.autoscaler.rules import PRESETS
from bayplan.answers.simulation.models.budgets import BudgetController
from bayplan.answers.simulation.models.interruptions import NodeFailure, NodeFailures, SpotInterruptions
from bayplan.core.api.kinds import NODE, POD, POD_DISRUPTION_BUDGET
from bayplan.core.api.objects import convert
from bayplan.testing import make_node, make_pod

BEHAVIOUR = Behaviour(attempt_seconds=0.0, startup=Startup(seconds=0.0))
DAEMON = ("apps/v1", "DaemonSet", "agent")


def budget(**spec):
    document = {
        "metadata": {"name": "web", "namespace": "default", "uid": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    return ObjectChanges(0.0, POD_DISRUPTION_BUDGET, "default/web", convert(POD_DISRUPTION_BUDGET.type, document))


def group(name, cpu="4", *, daemons=False, **options):
    def make(node):
        yield NODE, node, make_node(node, cpu=cpu, labels={"pool": name})
        if daemons:
            pod = make_pod(f"agent-{node}", cpu="500m", node=node, owner=DAEMON)
            yield POD, pod.key, pod

    return ScaledGroup(name, make, lambda node: node.metadata.labels.get("pool") == name, **options)


def autoscaled(happenings, *groups, preset="cluster-autoscaler", budgets=None, rules=None, **options):
    budgets = budgets or BudgetController()
    scaler = Autoscaler(groups, rules or PRESETS[preset], budgets)
    return timeline_of(happenings, observers=(budgets, scaler), behaviour=BEHAVIOUR, **options)


def web(number, cpu="1", **options):
    return make_pod(f"web-{number}", cpu=cpu, labels={"app": "web"}, owner=OWNED, **options)


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 2}, 2),
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "60%"}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "30%"}, 2),
        ({"maxUnavailable": "many"}, 0),
    ],
)
def test_budgets_count_pods(spec, allowed):
    happenings = [budget(**spec), *(PodArrives(1.0, web(n)) for n in range(4))]
    timeline, _ = timeline_of(happenings, nodes=["a"], observers=(BudgetController(),), behaviour=BEHAVIOUR)
    status = timeline.world.state.objects[POD_DISRUPTION_BUDGET]["default/web"].status
    assert (status.disruptionsAllowed if status else 0) == allowed


def test_pods_that_their_owner_deletes_are_not_expected():
    happenings = [budget(minAvailable="50%"), *(PodArrives(1.0, web(n)) for n in range(4))]
    happenings += [PodEnds(2.0, "default-web-0"), PodEnds(2.0, "default-web-1")]
    timeline, _ = timeline_of(happenings, nodes=["a"], observers=(BudgetController(),), behaviour=BEHAVIOUR)
    status = timeline.world.state.objects[POD_DISRUPTION_BUDGET]["default/web"].status
    assert (status.disruptionsAllowed, status.expectedPods) == (1, 2)


@pytest.mark.parametrize("preset", PRESETS)
def test_nodes_come_for_pods_that_wait_and_go_when_they_are_empty(preset):
    happenings = [PodArrives(100.0, make_pod(f"job-{n}", cpu="2"), runs=1000.0) for n in range(5)]
    timeline, diary = autoscaled(happenings, group("pool", delay=50.0), preset=preset, until=3000.0)
    bound = {line.split()[3] for line in diary.of("bound")}
    assert bound == {"pool-1", "pool-2", "pool-3"}  # two of them fit on a node
    assert all(150.0 < float(line.split()[0]) < 165.0 for line in diary.of("bound"))
    assert not timeline.world.state.objects[NODE]


def test_nodes_that_are_coming_count():
    """The pods of the second minute fit on nodes that were asked for in the first one."""
    happenings = [PodArrives(10.0, make_pod("a", cpu="2")), PodArrives(60.0, make_pod("b", cpu="2"))]
    timeline, diary = autoscaled(happenings, group("pool", delay=300.0))
    assert {line.split()[3] for line in diary.of("bound")} == {"pool-1"}
    assert list(timeline.world.state.objects[NODE]) == ["pool-1"]


def test_limits_and_unhelpful_groups():
    happenings = [PodArrives(1.0, make_pod(f"p{n}", cpu="3")) for n in range(5)]
    happenings.append(PodArrives(1.0, make_pod("large", cpu="9")))
    timeline, _ = autoscaled(happenings, group("small", "2"), group("pool", maximum=3))
    assert sorted(timeline.world.state.objects[NODE]) == ["pool-1", "pool-2", "pool-3"]


@pytest.mark.parametrize(("large", "nodes"), [(0.30, ["large-1"]), (0.80, ["small-1", "small-2", "small-3"])])
def test_the_cheapest_group_grows(large, nodes):
    happenings = [PodArrives(1.0, make_pod(f"p{n}", cpu="3")) for n in range(3)]
    groups = group("large", "12", price=large), group("small", "4", price=0.20)
    timeline, _ = autoscaled(happenings, *groups)
    assert sorted(timeline.world.state.objects[NODE]) == nodes


def test_new_nodes_have_the_pods_of_daemon_sets():
    happenings = [PodArrives(1.0, make_pod(f"p{n}", cpu="2")) for n in range(2)]
    timeline, _ = autoscaled(happenings, group("pool", daemons=True))
    assert set(pods_on(timeline)) == {"p0", "p1", "agent-pool-1", "agent-pool-2"}


def two_half_empty_nodes(**options):
    nodes = [make_node(name, labels={"pool": "pool"}) for name in "ab"]
    return [PodArrives(0.0, web(n, node=name, **options)) for n, name in enumerate("ab")], nodes


@pytest.mark.parametrize(("preset", "seconds"), [("cluster-autoscaler", 670.0), ("karpenter", 40.0)])
def test_nodes_go_whose_pods_fit_elsewhere(preset, seconds):
    happenings, nodes = two_half_empty_nodes()
    timeline, diary = autoscaled(happenings, group("pool"), preset=preset, nodes=nodes)
    drained = diary.of("drained")
    assert len(drained) == 1
    assert float(drained[0].split()[0]) <= seconds
    assert len(timeline.world.state.objects[NODE]) == 1
    assert len(pods_on(timeline)) == 2


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        (PRESETS["karpenter"], {"b"}),
        (PRESETS["karpenter"].changed({"consolidate": False}), {"a", "b"}),
        (PRESETS["cluster-autoscaler"].changed({"consolidate": True}), {"b"}),
        (PRESETS["cluster-autoscaler"], {"a", "b"}),
    ],
    ids=["karpenter", "karpenter below its threshold", "any node", "cluster-autoscaler"],
)
def test_consolidation_is_about_full_nodes_too(rules, left):
    """The pod of the full node fits on the other one, whose pod fits nowhere else."""
    nodes = [make_node("a", cpu="1", labels={"pool": "pool"}), make_node("b", labels={"pool": "pool"})]
    happenings = [PodArrives(0.0, web(n, node=name)) for n, name in enumerate("ab")]
    timeline, _ = autoscaled(happenings, group("pool"), rules=rules, nodes=nodes)
    assert set(timeline.world.state.objects[NODE]) == left


@pytest.mark.parametrize(
    "options",
    [
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"namespace": "kube-system"},
        {"cpu": "2500m"},
        {"node_selector": {"kubernetes.io/hostname": "a"}},
    ],
    ids=["local data", "kube-system", "no room elsewhere", "no other node"],
)
def test_nodes_stay_whose_pods_must_stay(options):
    happenings, nodes = two_half_empty_nodes(**options)
    timeline, diary = autoscaled(happenings[:1], group("pool", minimum=1), nodes=nodes[:1])
    assert "a" in timeline.world.state.objects[NODE]
    happenings, nodes = two_half_empty_nodes(**options)
    timeline, diary = autoscaled(happenings, group("pool"), nodes=nodes)
    assert not diary.of("drained") or "node_selector" in options
    assert "a" in timeline.world.state.objects[NODE]


def test_nodes_are_emptied_as_budgets_allow():
    happenings, nodes = two_half_empty_nodes(cpu="500m")
    happenings += [PodArrives(0.0, web(n, "500m", node="a")) for n in range(2, 4)]
    timeline, diary = autoscaled(
        [budget(maxUnavailable=1), *happenings], group("pool"), preset="karpenter", nodes=nodes, until=600.0
    )
    times = [float(line.split()[0]) for line in diary.of("drained")]
    assert len(timeline.world.state.objects[NODE]) == 1
    assert times == sorted(set(times))


def test_a_cheaper_node_replaces_a_dear_one():
    """Karpenter's rules: the pods don't fit elsewhere, but on one cheaper node."""
    nodes = [make_node("dear", cpu="16", labels={"pool": "dear"})]
    groups = group("dear", "16", price=0.8), group("cheap", "4", price=0.2)
    timeline, diary = autoscaled([PodArrives(0.0, web(0, node="dear"))], *groups, preset="karpenter", nodes=nodes)
    assert list(timeline.world.state.objects[NODE]) == ["cheap-1"]
    assert [line.split()[1:3] for line in diary.of("drained")] == [["drained", "web-0"]]


def test_a_node_fails_and_returns():
    failures = NodeFailures([NodeFailure("a", at=100.0, returns=200.0), NodeFailure("unknown", at=5.0)])
    timeline, diary = timeline_of(
        [PodArrives(0.0, web(0))], nodes=["a", make_node("tiny", cpu="100m")], observers=(failures,)
    )
    assert diary.of("node") == ["100.000 node lost web-0 a"]
    assert pods_on(timeline) == {"web-0+1": "a"}


def test_spot_nodes_are_taken_back_after_a_notice():
    def run(seed):
        spot = SpotInterruptions("capacity", "spot", per_hour=1.0)
        nodes = [make_node(f"spot-{n}", labels={"capacity": "spot"}) for n in range(20)]
        nodes += [make_node(f"usual-{n}") for n in range(20)]
        timeline, diary = timeline_of(
            [PodArrives(0.0, web(n, "3")) for n in range(20)], nodes=nodes, observers=(spot,), seed=seed
        )
        left = [name for name in timeline.world.state.objects[NODE] if name.startswith("spot")]
        return len(left), diary.of("interrupted"), list(timeline.world.state.objects[NODE])

    left, interrupted, nodes = run(1)
    assert 2 <= left <= 13  # 20 / e = 7.4 on average
    assert interrupted
    assert sum(name.startswith("usual") for name in nodes) == 20
    assert run(1) == (left, interrupted, nodes)
    assert run(2) != (left, interrupted, nodes)


def test_observers_see_the_begin_before_anything_else():
    class Order(Diary):
        def begin(self, timeline):
            super().begin(timeline)
            self.lines.append("begin")

    order = Order()
    timeline_of([PodArrives(0.0, web(0, node="a")), PodArrives(1.0, web(1))], nodes=["a"], observers=(order,))
    assert order.lines == ["begin", "1.000 bound web-1 a"]
