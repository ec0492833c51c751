"""Selecting victims on a node, and the best candidate."""

import pytest
from preempting import HIGH, LOW, MIDDLE, budget, cluster_of, labelled, preempted, running, vip
from tests.support.tables import cases

from bayplan.testing.builders import make_cluster, make_node

ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def low(name, cpu="1", **fields):
    return running(name, "a", LOW, cpu, **fields)


def middle(name, cpu="1", **fields):
    return running(name, "a", MIDDLE, cpu, **fields)


@pytest.mark.feature("DefaultPreemption: dry runs and the order of reprieve")
@cases(
    "pods, pod, victims",
    {
        "lower priority only": ([running("low", "a"), running("high", "a", HIGH)], vip("1"), ["low"]),
        "small pod of lower priority stays": (
            [low("small", "100m"), middle("large", "1900m")],
            vip("1500m"),
            ["large"],
        ),
        "of mixed priorities, some more than the lowest": (
            [middle("m1", "200m"), low("l", "200m"), middle("m2", "1"), running("h", "a", HIGH, "200m")],
            vip("1500m"),
            ["m2", "l"],
        ),
        "of equal priority the youngest": (
            [low("late", "500m", started=9), low("early", "500m", started=1)],
            vip("1500m"),
            ["late"],
        ),
        "not started before started": (
            [low("started", "500m", started=9), low("not-yet", "500m")],
            vip("1500m"),
            ["not-yet"],
        ),
        "started at the earliest time, without a zone": (
            [low("first", "500m", status={"startTime": "0001-01-01T00:00:00"}), low("later", "500m", started=1)],
            vip("1500m"),
            ["later"],
        ),
        "all, the oldest first": ([low("early", started=1), low("late", started=9)], vip("2"), ["early", "late"]),
        "anti-affinity of the victim": (
            [low("web", "100m", affinity=ANTI_AFFINITY), middle("other", "100m")],
            vip("100m", **labelled("web")),
            ["web"],
        ),
        "anti-affinity of the pod": (
            [low("web", "100m", **labelled("web")), low("other", "100m")],
            vip("100m", affinity=ANTI_AFFINITY),
            ["web"],
        ),
        "host port of the victim": (
            [low("web", "100m", host_ports=[80]), low("other", "100m", host_ports=[81])],
            vip("100m", host_ports=[80]),
            ["web"],
        ),
        "negative priorities are compared too": ([running("p", "a", -20, "2")], vip("2", priority=-10), ["p"]),
    },
)
def test_victims_on_a_node(pods, pod, victims):
    assert preempted(cluster_of(*pods, nodes="a"), pod) == ("a", victims)


@pytest.mark.feature("DefaultPreemption: dry runs and the order of reprieve")
def test_dry_run_repairs_topology_spread():
    zones = {"a": "1", "b": "1", "x": "2"}
    nodes = [make_node(name, labels={"zone": zone}) for name, zone in zones.items()]
    spread = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTS_WEB}
        for key in ("zone", "kubernetes.io/hostname")
    ]
    pods = [
        running("a1", "a", MIDDLE, **labelled("web")),
        running("a2", "a", LOW, **labelled("web")),
        running("b1", "b", LOW, **labelled("web")),
        running("x1", "x", HIGH, **labelled("web")),
        running("x2", "x", HIGH, **labelled("web")),
    ]
    pod = vip("100m", spec={"topologySpreadConstraints": spread}, **labelled("web"))
    node, victims = preempted(make_cluster(*nodes, *pods), pod)
    assert (node, victims) in [("a", ["a2"]), ("b", ["b1"])]


SELECTS_WEB = {"matchLabels": {"app": "web"}}
UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Near"}]}


@pytest.mark.feature("DefaultPreemption: disruption budgets")
@cases(
    "allowed, options, victim",
    {
        "two evictions allowed": (2, {}, "young"),
        "one eviction allowed": (1, {}, "old"),
        "no eviction allowed": (0, {}, "plain"),
        "a budget of another namespace": (0, {"namespace": "other"}, "young"),
        "empty selector protects no pod": (0, {"selector": {}}, "young"),
        "invalid selector protects no pod": (0, {"selector": UNREADABLE}, "young"),
        "disrupted pods are not counted": (0, {"disrupted": ["old", "young"]}, "young"),
    },
)
def test_protected_pods_are_restored_first(allowed, options, victim):
    """One of three pods has to be evicted; the least important ones are protected."""
    pods = [
        running("old", "a", LOW, "500m", started=1, **labelled("db")),
        running("young", "a", LOW, "500m", started=2, **labelled("db")),
        running("plain", "a", MIDDLE, "1", started=3),
    ]
    cluster = cluster_of(*pods, nodes="a", budgets=[budget("db", "db", allowed, **options)])
    assert preempted(cluster, vip("500m")) == ("a", [victim])


@pytest.mark.feature("DefaultPreemption: disruption budgets")
def test_budget_protects_no_pod_without_labels():
    everything = {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}
    pods = [running("bare", "a", LOW), running("labelled", "a", LOW, started=1, **labelled("db"))]
    cluster = cluster_of(*pods, nodes="a", budgets=[budget("all", "", selector=everything)])
    assert preempted(cluster, vip("1")) == ("a", ["bare"])


@pytest.mark.feature("DefaultPreemption: choice among candidates")
@cases(
    "pods, best",
    {
        "budget violations": ([running("a1", "a", LOW, "2", **labelled("db")), running("b1", "b", MIDDLE, "2")], "b"),
        "highest priority": ([running("a1", "a", MIDDLE, "2"), running("b1", "b", LOW, "2")], "b"),
        "sum of priorities": (
            [running(f"{node}1", node, MIDDLE, "1") for node in "ab"]
            + [running("a2", "a", 50), running("b2", "b", LOW)],
            "b",
        ),
        "fewer victims of negative priority, though their sum is higher": (
            [running("a1", "a", -5), running("a2", "a", -5), running("b1", "b", -5, "2")],
            "b",
        ),
        "latest start of the oldest": (
            [
                running("a1", "a", MIDDLE, started=1),
                running("a2", "a", MIDDLE, started=9),
                running("b1", "b", MIDDLE, started=3),
                running("b2", "b", MIDDLE, started=4),
            ],
            "b",
        ),
        "start of the most important only": (
            [
                running("a1", "a", MIDDLE, started=5),
                running("a2", "a", LOW, started=9),
                running("b1", "b", MIDDLE, started=6),
                running("b2", "b", LOW, started=1),
            ],
            "b",
        ),
        "not started": ([running("a1", "a", LOW, "2", started=59), running("b1", "b", LOW, "2")], "b"),
    },
)
@pytest.mark.parametrize("seed", range(3))
def test_best_candidate_is_selected(pods, best, seed):
    cluster = cluster_of(*pods, budgets=[budget("db", "db")])
    assert cluster.decide(vip("2"), seed).nominated_node == best
