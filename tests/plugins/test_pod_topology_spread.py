"""Filtering by PodTopologySpread."""

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.labels import InvalidSelector
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.framework.status import PluginError
from bayplan.core.plugins.pod_topology_spread.constraints import HARD, SOFT, own_constraints
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.testing.asking import ask_filter
from bayplan.testing.builders import make_cluster, make_node, make_pod, spread_over

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
FITS = ""
HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}
ZONES, HOSTS = spread_over("zone", WEB), spread_over(HOST, WEB)
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


def fits(expected):
    """What is said of all nodes, where it is given as the names of those that fit; the others are UNEVEN."""
    if not isinstance(expected, str):
        return expected
    return {node.metadata.name: FITS if node.metadata.name in expected.split() else UNEVEN for node in NODES}


def nodes(a1, a2, b1, b2):
    return {"a1": a1, "a2": a2, "b1": b1, "b2": b2}


def zones(a, b):
    return nodes(a, a, b, b)


@pytest.mark.feature("PodTopologySpread: DoNotSchedule")
@cases(
    "pod, there, expected",
    {
        "no constraints": (make_pod("pending", labels=WEB), pods(a1=3), None),
        "ScheduleAnyway only": (spreading(spread_over("zone", WEB, hard=False)), pods(a1=3), None),
        "unknown action": (spreading({**ZONES, "whenUnsatisfiable": "Whatever"}), pods(a1=3), None),
        "no pods": (spreading(ZONES), [], "a1 a2 b1 b2"),
        "no pods, no self match": (spreading(ZONES, labels={}), [], "a1 a2 b1 b2"),
        "zones 3/3": (spreading(ZONES), pods(a1=2, a2=1, b2=3), "a1 a2 b1 b2"),
        "zones 1/0": (spreading(ZONES), pods(a1=1), "b1 b2"),
        "zones 2/1": (spreading(ZONES), pods(a1=2, b1=1), "b1 b2"),
        "zones 2/1, skew 2": (spreading(spread_over("zone", WEB, max_skew=2)), pods(a1=2, b1=1), "a1 a2 b1 b2"),
        "nodes 2/1/0/3": (spreading(HOSTS), pods(a1=2, a2=1, b2=3), "b1"),
        "nodes 2/1/0/3, skew 2": (spreading(spread_over(HOST, WEB, max_skew=2)), pods(a1=2, a2=1, b2=3), "a2 b1"),
        "nodes 2/1/0/3, no self match": (spreading(HOSTS, labels={}), pods(a1=2, a2=1, b2=3), "a2 b1"),
        "other pods are ignored": (spreading(ZONES), pods(labels=DB, a1=3), "a1 a2 b1 b2"),
        "other namespaces are ignored": (spreading(ZONES, namespace="other"), pods(a1=3), "a1 a2 b1 b2"),
        "no selector": (spreading(spread_over("zone")), pods(a1=3), "a1 a2 b1 b2"),
        "empty selector matches only itself": (spreading(spread_over("zone", {})), pods(a1=3), "a1 a2 b1 b2"),
        "an empty selector, {}": (spreading(spread_over("zone", {}, max_skew=1), labels={}), pods(a1=3), "a1 a2 b1 b2"),
        "no node has the label": (spreading(spread_over("rack", WEB)), [], zones(NO_LABEL, NO_LABEL)),
        "case": (spreading(spread_over("zone", {"app": "Web"}), labels={"app": "Web"}), pods(a1=3), "a1 a2 b1 b2"),
        "a pod on a deleted node": (spreading(ZONES), [make_pod("stray", node="gone", labels=WEB)], "a1 a2 b1 b2"),
    },
)
def test_do_not_schedule(pod, there, expected):
    assert ask(pod, *NODES, *there) == fits(expected)


