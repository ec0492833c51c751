"""Filtering by PodTopologySpread."""

from __future__ import annotations

import pytest

from bayplan.api.labels import InvalidSelector
from bayplan.cluster.pod_changes import PodChanges
from bayplan.framework.status import PluginError
from bayplan.plugins.pod_topology_spread.constraints import HARD, SOFT, own_constraints
from bayplan.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing.asking import ask_filter
from bayplan.testing.builders import make_cluster, make_node, make_pod, spread_over

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
FITS = ""
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
A1, A2 = make_node("a1", labels={"zone": "a"}), make_node("a2", labels={"zone": "a"})
B1, B2 = make_node("b1", labels={"zone": "b"}), make_node("b2", labels={"zone": "b"})
NODES = (A1, A2, B1, B2)


def pods(*, labels=WEB, **numbers):
    """A number of pods on each node."""
    return [
        make_pod(f"{node}-{index}", node=node, labels=labels)
        for node, number in numbers.items()
        for index in range(number)
    ]


def spreading(*constraints, labels=WEB, **more):
    return make_pod("pending", labels=labels, spread=constraints, **more)


def ask(pod, *objects, what_ifs=None):
    state = make_cluster(*objects).state
    return ask_filter(PodTopologySpread(OfflineHandle(state)), pod, state, what_ifs)


def nodes(a1, a2, b1, b2):
    return {"a1": a1, "a2": a2, "b1": b1, "b2": b2}


def zones(a, b):
    return nodes(a, a, b, b)


@pytest.mark.feature("PodTopologySpread: DoNotSchedule")
@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(make_pod("pending", labels=WEB), pods(a1=3), None, id="no constraints"),
        pytest.param(spreading(spread_over("zone", WEB, hard=False)), pods(a1=3), None, id="ScheduleAnyway only"),
        pytest.param(
            spreading({**spread_over("zone", WEB), "whenUnsatisfiable": "Whatever"}),
            pods(a1=3),
            None,
            id="unknown action",
        ),
        pytest.param(spreading(spread_over("zone", WEB)), [], zones(FITS, FITS), id="no pods"),
        pytest.param(
            spreading(spread_over("zone", WEB), labels={}), [], zones(FITS, FITS), id="no pods, no self match"
        ),
        pytest.param(spreading(spread_over("zone", WEB)), pods(a1=2, a2=1, b2=3), zones(FITS, FITS), id="zones 3/3"),
        pytest.param(spreading(spread_over("zone", WEB)), pods(a1=1), zones(UNEVEN, FITS), id="zones 1/0"),
        pytest.param(spreading(spread_over("zone", WEB)), pods(a1=2, b1=1), zones(UNEVEN, FITS), id="zones 2/1"),
        pytest.param(
            spreading(spread_over("zone", WEB, max_skew=2)), pods(a1=2, b1=1), zones(FITS, FITS), id="zones 2/1, skew 2"
        ),
        pytest.param(
            spreading(spread_over(HOST, WEB)),
            pods(a1=2, a2=1, b2=3),
            nodes(UNEVEN, UNEVEN, FITS, UNEVEN),
            id="nodes 2/1/0/3",
        ),
        pytest.param(
            spreading(spread_over(HOST, WEB, max_skew=2)),
            pods(a1=2, a2=1, b2=3),
            nodes(UNEVEN, FITS, FITS, UNEVEN),
            id="nodes 2/1/0/3, skew 2",
        ),
        pytest.param(
            spreading(spread_over(HOST, WEB), labels={}),
            pods(a1=2, a2=1, b2=3),
            nodes(UNEVEN, FITS, FITS, UNEVEN),
            id="nodes 2/1/0/3, no self match",
        ),
        pytest.param(
            spreading(spread_over("zone", WEB)),
            pods(labels={"app": "db"}, a1=3),
            zones(FITS, FITS),
            id="other pods are ignored",
        ),
        pytest.param(
            spreading(spread_over("zone", WEB), namespace="other"),
            pods(a1=3),
            zones(FITS, FITS),
            id="other namespaces are ignored",
        ),
        pytest.param(spreading(spread_over("zone")), pods(a1=3), zones(FITS, FITS), id="no selector"),
        pytest.param(
            spreading(spread_over("zone", {})),
            pods(a1=3),
            zones(FITS, FITS),
            id="empty selector matches only itself",
        ),
        pytest.param(
            spreading(spread_over("zone", {}, max_skew=1), labels={}),
            pods(a1=3),
            zones(FITS, FITS),
            id="an empty selector, {}",
        ),
        pytest.param(spreading(spread_over("rack", WEB)), [], zones(NO_LABEL, NO_LABEL), id="no node has the label"),
        pytest.param(
            spreading(spread_over("zone", {"app": "Web"}), labels={"app": "Web"}),
            pods(a1=3),
            zones(FITS, FITS),
            id="case",
        ),
        pytest.param(
            spreading(spread_over("zone", WEB)),
            [make_pod("stray", node="gone", labels=WEB)],
            zones(FITS, FITS),
            id="a pod on a deleted node",
        ),
    ],
)
def test_do_not_schedule(pod, there, expected):
    assert ask(pod, *NODES, *there) == expected


