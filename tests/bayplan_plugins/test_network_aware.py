"""NetworkOverhead and TopologicalSort: upstream's tables, columns that agree with pairs of nodes, and contracts."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import parse_configuration
from bayplan.insight import Insight, Snapshot
from bayplan.plugin import CustomObject, CycleState
from bayplan.testing import ask_filter, ask_scores, check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.network_aware.groups import (
    APP_GROUPS,
    GROUP_LABEL,
    NETWORK_TOPOLOGIES,
    REGION,
    WORKLOAD_LABEL,
    ZONE,
)
from bayplan_plugins.network_aware.network_overhead import NetworkOverhead, NetworkOverheadArgs
from bayplan_plugins.network_aware.topological_sort import TopologicalSort, TopologicalSortArgs


def table(name):
    return vectors("network_aware", name)


def app_group(name="basic", dependencies=None, order=(), most_cost=0):
    """An AppGroup. `dependencies`: the workloads that a workload depends on."""

    def dependency(each):
        return {"workload": {"kind": "Deployment", "selector": each}, "maxNetworkCost": most_cost}

    workloads = [
        {"workload": {"selector": each}, "dependencies": [dependency(other) for other in others]}
        for each, others in (dependencies or {}).items()
    ]
    places = [{"workload": {"selector": each}, "index": at + 1} for at, each in enumerate(order)]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return CustomObject(metadata=metadata, spec={"workloads": workloads}, status={"topologyOrder": places})


def topology(regions=None, zones=None):
    def origins(costs):
        return [
            {"origin": origin, "costList": [{"destination": to, "networkCost": cost} for to, cost in each.items()]}
            for origin, each in costs.items()
        ]

    parts = [
        {"topologyKey": key, "originList": origins(costs or {})} for key, costs in ((REGION, regions), (ZONE, zones))
    ]
    metadata = {"name": "nt-test", "namespace": "default", "uid": "nt"}
    return CustomObject(metadata=metadata, spec={"weights": [{"name": "UserDefined", "topologyList": parts}]})


def member(name, workload=None, group="basic", node="", **fields):
    labels = {WORKLOAD_LABEL: workload or name, **({GROUP_LABEL: group} if group else {})}
    return make_pod(name, labels=labels, node=node, **fields)


def node_in(name, region="", zone=""):
    places = ((REGION, region), (ZONE, zone))
    return make_node(name, labels={key: value for key, value in places if value})


ARGUMENTS = {"namespaces": ["other", "default"], "networkTopologyName": "nt-test"}


def placed(nodes, *pods, group=None, costs=None):
    """The state of a cluster, and the plugin there."""
    state = make_cluster(*nodes, *pods, plugins=[]).state
    handle = OfflineHandle(state)
    handle.objects(APP_GROUPS).set(
        "default/basic", group or app_group(dependencies=vectors("network_aware", "dependencies"))
    )
    if costs is not False:
        made = costs or topology(vectors("network_aware", "regions"), vectors("network_aware", "zones"))
        handle.objects(NETWORK_TOPOLOGIES).set("default/nt-test", made)
    return state, NetworkOverhead(NetworkOverheadArgs(**ARGUMENTS), handle)


def upstreams(*where):
    nodes = [node_in(f"n-{at + 1}", *place) for at, place in enumerate(vectors("network_aware", "nodes"))]
    pods = [member(f"p{at + 1}-0", f"p{at + 1}", node=node) for at, node in enumerate(where)]
    return placed(nodes, *pods)


@cases("case", table("TestNetworkOverheadScore"))
def test_upstreams_scores(case):
    state, plugin = upstreams(*case["placed"])
    pod, cycle = member(case["pod"]), CycleState()
    plugin.pre_filter(cycle, pod, state.nodes)
    if any(case["costs"]):
        assert plugin.score_nodes(cycle, pod, state.nodes).tolist() == case["costs"]
    assert list((ask_scores(plugin, pod, state) or dict.fromkeys(range(8), 0)).values()) == case["scores"]


def rejection(plugin, pod, state, node):
    """Why a node is rejected; "" if it isn't."""
    return (ask_filter(plugin, pod, state) or {}).get(node) or ""


