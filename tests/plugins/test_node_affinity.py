import msgspec
import pytest
from tests.support.tables import cases

from bayplan.core.framework.events import Hint
from bayplan.core.framework.interface import CycleState, NodeNames
from bayplan.core.framework.status import Code
from bayplan.core.plugins.arguments import NodeAffinityArgs
from bayplan.core.plugins.node_affinity import NodeAffinity
from bayplan.core.scheduling import Outcome
from bayplan.testing.builders import make_cluster, make_node, make_pod

ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
ZONE_B = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}


def named(*names):
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


def requiring(*terms, name="p", **more):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return make_pod(name, affinity={"nodeAffinity": required}, **more)


def preferring(*weighted, name="p"):
    terms = [{"weight": weight, "preference": term} for weight, term in weighted]
    return make_pod(name, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})


@pytest.fixture
def cluster():
    return make_cluster(
        make_node("one", labels={"zone": "a"}),
        make_node("two", labels={"zone": "b"}),
        make_node("three", labels={"zone": "b", "disk": "ssd"}),
    )


def feasible(decision, cluster):
    return {cluster.state.table.names[row] for row in decision.feasible}


@cases(
    "pod, names",
    {
        "selector": (make_pod("p", node_selector={"zone": "b"}), {"two", "three"}),
        "whole selector": (make_pod("p", node_selector={"zone": "b", "disk": "ssd"}), {"three"}),
        "affinity": (requiring(ZONE_A), {"one"}),
        "one of the terms": (requiring(ZONE_A, ZONE_B), {"one", "two", "three"}),
        "both": (requiring(ZONE_B, node_selector={"disk": "ssd"}), {"three"}),
        "no terms match nothing": (requiring(), set()),
        "an empty term matches nothing": (requiring({}), set()),
        "unusual operators": (
            requiring({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}),
            set(),
        ),
        "by name": (requiring(named("two")), {"two"}),
        "by name and label": (requiring({**named("two"), **ZONE_A}), set()),
        "by name or label": (requiring(named("two"), ZONE_A), {"one", "two"}),
    },
)
def test_filter(cluster, pod, names):
    decision = cluster.decide(pod)
    assert feasible(decision, cluster) == names
    if not names:
        assert decision.outcome is Outcome.UNSCHEDULABLE
        assert "NodeAffinity" in decision.diagnosis.unschedulable_plugins


@cases(
    "pod, answer",
    {
        "no requirements": (make_pod("p"), Code.SKIP),
        "one": (requiring(named("two")), NodeNames(frozenset({"two"}))),
        "either": (requiring(named("two"), named("one")), NodeNames(frozenset({"one", "two"}))),
        "both at once": (requiring(named("two", "one")), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        "name or label": (requiring(named("two"), ZONE_A), None),
    },
)
def test_pre_filter_returns_node_names(cluster, pod, answer):
    got = NodeAffinity().pre_filter(CycleState(), pod, cluster.state.nodes)
    assert (got.code if isinstance(answer, Code) else got) == answer


def test_nodes_excluded_by_name_are_counted(cluster):
    decision = cluster.decide(requiring({**named("two"), **ZONE_A}))
    assert decision.message.startswith(
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def scores(cluster, pod):
    found = cluster.decide(pod).scores
    names = [cluster.state.table.names[row] for row in found.rows]
    plugin = found.plugins.get("NodeAffinity")
    return None if plugin is None else dict(zip(names, plugin.tolist(), strict=True))


def test_preferred_weights_are_summed_and_normalized(cluster):
    ssd = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    assert scores(cluster, preferring((1, ZONE_A), (2, ZONE_B), (5, ssd))) == {"one": 28, "two": 56, "three": 200}


def test_pod_without_preferences_is_not_scored(cluster):
    assert scores(cluster, make_pod("p")) is None


def test_invalid_preference_fails_the_attempt(cluster):
    decision = cluster.decide(preferring((1, {"matchExpressions": [{"key": "zone", "operator": "Near"}]})))
    assert decision.outcome is Outcome.ERROR
    assert decision.failed_plugin == "NodeAffinity"
    assert "[0].matchExpressions[0].operator: Unsupported value" in decision.message


def added(required=None, preferred=None):
    affinity = {}
    if required:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [required]}
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 3, "preference": preferred}]
    return NodeAffinity(msgspec.convert({"addedAffinity": affinity}, NodeAffinityArgs))


def test_added_affinity_is_enforced_first(cluster):
    plugin = added(required=ZONE_B)
    rejections = plugin.filter_nodes(CycleState(), make_pod("p", node_selector={"disk": "ssd"}), cluster.state.nodes)
    messages = [rejections.statuses[index - 1].message if index else "" for index in rejections.index]
    assert messages == [
        "node(s) didn't match scheduler-enforced node affinity",
        "node(s) didn't match Pod's node affinity/selector",
        "",
    ]
    assert plugin.pre_filter(CycleState(), make_pod("p"), cluster.state.nodes) is None


def test_added_preference_applies_to_all_pods(cluster):
    plugin = added(preferred=ZONE_B)
    assert plugin.pre_score(CycleState(), make_pod("p"), cluster.state.nodes) is None
    assert plugin.score_nodes(CycleState(), preferring((4, ZONE_A)), cluster.state.nodes).tolist() == [4, 3, 3]


def test_an_added_preference_without_requirements_scores_all_nodes_alike(cluster):
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {}}]}
    plugin = NodeAffinity(msgspec.convert({"addedAffinity": affinity}, NodeAffinityArgs))
    assert plugin.pre_score(CycleState(), make_pod("p"), cluster.state.nodes) is None
    assert plugin.score_nodes(CycleState(), make_pod("p"), cluster.state.nodes).tolist() == [0, 0, 0]


NEEDS_B = make_pod("p", node_selector={"zone": "b"})


@pytest.mark.feature("NodeAffinity: queueing hints")
@cases(
    "plugin, old, new, hint",
    {
        "new": (NodeAffinity(), None, make_node("n", labels={"zone": "b"}), Hint.QUEUE),
        "new but wrong": (NodeAffinity(), None, make_node("n", labels={"zone": "a"}), Hint.SKIP),
        "changed to match": (NodeAffinity(), make_node("n"), make_node("n", labels={"zone": "b"}), Hint.QUEUE),
        "matched before": (
            NodeAffinity(),
            make_node("n", labels={"zone": "b"}),
            make_node("n", labels={"zone": "b"}),
            Hint.SKIP,
        ),
        "not enforced": (added(required=ZONE_A), None, make_node("n", labels={"zone": "b"}), Hint.SKIP),
    },
)
def test_hint_after_node_change(plugin, old, new, hint):
    assert plugin.after_node_change(NEEDS_B, old, new) is hint