@pytest.mark.feature("PodTopologySpread: DoNotSchedule, several constraints")
@cases(
    "constraints, there, expected",
    {
        "zones 3/3, nodes 2/1/0/3": ([ZONES, HOSTS], pods(a1=2, a2=1, b2=3), "b1"),
        "zones 3/4, nodes 2/1/0/4: no node": ([ZONES, HOSTS], pods(a1=2, a2=1, b2=4), ""),
        "separate selectors": ([ZONES, spread_over(HOST, DB)], [*pods(a1=1), *pods(labels=DB, b1=1)], "b1 b2"),
        "nodes without all keys are ineligible for all constraints": (
            [ZONES, spread_over("rack", WEB)],
            pods(a1=1),
            zones(NO_LABEL, NO_LABEL),
        ),
        "two on one topology": ([ZONES, spread_over("zone", DB)], [*pods(b1=1), *pods(labels=DB, a1=2)], ""),
        "soft constraint does not filter": (
            [ZONES, spread_over(HOST, WEB, hard=False)],
            pods(a1=1, b1=1),
            "a1 a2 b1 b2",
        ),
    },
)
def test_several_constraints(constraints, there, expected):
    assert ask(spreading(*constraints), *NODES, *there) == fits(expected)


@pytest.mark.feature("PodTopologySpread: nodes without the label")
@cases(
    "constraints, there, expected",
    {
        "are rejected": ([ZONES], pods(nowhere=5), {"a1": FITS, "nowhere": NO_LABEL}),
        "are ineligible for the other constraint": ([HOSTS, ZONES], pods(a1=1), {"a1": FITS, "nowhere": NO_LABEL}),
        "their pods are not counted": ([HOSTS, ZONES], pods(nowhere=1), {"a1": FITS, "nowhere": NO_LABEL}),
    },
)
def test_nodes_without_the_label(constraints, there, expected):
    assert ask(spreading(*constraints), A1, make_node("nowhere"), *there) == expected


@pytest.mark.feature("PodTopologySpread: label values")
def test_empty_value_is_a_domain():
    empty = make_node("empty", labels={"zone": ""})
    assert ask(spreading(ZONES), A1, empty, *pods(empty=1)) == {"a1": FITS, "empty": UNEVEN}


@pytest.mark.feature("PodTopologySpread: minDomains")
@cases(
    "topology, least, there, expected",
    {
        "unset is 1": (HOST, None, pods(a1=2, a2=2, b1=1, b2=1), "a1 a2 b1 b2"),
        "fewer domains: from 0": (HOST, 5, pods(a1=2, a2=2, b1=1, b2=1), "b1 b2"),
        "as many": (HOST, 4, pods(a1=2, a2=2, b1=1, b2=1), "a1 a2 b1 b2"),
        "more": (HOST, 3, pods(a1=2, a2=2, b1=1, b2=1), "a1 a2 b1 b2"),
        "zones 2/1, fewer": ("zone", 3, pods(a1=2, b1=1), "b1 b2"),
        "zones 2/1, as many": ("zone", 2, pods(a1=2, b1=1), "a1 a2 b1 b2"),
        "fewer: balanced zones are full": ("zone", 3, pods(a1=2, b1=2), ""),
    },
)
def test_min_domains(topology, least, there, expected):
    fields = {} if least is None else {"minDomains": least}
    assert ask(spreading(spread_over(topology, WEB, max_skew=2, **fields)), *NODES, *there) == fits(expected)


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
@cases(
    "policy, more, there, expected",
    {
        "unset honors": (None, ONLY_A, pods(a1=1), "a2 b1 b2"),
        "honored: b is ignored": ("Honor", ONLY_A, pods(a1=1, a2=1), "a1 a2 b1 b2"),
        "ignored: b has no pods": ("Ignore", ONLY_A, pods(a1=1, a2=1), "b1 b2"),
        "affinity honored": ("Honor", NOT_B2, pods(a1=1, a2=1, b1=1), "a1 a2 b1 b2"),
        "affinity ignored": ("Ignore", NOT_B2, pods(a1=1, a2=1, b1=1), "b2"),
        "pods on other nodes are ignored": ("Honor", ONLY_A, pods(b1=7), "a1 a2 b1 b2"),
        "unknown: ignored": ("Sometimes", ONLY_A, pods(a1=1, a2=1), "b1 b2"),
    },
)
def test_node_affinity_policy(policy, more, there, expected):
    fields = {} if policy is None else {"nodeAffinityPolicy": policy}
    assert ask(spreading(spread_over(HOST, WEB, **fields), **more), *NODES, *there) == fits(expected)