@cases("case", table("TestNetworkOverheadFilter"))
def test_upstreams_rejections(case):
    state, plugin = upstreams("n-2", "n-5", "n-8")
    pod = member(case["pod"], group=case.get("group", "basic"))
    message = rejection(plugin, pod, state, case["node"])
    if case["numbers"] is None:
        assert message == ""
    else:
        satisfied, violated = case["numbers"]
        assert message == (
            f"Node {case['node']} does not meet several network requirements from Workload dependencies: "
            f"Satisfied: {satisfied} Violated: {violated}"
        )


@cases("case", table("TestTopologicalSortLess"))
def test_upstreams_order(case):
    handle = OfflineHandle(make_cluster(plugins=[]).state)
    for name, order in vectors("network_aware", "orders").items():
        handle.objects(APP_GROUPS).set(f"default/{name}", app_group(name, order=order))
    plugin = TopologicalSort(TopologicalSortArgs(), handle)
    left, right = (plugin.sort_key(member(name, group=group), 0.0) for name, group in case["pods"])
    assert (left < right) is case["first"]


def test_priority_and_age_come_before_the_order_of_an_app_group():
    handle = OfflineHandle(make_cluster(plugins=[]).state)
    handle.objects(APP_GROUPS).set("default/basic", app_group(order=["p1", "p2"]))
    plugin = TopologicalSort(TopologicalSortArgs(), handle)
    pods = [member("p1"), member("p2"), member("high", "p2", priority=5), make_pod("lone")]
    keys = {pod.name: plugin.sort_key(pod, float(at)) for at, pod in enumerate(pods)}
    assert sorted(keys, key=keys.get) == ["high", "lone", "p1", "p2"]


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": None},
        {"spec": {"workloads": "all"}},
        {"spec": {"workloads": [7, {"workload": "p1", "dependencies": {}}]}},
        {
            "spec": {
                "workloads": [
                    {
                        "workload": {"selector": "p1"},
                        "dependencies": [{"workload": {"selector": "p2"}, "maxNetworkCost": "much"}, 3],
                    }
                ]
            }
        },
    ],
)
def test_odd_resources_are_no_error(odd):
    group = CustomObject(metadata={"name": "basic", "namespace": "default"}, **odd)
    costs = CustomObject(
        metadata={"name": "nt-test"}, spec={"weights": [{"name": "UserDefined", "topologyList": [None]}]}
    )
    state, plugin = placed([node_in("a", "r", "z")], member("p2-0", "p2", node="a"), group=group, costs=costs)
    assert rejection(plugin, member("p1"), state, "a") == ""


def test_without_a_network_topology_the_plugin_has_no_opinion():
    state, plugin = placed([node_in("a"), node_in("b")], member("p2-0", "p2", node="b"), costs=False)
    assert rejection(plugin, member("p1"), state, "a") == ""
    assert ask_scores(plugin, member("p1"), state) is None


places = st.tuples(st.sampled_from(["", "r1", "r2"]), st.sampled_from(["", "z1", "z2", "z3"]))
tables = st.dictionaries(
    st.sampled_from(["r1", "r2", "z1", "z2", "z3"]),
    st.dictionaries(st.sampled_from(["r1", "r2", "z1", "z2", "z3"]), st.integers(0, 40), max_size=3),
    max_size=4,
)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.lists(places, min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(["p2", "p3", "p4"]), st.integers(0, 5)), max_size=8),
    tables,
    tables,
    st.integers(0, 40),
)
def test_columns_agree_with_pairs_of_nodes(nodes, pods, regions, zones, most):
    group = app_group(dependencies={"p1": ["p2", "p3"]}, most_cost=most)
    made = [node_in(f"n{at}", *place) for at, place in enumerate(nodes)]
    there = [member(f"q{at}", workload, node=f"n{number % len(nodes)}") for at, (workload, number) in enumerate(pods)]
    state, plugin = placed(made, *there, group=group, costs=topology(regions, zones))
    cycle = CycleState()
    plugin.pre_filter(cycle, member("p1"), state.nodes)
    expected = [pairwise(at, nodes, pods, regions, zones, most) for at in range(len(nodes))]
    if "NetworkOverhead" in cycle.data:
        assert list(map(tuple, plugin.overhead(cycle, state.nodes).T.tolist())) == expected
        assert [plugin._overhead_at(cycle, state.nodes.info(at)) for at in range(len(nodes))] == expected
    else:
        assert expected == [(0, 0, 0)] * len(nodes)


