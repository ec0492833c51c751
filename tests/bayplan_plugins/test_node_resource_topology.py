"""NodeResourceTopologyMatch: bad objects, preemption, hints, explanations, questions, and the contract."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bayplan_plugins.numa_clusters import CONTAINER_LEVEL, KIND, POD_LEVEL, node_of, numa, pod, topology
from tests.bayplan_plugins.test_node_resource_topology_vectors import placement_of
from tests.support.tables import cases

from bayplan.core.config import parse_configuration, read_configuration
from bayplan.core.config.errors import ConfigurationError
from bayplan.insight import Insight, Snapshot
from bayplan.plugin import CycleState, Hint
from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan.testing.documents import document_of
from bayplan_plugins.node_resource_topology.arguments import NodeResourceTopologyMatchArgs
from bayplan_plugins.node_resource_topology.fingerprints import fingerprint
from bayplan_plugins.node_resource_topology.hints import ZoneHints
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch
from bayplan_plugins.node_resource_topology.topologies import TOPOLOGIES, read

ROOMY, FULL = {"available": {"cpu": "4", "memory": "8Gi"}}, {"available": {"cpu": "1", "memory": "8Gi"}}


def guaranteed(name="p", cpu="2", **fields):
    return pod(name, {"all": {"cpu": cpu, "memory": "1Gi"}}, **fields)


# Bad objects


def broken(change):
    document = topology("bad", [ROOMY, ROOMY])
    change(document)
    return document


BROKEN = {
    "negative": (lambda d: d["zones"][1]["resources"][0].update(available="-1"), "zone node-1 has -1 of cpu available"),
    "huge": (
        lambda d: d["zones"][0]["resources"][1].update(available="9Ei"),
        "zone node-0 has 9Ei of memory available",
    ),
    "no quantity": (lambda d: d["zones"][0]["resources"][0].update(available="4 cpus"), "'4 cpus' is not a quantity"),
    "a list": (lambda d: d["zones"][0].update(resources=["cpu"]), "Expected `object`, got `str`"),
    "twice": (lambda d: d["zones"][1].update(name="node-0"), "two zones have the name node-0"),
    "unknown zones": (lambda d: [zone.update(name="socket") for zone in d["zones"]], "no zone is a NUMA node: socket"),
    "no zones": (lambda d: d.update(zones=[]), "no zone is a NUMA node; expected one such as node-0"),
    "a cost": (lambda d: d["zones"][0].update(costs=[{"name": "node-1", "value": -1}]), "a negative or too large cost"),
    "not an object": (lambda d: d.update(zones=7), "Expected `array`"),
    "odd annotations": (lambda d: d["metadata"].update(annotations=[1]), "no attribute"),
}


@cases("change, problem", BROKEN)
@pytest.mark.parametrize("args", [{}, {"cacheResyncPeriodSeconds": 5}, {"discardReservedNodes": True}], ids=str)
def test_a_broken_topology_costs_itself_only(change, problem, args, caplog):
    document = broken(change)
    with caplog.at_level(logging.WARNING):
        cluster = numa(document, topology("full", [FULL]), nodes=map(make_node, ["bad", "full"]), **args)
    [line] = [record.getMessage() for record in caplog.records if " bad " in record.getMessage()]
    assert problem in line
    assert "\n" not in line
    assert cluster.reasons(guaranteed()) == {"bad": "", "full": "cannot align pod"}
    cluster.topology(document)  # the line is told once
    assert len([record for record in caplog.records if " bad " in record.getMessage()]) == 1
    cluster.topology(topology("bad", [FULL]))
    assert cluster.reason(guaranteed(), "bad") == "cannot align pod"


def test_a_zone_with_an_unknown_name_is_ignored(caplog):
    with caplog.at_level(logging.WARNING):
        cluster = numa(topology("n", {"node-0": FULL, "node-75": ROOMY, "socket": ROOMY}))
    assert "ignored zones node-75, socket" in caplog.text
    assert cluster.reason(guaranteed()) == "cannot align pod"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "zones", "value", "type"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(["zones", "attributes", "topologyPolicies", "metadata"]), ANY))
def test_no_document_is_too_odd(document):
    found = read(document)
    assert found.problem or found.zones


# Nodes and zones


def test_zones_come_and_go():
    cluster = numa(topology("n", [FULL]))
    assert cluster.reason(guaranteed()) == "cannot align pod"
    cluster.topology(topology("n", [FULL, FULL, FULL, ROOMY]))
    assert cluster.reason(guaranteed()) == ""
    cluster.topology(topology("n", [FULL]))
    assert cluster.reason(guaranteed()) == "cannot align pod"
    cluster.state.objects[KIND].remove("n")
    assert cluster.reason(guaranteed()) == ""


def test_a_node_that_takes_the_place_of_another_one_has_its_own_zones():
    cluster = numa(topology("n", [FULL]), topology("m", [ROOMY]), nodes=[node_of(topology("n", [FULL]))])
    cluster.state.remove_node("n")
    cluster.state.set_node(node_of(topology("m", [ROOMY])))
    assert cluster.reasons(guaranteed()) == {"m": ""}
    cluster.state.set_node(node_of(topology("n", [FULL])))
    assert cluster.reasons(guaranteed()) == {"m": "", "n": "cannot align pod"}


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_other_policies_take_every_pod(policy):
    cluster = numa(topology("n", [FULL], "", {"topologyManagerPolicy": policy}))
    assert cluster.reason(guaranteed()) == ""
    assert cluster.scores(guaranteed()) == {"n": 0}


def test_init_containers_and_sidecars_have_their_zones():
    cluster = numa(topology("n", [FULL], CONTAINER_LEVEL))
    large, small = {"all": {"cpu": "2", "memory": "1Gi"}}, {"all": {"cpu": "1", "memory": "1Gi"}}
    assert cluster.reason(pod("p", small, init=[large])) == "cannot align init container"
    assert cluster.reason(pod("p", small, init=[{**large, "always": True}])) == "cannot align sidecar container"
    assert cluster.reason(pod("p", large, init=[small])) == "cannot align container"
    assert cluster.reason(pod("p", small, init=[small])) == ""


def test_what_a_container_takes_the_next_one_lacks():
    zone = {"available": {"cpu": "3", "memory": "8Gi"}}
    cluster = numa(topology("n", [zone, zone], CONTAINER_LEVEL))
    two = {"all": {"cpu": "2", "memory": "1Gi"}}
    assert cluster.reason(pod("p", two, two)) == ""
    assert cluster.reason(pod("p", two, two, two)) == "cannot align container"


ZONES = st.lists(
    st.fixed_dictionaries({"cpu": st.sampled_from(["1", "1500m", "4"]), "memory": st.sampled_from(["1Gi", "8Gi"])})
    | st.fixed_dictionaries({"cpu": st.just("8"), "memory": st.just("8Gi"), "vendor/nic": st.sampled_from(["0", "2"])}),
    min_size=1,
    max_size=4,
)
CONTAINERS = st.lists(
    st.sampled_from(
        [
            {"all": {"cpu": "1", "memory": "1Gi"}},
            {"all": {"cpu": "1500m", "memory": "2Gi", "vendor/nic": "1"}},
            {"requests": {"cpu": "3"}},
            {"all": {"vendor/nic": "1"}},
            {"all": {"other/thing": "1"}},
            {},
        ]
    ),
    min_size=1,
    max_size=3,
)
POLICIES = POD_LEVEL, CONTAINER_LEVEL
TYPES = ("MostAllocated", "LeastAllocated", "BalancedAllocation", "LeastNUMANodes")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(ZONES, min_size=1, max_size=5),
    CONTAINERS,
    st.sampled_from([POD_LEVEL, CONTAINER_LEVEL]),
    st.sampled_from(TYPES),
    st.lists(st.sampled_from([10, 12, 20, 255]), min_size=7, max_size=7),
)
def test_one_node_is_judged_like_many(zones, containers, policy, strategy, costs):
    documents = [
        topology(
            f"n{at}",
            [
                {
                    "available": zone,
                    "costs": {other: costs[(at + 3 * number + other) % 7] for other in range(len(each))},
                }
                for number, zone in enumerate(each)
            ],
            policy,
        )
        for at, each in enumerate(zones)
    ]
    together = numa(*documents, scoringStrategy={"type": strategy})
    asked = pod("p", *containers)
    reasons, scores = together.reasons(asked), together.scores(asked)
    assert all(0 <= score <= 100 for score in scores.values())
    for document in documents:
        name = document["metadata"]["name"]
        alone = numa(document, scoringStrategy={"type": strategy})
        assert alone.reasons(asked) == {name: reasons[name]}
        assert alone.scores(asked) == {name: scores[name]}
        node = together.state.nodes.info(together.state.nodes.position(name))
        status = together.plugin.filter(CycleState(), asked, node)
        assert (status.reasons[0] if status is not None else "") == reasons[name]
        assert together.plugin.score(CycleState(), asked, node) == scores[name]


# Preemption


def preemption(mode="Enabled", containers=(("default", "victim", "c0", 0),), cpu=("0", "2")):
    victims = [guaranteed(name, "4", node="n", status={"phase": "Running"}) for _, name, _, _ in containers]
    metadata, per_zone = placement_of(containers)
    zones = [
        {
            "available": {"cpu": left, "memory": "7Gi"},
            "allocatable": {"cpu": "4", "memory": "8Gi"},
            "attributes": per_zone.get(f"node-{at}", {}),
        }
        for at, left in enumerate(cpu)
    ]
    told = {"nodeTopologyPodsFingerprint": fingerprint((each.namespace, each.name) for each in victims)}
    cluster = numa(
        topology("n", zones, CONTAINER_LEVEL, metadata | told),
        objects=victims,
        cacheResyncPeriodSeconds=5,
        preemptionMode=mode,
    )
    return cluster, victims


def test_a_victim_gives_its_zone_back():
    cluster, victims = preemption()
    assert cluster.reasons(guaranteed(cpu="4"), {"n": victims})["n"] == ""
    assert cluster.reasons(guaranteed(cpu="4"))["n"] == "cannot align container"
    assert cluster.reasons(guaranteed(cpu="8"), {"n": victims})["n"] == "cannot align container"


def test_without_the_mode_a_victim_gives_nothing_back():
    cluster, victims = preemption("Disabled")
    assert cluster.reasons(guaranteed(cpu="4"), {"n": victims})["n"] == "cannot align container"


def test_a_victim_that_the_topology_does_not_know_gives_nothing_back():
    cluster, _ = preemption()
    other = guaranteed("other", "4", node="n")
    assert cluster.reasons(guaranteed(cpu="4"), {"n": [other]})["n"] == (
        "eviction simulation in NRT is not possible:no resources to add, cannot process eviction simulation"
    )


def test_a_whole_preemption_evicts_the_pod_of_the_right_zone():
    containers = [("default", "left", "c0", 0), ("default", "right", "c0", 1)]
    metadata, per_zone = placement_of(containers)
    zones = [
        {
            "available": {"cpu": "0", "memory": "7Gi"},
            "allocatable": {"cpu": str(4 + 4 * at), "memory": "8Gi"},
            "attributes": per_zone.get(f"node-{at}", {}),
        }
        for at in range(2)
    ]
    pods = [
        guaranteed(name, str(4 + 4 * zone), node="n", status={"phase": "Running"}) for _, name, _, zone in containers
    ]
    told = {"nodeTopologyPodsFingerprint": fingerprint((each.namespace, each.name) for each in pods)}

    class Preempting(NodeResourceTopologyMatch):
        def __init__(self, handle):
            super().__init__(
                handle, NodeResourceTopologyMatchArgs(cacheResyncPeriodSeconds=5, preemptionMode="Enabled")
            )

    Preempting.arguments = None
    document = topology("n", zones, CONTAINER_LEVEL, metadata | told)
    cluster = make_cluster(node_of(document), (TOPOLOGIES, document), *pods, plugins=[Preempting])
    decision = cluster.decide(guaranteed("new", "6", spec={"priority": 100}))
    assert [victim.name for victim in decision.victims] == ["right"]


# ZoneHints


def hint(cluster, asked, old, new):
    return ZoneHints(cluster.plugin.cache).after_topology_change(asked, old, new)


def test_pods_wake_when_a_topology_changed_for_them():
    cluster = numa(topology("n", [FULL]))
    asked, full, roomy = guaranteed(), topology("n", [FULL]), topology("n", [ROOMY])
    assert hint(cluster, asked, full, roomy) is Hint.QUEUE
    assert hint(cluster, asked, None, roomy) is Hint.QUEUE
    assert hint(cluster, asked, full, None) is Hint.QUEUE
    assert hint(cluster, asked, roomy, full) is Hint.SKIP
    assert hint(cluster, asked, roomy, roomy) is Hint.SKIP
    assert hint(cluster, asked, full, full) is Hint.SKIP
    assert hint(cluster, asked, full, topology("n", [FULL], "")) is Hint.QUEUE
    reserving = numa(topology("n", [FULL]), cacheResyncPeriodSeconds=5)
    assert hint(reserving, asked, roomy, roomy) is Hint.QUEUE


def test_pods_wake_when_a_pod_leaves_that_no_topology_counts():
    leaving = guaranteed("q", node="n")
    for args, expected in (({}, Hint.SKIP), ({"cacheResyncPeriodSeconds": 5}, Hint.QUEUE)):
        hints = ZoneHints(numa(topology("n", [FULL]), **args).plugin.cache)
        assert hints.after_pod_change(guaranteed(), leaving, None) is expected
        assert hints.after_pod_change(guaranteed(), guaranteed("r"), None) is Hint.SKIP
        assert hints.after_pod_change(guaranteed(), guaranteed(cpu="9"), guaranteed()) is Hint.QUEUE
        assert hints.after_pod_change(guaranteed(), guaranteed("r", "9"), guaranteed("r")) is Hint.SKIP


def test_pods_wake_when_a_node_offers_a_resource():
    hints = ZoneHints(numa(topology("n", [FULL])).plugin.cache)
    asked = pod("p", {"all": {"vendor/nic": "1"}})
    plain, with_nic = make_node("n"), make_node("n", resources={"vendor/nic": "1"})
    assert hints.after_node_change(asked, plain, with_nic) is Hint.QUEUE
    assert hints.after_node_change(asked, with_nic, with_nic) is Hint.SKIP
    assert hints.after_node_change(asked, None, plain) is Hint.QUEUE


# Questions


def configuration(tmp_path, **args):
    named = {"enabled": [{"name": "NodeResourceTopologyMatch"}]}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": named},
                "pluginConfig": [{"name": "NodeResourceTopologyMatch", "args": args}],
            }
        ],
    }
    path = tmp_path / "scheduler.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def as_document(obj):
    kind, document = document_of(obj) if not isinstance(obj, dict) else (None, obj)
    return document if kind is None else {"apiVersion": kind.api_version, "kind": kind.kind, **document}


def configured(tmp_path, **args):
    return read_configuration(configuration(tmp_path, **args)).configuration


def test_an_explanation_names_the_zones(tmp_path):
    zones = [{"available": {"cpu": "1", "memory": "8Gi"}}, {"available": {"memory": "512Mi", "vendor/nic": "1"}}]
    document = topology("n", zones)
    asked = make_pod("web", cpu="2", memory="1Gi", resources={"cpu": "2", "memory": "1Gi"})
    snapshot = Snapshot.of(map(as_document, [node_of(document), asked, document]))
    text = Insight(snapshot, configured(tmp_path)).explain("default/web").text()
    assert (
        "no zone of node n has enough for the pod: node-0 has 1 of 2 cpu; node-1 has no cpu, 512Mi of 1Gi memory"
        in text
    )


@pytest.mark.parametrize(("args", "replicas"), [({"cacheResyncPeriodSeconds": 5}, 2), ({}, 10)])
def test_fit_counts_what_it_places(tmp_path, args, replicas):
    document = topology("n", [ROOMY, ROOMY])
    asked = [as_document(guaranteed(f"web-{number}")) for number in range(10)]
    insight = Insight(Snapshot.of(map(as_document, [node_of(document), document])), configured(tmp_path, **args))
    for _ in range(2):  # what was reserved for an answer is given back
        assert [each.node for each in insight.fit(asked).pods].count("n") == replicas


def test_arguments_have_upstreams_messages(tmp_path):
    document = json.loads(configuration(tmp_path, scoringStrategy={"type": "Best"}, preemptionMode="x").read_text())
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(document)
    assert 'scoringStrategy.type: Invalid value: "Best": invalid ScoringStrategyType' in str(raised.value)
    assert 'preemptionMode: Invalid value: "x": invalid PreemptionMode' in str(raised.value)


def test_weights_count():
    zone = {"available": {"cpu": "4", "memory": "4Gi"}}
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 0}]
    cluster = numa(topology("n", [zone]), scoringStrategy={"type": "MostAllocated", "resources": resources})
    assert cluster.scores(guaranteed(cpu="4")) == {"n": (3 * 100 + 25) // 4}


@pytest.mark.parametrize("args", [{}, {"cacheResyncPeriodSeconds": 5}, {"discardReservedNodes": True}], ids=str)
def test_the_contract_holds(args):
    documents = [topology("a", [FULL, ROOMY]), topology("b", [FULL, FULL], CONTAINER_LEVEL)]
    objects = [make_node("a"), make_node("b"), *[(TOPOLOGIES, document) for document in documents]]
    pods = [guaranteed(), pod("q", {"requests": {"cpu": "1"}})]
    # What Hypothesis draws also depends on the modules that were imported before.
    drawn = {"examples": 8, "skip": ["exercise"]} if args else {"examples": 60}
    check_contract(NodeResourceTopologyMatch, args, objects=objects, pods=pods, **drawn)