@pytest.mark.feature("PodTopologySpread: node taints policy")
@cases(
    "policy, last, more, expected",
    {
        "unset ignores": (None, TAINTED, {}, "b2"),
        "ignored": ("Ignore", TAINTED, {}, "b2"),
        "honored: b2 is ignored": ("Honor", TAINTED, {}, "a1 a2 b1 b2"),
        "honored, tolerated": ("Honor", TAINTED, TOLERATES, "b2"),
        "PreferNoSchedule is eligible": ("Honor", PREFERRED_AWAY, {}, "b2"),
    },
)
def test_node_taints_policy(policy, last, more, expected):
    fields = {} if policy is None else {"nodeTaintsPolicy": policy}
    there = pods(a1=1, a2=1, b1=1)
    assert ask(spreading(spread_over(HOST, WEB, **fields), **more), A1, A2, B1, last, *there) == fits(expected)


@pytest.mark.feature("PodTopologySpread: node taints policy")
@cases(
    "zone, host, expected",
    {
        "both honor": ("Honor", "Honor", "b1 b2"),
        "zones honor: b2 has no pods": ("Honor", "Ignore", "b2"),
        "nodes honor": ("Ignore", "Honor", "b1 b2"),
        "both ignore": ("Ignore", "Ignore", "b2"),
    },
)
def test_policies_apply_per_constraint(zone, host, expected):
    constraints = spread_over("zone", WEB, nodeTaintsPolicy=zone), spread_over(HOST, WEB, nodeTaintsPolicy=host)
    assert ask(spreading(*constraints), A1, A2, B1, TAINTED, *pods(a1=1, a2=1, b1=1)) == fits(expected)


V1, V2 = {"app": "web", "version": "1"}, {"app": "web", "version": "2"}


@pytest.mark.feature("PodTopologySpread: matchLabelKeys")
@cases(
    "constraint, labels, expected",
    {
        "unset": (ZONES, V2, "b1 b2"),
        "another version": (spread_over("zone", WEB, matchLabelKeys=["version"]), V2, "a1 a2 b1 b2"),
        "the same one": (spread_over("zone", WEB, matchLabelKeys=["version"]), V1, "b1 b2"),
        "no value": (spread_over("zone", WEB, matchLabelKeys=["version"]), WEB, "b1 b2"),
        "empty selector": (spread_over("zone", {}, matchLabelKeys=["version"]), V1, "b1 b2"),
        "no selector": (spread_over("zone", matchLabelKeys=["version"]), V1, "a1 a2 b1 b2"),
        "one of two": (spread_over("zone", WEB, matchLabelKeys=["version", "missing"]), V1, "b1 b2"),
        "merged by the API server already": (
            spread_over(
                "zone",
                matchLabelKeys=["version"],
                labelSelector={
                    "matchLabels": WEB,
                    "matchExpressions": [{"key": "version", "operator": "In", "values": ["2"]}],
                },
            ),
            V2,
            "a1 a2 b1 b2",
        ),
    },
)
def test_match_label_keys(constraint, labels, expected):
    assert ask(spreading(constraint, labels=labels), *NODES, *pods(labels=V1, a1=2)) == fits(expected)


@pytest.mark.feature("PodTopologySpread: terminating pods")
@cases(
    "terminating, expected",
    {"terminating: not counted": (True, zones(FITS, FITS)), "counted": (False, zones(UNEVEN, FITS))},
)
def test_terminating_pods(terminating, expected):
    there = make_pod("there", node="a1", labels=WEB, terminating=terminating)
    assert ask(spreading(ZONES), *NODES, there) == expected