def pairwise(at, nodes, pods, regions, zones, most):
    """Satisfied and violated dependencies and the cost of a node, pod by pod, as upstream counts."""
    (region, zone), found = nodes[at], Counter()
    costs = {(region, to): cost for to, cost in regions.get(region, {}).items()} if region else {}
    costs |= {(zone, to): cost for to, cost in zones.get(zone, {}).items()} if zone else {}
    for workload, number in pods:
        if workload == "p4":
            continue
        other = number % len(nodes)
        if other == at:
            found["satisfied"] += 1
            continue
        there = nodes[other]
        if there == ("", ""):
            found.update(violated=1, cost=100)
        elif there == (region, zone):
            found.update(satisfied=1, cost=1)
        else:
            cost = costs.get((zone, there[1]) if region == there[0] else (region, there[0]))
            found["cost"] += 100 if cost is None else cost
            if cost is not None:
                found["satisfied" if cost <= most else "violated"] += 1
    return found["satisfied"], found["violated"], found["cost"]


@pytest.mark.parametrize(
    ("plugin", "arguments"), [(NetworkOverhead, ARGUMENTS), (TopologicalSort, {})], ids=["overhead", "sort"]
)
def test_the_contract_holds(plugin, arguments):
    objects = [
        node_in("a", "r1", "z1"),
        node_in("b", "r2", "z2"),
        member("p2-0", "p2", node="b"),
        (APP_GROUPS, app_group(dependencies={"p1": ["p2"]}, order=["p1"])),
        (NETWORK_TOPOLOGIES, topology({"r1": {"r2": 20}})),
    ]
    check_contract(plugin, arguments, objects=objects, pods=[member("p1")], examples=40)


def document(kind, name, api_version="v1", **fields):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name}, **fields}


def asked():
    """Questions about a cluster with two zones, in which p2 is on a node, and p1 depends on it."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    objects = []
    for name, zone in (("a", "z1"), ("b", "z2")):
        node = document("Node", name, status={"allocatable": room, "capacity": room})
        node["metadata"]["labels"] = {REGION: "r1", ZONE: zone}
        objects.append(node)
    for name, node in (("p1", None), ("p2", "b")):
        pod = document(
            "Pod", name, spec={"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
        )
        pod["metadata"] |= {"namespace": "default", "labels": {GROUP_LABEL: "basic", WORKLOAD_LABEL: name}}
        objects.append(pod)
    group = {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        **app_group(dependencies={"p1": ["p2"]}),
    }
    costs = {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        **topology(zones={"z1": {"z2": 9}}),
    }
    configuration = parse_configuration(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "plugins": {"multiPoint": {"enabled": [{"name": "NetworkOverhead"}]}},
                    "pluginConfig": [{"name": "NetworkOverhead", "args": ARGUMENTS}],
                }
            ],
        }
    )
    return Insight(Snapshot.of([*objects, group, costs]), configuration=configuration)


def test_questions_have_the_rejection_and_what_it_is_about():
    insight = asked()
    assert insight.explain("default/p1").node == "b"
    answer = insight.why_not("default/p1", "a").text()
    assert "of the pods of p2, 1 are too far from z1, and 0 near enough" in answer


def test_a_simulation_places_the_next_pods_near_as_well():
    pods = [
        document(
            "Pod",
            f"new-{number}",
            spec={"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        )
        for number in range(3)
    ]
    for pod in pods:
        pod["metadata"] |= {"namespace": "default", "labels": {GROUP_LABEL: "basic", WORKLOAD_LABEL: "p1"}}
    fit = asked().fit(pods)
    assert fit.fits
    assert {each.node for each in fit.pods} == {"b"}