@pytest.mark.feature("PodTopologySpread: DoNotSchedule, several constraints")
@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        pytest.param(
            [spread_over("zone", WEB), spread_over(HOST, WEB)],
            pods(a1=2, a2=1, b2=3),
            nodes(UNEVEN, UNEVEN, FITS, UNEVEN),
            id="zones 3/3, nodes 2/1/0/3",
        ),
        pytest.param(
            [spread_over("zone", WEB), spread_over(HOST, WEB)],
            pods(a1=2, a2=1, b2=4),
            zones(UNEVEN, UNEVEN),
            id="zones 3/4, nodes 2/1/0/4: no node",
        ),
        pytest.param(
            [spread_over("zone", WEB), spread_over(HOST, {"app": "db"})],
            [*pods(a1=1), *pods(labels={"app": "db"}, b1=1)],
            zones(UNEVEN, FITS),
            id="separate selectors",
        ),
        pytest.param(
            [spread_over("zone", WEB), spread_over("rack", WEB)],
            pods(a1=1),
            zones(NO_LABEL, NO_LABEL),
            id="nodes without all keys are ineligible for all constraints",
        ),
        pytest.param(
            [spread_over("zone", WEB), spread_over("zone", {"app": "db"})],
            [*pods(b1=1), *pods(labels={"app": "db"}, a1=2)],
            zones(UNEVEN, UNEVEN),
            id="two on one topology",
        ),
        pytest.param(
            [spread_over("zone", WEB), spread_over(HOST, WEB, hard=False)],
            pods(a1=1, b1=1),
            zones(FITS, FITS),
            id="soft constraint does not filter",
        ),
    ],
)
def test_several_constraints(constraints, there, expected):
    assert ask(spreading(*constraints), *NODES, *there) == expected


@pytest.mark.feature("PodTopologySpread: nodes without the label")
@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        pytest.param([spread_over("zone", WEB)], pods(nowhere=5), {"a1": FITS, "nowhere": NO_LABEL}, id="are rejected"),
        pytest.param(
            [spread_over(HOST, WEB), spread_over("zone", WEB)],
            pods(a1=1),
            {"a1": FITS, "nowhere": NO_LABEL},
            id="are ineligible for the other constraint",
        ),
        pytest.param(
            [spread_over(HOST, WEB), spread_over("zone", WEB)],
            pods(nowhere=1),
            {"a1": FITS, "nowhere": NO_LABEL},
            id="their pods are not counted",
        ),
    ],
)
def test_nodes_without_the_label(constraints, there, expected):
    assert ask(spreading(*constraints), A1, make_node("nowhere"), *there) == expected


@pytest.mark.feature("PodTopologySpread: label values")
def test_empty_value_is_a_domain():
    empty = make_node("empty", labels={"zone": ""})
    assert ask(spreading(spread_over("zone", WEB)), A1, empty, *pods(empty=1)) == {"a1": FITS, "empty": UNEVEN}