@pytest.mark.feature("PodTopologySpread: terminating pods")
def test_terminating_pod_is_not_counted():
    state = make_cluster(*NODES, *pods(a1=1)).state
    plugin, pod = PodTopologySpread(OfflineHandle(state)), spreading(ZONES)
    assert ask_filter(plugin, pod, state) == zones(UNEVEN, FITS)
    state.set_pod(make_pod("a1-0", node="a1", labels=WEB, terminating=True))
    assert ask_filter(plugin, pod, state) == zones(FITS, FITS)
    state.remove_pod("default-a1-0")
    assert ask_filter(plugin, pod, state) == zones(FITS, FITS)


NEW = make_pod("new", labels=WEB)
DYING = make_pod("dying", node="a1", labels=WEB, terminating=True)
OTHER = make_pod("new", labels=DB)


@pytest.mark.feature("PodTopologySpread: nominated pods and what-ifs on rows")
@cases(
    "constraint, there, changes, expected",
    {
        "pod added": (HOSTS, pods(a1=1, a2=1, b1=1, b2=1), {"a1": PodChanges((NEW,))}, nodes(UNEVEN, *[FITS] * 3)),
        "pod removed": (HOSTS, pods(a1=1), {"a1": PodChanges(removed=(NEW,))}, nodes(*[FITS] * 4)),
        "what-ifs are separate": (
            ZONES,
            pods(a1=2, b1=1),
            {"a2": PodChanges(removed=(NEW,)), "b2": PodChanges((NEW,))},
            nodes(UNEVEN, FITS, FITS, FITS),
        ),
        "other pod": (ZONES, pods(a1=1), {"a1": PodChanges((OTHER,))}, zones(UNEVEN, FITS)),
        "global minimum changes": (
            spread_over("zone", WEB, max_skew=2),
            pods(a1=2, b1=1),
            {"b1": PodChanges(removed=(NEW,)), "a1": PodChanges((NEW,))},
            nodes(UNEVEN, FITS, FITS, FITS),
        ),
        "terminating pods count in what-ifs, as upstream": (
            ZONES,
            pods(a1=1),
            {"a1": PodChanges(removed=(DYING,))},
            nodes(FITS, UNEVEN, FITS, FITS),
        ),
        "with fewer domains than minDomains": (
            spread_over("zone", WEB, minDomains=3),
            pods(a1=1, b1=1),
            {"a1": PodChanges(removed=(NEW,))},
            nodes(FITS, UNEVEN, UNEVEN, UNEVEN),
        ),
        "empty selector matches in what-ifs, as upstream": (
            spread_over("zone", {}),
            [],
            {"a1": PodChanges((NEW,))},
            nodes(UNEVEN, FITS, FITS, FITS),
        ),
    },
)
def test_what_ifs(constraint, there, changes, expected):
    assert ask(spreading(constraint), *NODES, *there, what_ifs=changes) == expected


@pytest.mark.feature("PodTopologySpread: nominated pods and what-ifs on rows")
@cases(
    "policies, more, expected",
    {
        "ineligible node": ({}, ONLY_A, nodes(FITS, FITS, FITS, FITS)),
        "eligible node": ({"nodeAffinityPolicy": "Ignore"}, ONLY_A, nodes(FITS, FITS, UNEVEN, FITS)),
    },
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
    pod = spreading(ZONES, soft)
    for _ in range(2):
        assert len(own_constraints(pod, HARD)) == 1
        with pytest.raises(InvalidSelector):
            own_constraints(pod, SOFT)


@pytest.mark.feature("PodTopologySpread: labels of bound pods and nodes change")
def test_changed_labels_take_effect():
    state = make_cluster(*NODES, *pods(a1=1)).state
    plugin, pod = PodTopologySpread(OfflineHandle(state)), spreading(ZONES)
    assert ask_filter(plugin, pod, state) == zones(UNEVEN, FITS)
    state.set_pod(make_pod("a1-0", node="a1", labels=DB))
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