@pytest.mark.feature("PodTopologySpread: minDomains")
@pytest.mark.parametrize(
    ("topology", "least", "there", "expected"),
    [
        pytest.param(HOST, None, pods(a1=2, a2=2, b1=1, b2=1), nodes(FITS, FITS, FITS, FITS), id="unset is 1"),
        pytest.param(
            HOST, 5, pods(a1=2, a2=2, b1=1, b2=1), nodes(UNEVEN, UNEVEN, FITS, FITS), id="fewer domains: from 0"
        ),
        pytest.param(HOST, 4, pods(a1=2, a2=2, b1=1, b2=1), nodes(FITS, FITS, FITS, FITS), id="as many"),
        pytest.param(HOST, 3, pods(a1=2, a2=2, b1=1, b2=1), nodes(FITS, FITS, FITS, FITS), id="more"),
        pytest.param("zone", 3, pods(a1=2, b1=1), zones(UNEVEN, FITS), id="zones 2/1, fewer"),
        pytest.param("zone", 2, pods(a1=2, b1=1), zones(FITS, FITS), id="zones 2/1, as many"),
        pytest.param("zone", 3, pods(a1=2, b1=2), zones(UNEVEN, UNEVEN), id="fewer: balanced zones are full"),
    ],
)
def test_min_domains(topology, least, there, expected):
    fields = {} if least is None else {"minDomains": least}
    assert ask(spreading(spread_over(topology, WEB, max_skew=2, **fields)), *NODES, *there) == expected


TAINTED = make_node("b2", labels={"zone": "b"}, taints=["dedicated=x:NoSchedule"])
PREFERRED_AWAY = make_node("b2", labels={"zone": "b"}, taints=["dedicated=x:PreferNoSchedule"])
TOLERATES = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
ONLY_A = {"node_selector": {"zone": "a"}}
NOT_B2 = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["b2"]}]}]
            }
        }
    }
}


@pytest.mark.feature("PodTopologySpread: node affinity policy")
@pytest.mark.parametrize(
    ("policy", "more", "there", "expected"),
    [
        pytest.param(None, ONLY_A, pods(a1=1), nodes(UNEVEN, FITS, FITS, FITS), id="unset honors"),
        pytest.param("Honor", ONLY_A, pods(a1=1, a2=1), nodes(FITS, FITS, FITS, FITS), id="honored: b is ignored"),
        pytest.param(
            "Ignore", ONLY_A, pods(a1=1, a2=1), nodes(UNEVEN, UNEVEN, FITS, FITS), id="ignored: b has no pods"
        ),
        pytest.param("Honor", NOT_B2, pods(a1=1, a2=1, b1=1), nodes(FITS, FITS, FITS, FITS), id="affinity honored"),
        pytest.param(
            "Ignore", NOT_B2, pods(a1=1, a2=1, b1=1), nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="affinity ignored"
        ),
        pytest.param("Honor", ONLY_A, pods(b1=7), nodes(FITS, FITS, FITS, FITS), id="pods on other nodes are ignored"),
        pytest.param("Sometimes", ONLY_A, pods(a1=1, a2=1), nodes(UNEVEN, UNEVEN, FITS, FITS), id="unknown: ignored"),
    ],
)
def test_node_affinity_policy(policy, more, there, expected):
    fields = {} if policy is None else {"nodeAffinityPolicy": policy}
    assert ask(spreading(spread_over(HOST, WEB, **fields), **more), *NODES, *there) == expected


@pytest.mark.feature("PodTopologySpread: node taints policy")
@pytest.mark.parametrize(
    ("policy", "last", "more", "expected"),
    [
        pytest.param(None, TAINTED, {}, nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="unset ignores"),
        pytest.param("Ignore", TAINTED, {}, nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="ignored"),
        pytest.param("Honor", TAINTED, {}, nodes(FITS, FITS, FITS, FITS), id="honored: b2 is ignored"),
        pytest.param("Honor", TAINTED, TOLERATES, nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="honored, tolerated"),
        pytest.param(
            "Honor", PREFERRED_AWAY, {}, nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="PreferNoSchedule is eligible"
        ),
    ],
)
def test_node_taints_policy(policy, last, more, expected):
    fields = {} if policy is None else {"nodeTaintsPolicy": policy}
    there = pods(a1=1, a2=1, b1=1)
    assert ask(spreading(spread_over(HOST, WEB, **fields), **more), A1, A2, B1, last, *there) == expected


@pytest.mark.feature("PodTopologySpread: node taints policy")
@pytest.mark.parametrize(
    ("zone", "host", "expected"),
    [
        pytest.param("Honor", "Honor", nodes(UNEVEN, UNEVEN, FITS, FITS), id="both honor"),
        pytest.param("Honor", "Ignore", nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="zones honor: b2 has no pods"),
        pytest.param("Ignore", "Honor", nodes(UNEVEN, UNEVEN, FITS, FITS), id="nodes honor"),
        pytest.param("Ignore", "Ignore", nodes(UNEVEN, UNEVEN, UNEVEN, FITS), id="both ignore"),
    ],
)
def test_policies_apply_per_constraint(zone, host, expected):
    constraints = spread_over("zone", WEB, nodeTaintsPolicy=zone), spread_over(HOST, WEB, nodeTaintsPolicy=host)
    assert ask(spreading(*constraints), A1, A2, B1, TAINTED, *pods(a1=1, a2=1, b1=1)) == expected


V1, V2 = {"app": "web", "version": "1"}, {"app": "web", "version": "2"}


@pytest.mark.feature("PodTopologySpread: matchLabelKeys")
@pytest.mark.parametrize(
    ("constraint", "labels", "expected"),
    [
        pytest.param(spread_over("zone", WEB), V2, zones(UNEVEN, FITS), id="unset"),
        pytest.param(spread_over("zone", WEB, matchLabelKeys=["version"]), V2, zones(FITS, FITS), id="another version"),
        pytest.param(spread_over("zone", WEB, matchLabelKeys=["version"]), V1, zones(UNEVEN, FITS), id="the same one"),
        pytest.param(spread_over("zone", WEB, matchLabelKeys=["version"]), WEB, zones(UNEVEN, FITS), id="no value"),
        pytest.param(spread_over("zone", {}, matchLabelKeys=["version"]), V1, zones(UNEVEN, FITS), id="empty selector"),
        pytest.param(spread_over("zone", matchLabelKeys=["version"]), V1, zones(FITS, FITS), id="no selector"),
        pytest.param(
            spread_over("zone", WEB, matchLabelKeys=["version", "missing"]), V1, zones(UNEVEN, FITS), id="one of two"
        ),
        pytest.param(
            spread_over(
                "zone",
                matchLabelKeys=["version"],
                labelSelector={
                    "matchLabels": WEB,
                    "matchExpressions": [{"key": "version", "operator": "In", "values": ["2"]}],
                },
            ),
            V2,
            zones(FITS, FITS),
            id="merged by the API server already",
        ),
    ],
)
def test_match_label_keys(constraint, labels, expected):
    assert ask(spreading(constraint, labels=labels), *NODES, *pods(labels=V1, a1=2)) == expected


@pytest.mark.feature("PodTopologySpread: terminating pods")
@pytest.mark.parametrize(
    ("terminating", "expected"),
    [
        pytest.param(True, zones(FITS, FITS), id="terminating: not counted"),
        pytest.param(False, zones(UNEVEN, FITS), id="counted"),
    ],
)
def test_terminating_pods(terminating, expected):
    there = make_pod("there", node="a1", labels=WEB, terminating=terminating)
    assert ask(spreading(spread_over("zone", WEB)), *NODES, there) == expected


@pytest.mark.feature("PodTopologySpread: terminating pods")
def test_terminating_pod_is_not_counted():
    state = make_cluster(*NODES, *pods(a1=1)).state
    plugin, pod = PodTopologySpread(OfflineHandle(state)), spreading(spread_over("zone", WEB))
    assert ask_filter(plugin, pod, state) == zones(UNEVEN, FITS)
    state.set_pod(make_pod("a1-0", node="a1", labels=WEB, terminating=True))
    assert ask_filter(plugin, pod, state) == zones(FITS, FITS)
    state.remove_pod("default-a1-0")
    assert ask_filter(plugin, pod, state) == zones(FITS, FITS)


NEW = make_pod("new", labels=WEB)
DYING = make_pod("dying", node="a1", labels=WEB, terminating=True)
OTHER = make_pod("new", labels={"app": "db"})


@pytest.mark.feature("PodTopologySpread: nominated pods and what-ifs on rows")
@pytest.mark.parametrize(
    ("constraint", "there", "changes", "expected"),
    [
        pytest.param(
            spread_over(HOST, WEB),
            pods(a1=1, a2=1, b1=1, b2=1),
            {"a1": PodChanges((NEW,))},
            nodes(UNEVEN, *[FITS] * 3),
            id="pod added",
        ),
        pytest.param(
            spread_over(HOST, WEB), pods(a1=1), {"a1": PodChanges(removed=(NEW,))}, nodes(*[FITS] * 4), id="pod removed"
        ),
        pytest.param(
            spread_over("zone", WEB),
            pods(a1=2, b1=1),
            {"a2": PodChanges(removed=(NEW,)), "b2": PodChanges((NEW,))},
            nodes(UNEVEN, FITS, FITS, FITS),
            id="what-ifs are separate",
        ),
        pytest.param(
            spread_over("zone", WEB), pods(a1=1), {"a1": PodChanges((OTHER,))}, zones(UNEVEN, FITS), id="other pod"
        ),
        pytest.param(
            spread_over("zone", WEB, max_skew=2),
            pods(a1=2, b1=1),
            {"b1": PodChanges(removed=(NEW,)), "a1": PodChanges((NEW,))},
            nodes(UNEVEN, FITS, FITS, FITS),
            id="global minimum changes",
        ),
        pytest.param(
            spread_over("zone", WEB),
            pods(a1=1),
            {"a1": PodChanges(removed=(DYING,))},
            nodes(FITS, UNEVEN, FITS, FITS),
            id="terminating pods count in what-ifs, as upstream",
        ),
        pytest.param(
            spread_over("zone", WEB, minDomains=3),
            pods(a1=1, b1=1),
            {"a1": PodChanges(removed=(NEW,))},
            nodes(FITS, UNEVEN, UNEVEN, UNEVEN),
            id="with fewer domains than minDomains",
        ),
        pytest.param(
            spread_over("zone", {}),
            [],
            {"a1": PodChanges((NEW,))},
            nodes(UNEVEN, FITS, FITS, FITS),
            id="empty selector matches in what-ifs, as upstream",
        ),
    ],
)
def test_what_ifs(constraint, there, changes, expected):
    assert ask(spreading(constraint), *NODES, *there, what_ifs=changes) == expected


@pytest.mark.feature("PodTopologySpread: nominated pods and what-ifs on rows")
@pytest.mark.parametrize(
    ("policies", "more", "expected"),
    [
        pytest.param({}, ONLY_A, nodes(FITS, FITS, FITS, FITS), id="ineligible node"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, ONLY_A, nodes(FITS, FITS, UNEVEN, FITS), id="eligible node"),
    ],
)
def test_what_ifs_on_ineligible_nodes(policies, more, expected):
    pod = spreading(spread_over("zone", WEB, **policies), **more)
    assert ask(pod, *NODES, what_ifs={"b1": PodChanges((NEW,))}) == expected


@pytest.mark.feature("PodTopologySpread: invalid selectors")
def test_invalid_selector():
    expression = {"key": "app", "operator": "Near", "values": ["web"]}
    pod = spreading(spread_over("zone", labelSelector={"matchExpressions": [expression]}))
    with pytest.raises(PluginError, match="obtaining pod's hard topology spread constraints"):
        ask(pod, *NODES)


@pytest.mark.feature("PodTopologySpread: invalid selectors")
def test_invalid_selector_of_a_soft_constraint_leaves_hard_constraints_valid():
    invalid = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}
    soft = spread_over("zone", labelSelector=invalid, whenUnsatisfiable="ScheduleAnyway")
    pod = spreading(spread_over("zone", WEB), soft)
    for _ in range(2):
        assert len(own_constraints(pod, HARD)) == 1
        with pytest.raises(InvalidSelector):
            own_constraints(pod, SOFT)


@pytest.mark.feature("PodTopologySpread: labels of bound pods and nodes change")
def test_changed_labels_take_effect():
    state = make_cluster(*NODES, *pods(a1=1)).state
    plugin, pod = PodTopologySpread(OfflineHandle(state)), spreading(spread_over("zone", WEB))
    assert ask_filter(plugin, pod, state) == zones(UNEVEN, FITS)
    state.set_pod(make_pod("a1-0", node="a1", labels={"app": "db"}))
    assert ask_filter(plugin, pod, state) == zones(FITS, FITS)
    state.set_pod(make_pod("a1-0", node="a1", labels=WEB))
    state.set_node(make_node("a1", labels={"zone": "b"}))
    assert ask_filter(plugin, pod, state) == nodes(UNEVEN, FITS, UNEVEN, UNEVEN)
    state.remove_node("a1")
    assert ask_filter(plugin, pod, state) == {"a2": FITS, "b1": FITS, "b2": FITS}
    state.set_node(A1)
    assert ask_filter(plugin, pod, state) == zones(UNEVEN, FITS)
    state.remove_node("b1")
    state.remove_node("b2")
    assert ask_filter(plugin, pod, state) == {"a1": FITS, "a2": FITS}
