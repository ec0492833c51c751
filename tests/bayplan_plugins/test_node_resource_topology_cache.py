"""The caches of NodeResourceTopologyMatch: upstream's scenarios, and what comes of events in any order."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bayplan_plugins.numa_clusters import CONTAINER_LEVEL, node_of, numa, pod, topology
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.plugin import CycleState
from bayplan_plugins.node_resource_topology.arguments import NodeResourceTopologyMatchArgs
from bayplan_plugins.node_resource_topology.fingerprints import fingerprint, xxh64, zones_of
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch
from bayplan_plugins.node_resource_topology.topologies import counted

FINGERPRINT = "nodeTopologyPodsFingerprint"
OF_KIND = {
    "OverReserve": {"cacheResyncPeriodSeconds": 5},
    "DiscardReserved": {"discardReservedNodes": True},
    "Passthrough": {},
}
BIG = {"all": {"cpu": "8", "memory": "16Gi"}}
CONTAINERS = {
    "pod0": [
        {"requests": {"cpu": "16", "memory": "4Gi", "vendor.com/nic": "2"}},
        {"requests": {"cpu": "2", "memory": "2Gi"}},
    ],
    "pod1": [BIG],
    "pod2": [{"all": {"cpu": "4", "memory": "8Gi"}}],
}
NEWER = [{"available": {"cpu": "30", "memory": "60Gi"}}, {"available": {"cpu": "22", "memory": "44Gi"}}]


@cache
def table(name):
    return vectors("node_resource_topology_cache", name)


def made(name, node="", **fields):
    return pod(name, *CONTAINERS[name], namespace="namespace1", node=node, **fields)


class Scenario:
    """A cluster of one node, to which steps happen."""

    def __init__(self, case):
        zones = case.get("zones", table("topology"))
        self.document = topology("n", [{"available": zone} for zone in zones or ()], CONTAINER_LEVEL)
        documents = [self.document] if zones else []
        self.cluster = numa(*documents, nodes=[node_of(self.document)], **OF_KIND[case.get("kind", "OverReserve")])
        for step in case.get("steps", ()):
            getattr(self, step[0])(*step[1:])

    def reserve(self, name, node="n"):
        if node == "n":
            self.cluster.reserve(made(name))
        else:
            self.cluster.plugin.reserve(CycleState(), made(name), node)

    def unreserve(self, name):
        self.cluster.unreserve(made(name))

    def runs(self, name):
        self.cluster.pod(made(name, "n", status={"phase": "Running"}))

    def foreign(self, name):
        self.cluster.pod(made(name, "n", spec={"schedulerName": "another"}))

    def topology(self, told):
        self.cluster.topology(topology("n", NEWER, CONTAINER_LEVEL, {FINGERPRINT: told} if told else {}))


@cases("case", table("TestReserve") | table("TestResync") | table("TestFresh"))
def test_upstreams_scenarios(case):
    cluster = Scenario(case).cluster
    assert cluster.plugin.cache.fresh("n") is case.get("fresh", True)
    for resource, amounts in case.get("left", {}).items():
        expected = [-1 if amount is None else counted({resource: amount})[resource] for amount in amounts]
        assert cluster.left(resource) == expected


@cases("case", table("TestWatcherProcessEvent"))
def test_changed_settings_of_the_kubelet_count_at_once(case):
    def attributes(policy, scope):
        return {"topologyManagerPolicy": policy, "topologyManagerScope": scope, FINGERPRINT: "pfp0v0010000000000000000"}

    for scope, expected in (("All", case["used"]), ("OnlyResources", False)):
        first = topology("n", [{"available": {"cpu": "4"}}], "", attributes(*case["before"]))
        cluster = numa(first, cacheResyncPeriodSeconds=5, cache={"resyncScope": scope})
        cluster.pod(made("pod1", "n", status={"phase": "Running"}))
        cluster.topology(topology("n", [{"available": {"cpu": "3"}}], "", attributes(*case["after"])))
        assert cluster.left("cpu") == [3000 if expected else 4000]


@cases("case", table("TestNRTStoreUpdate"))
def test_the_zones_of_containers(case):
    containers = [tuple(each) for each in case["containers"]]
    if case["zones"] is None:
        with pytest.raises(ValueError, match="numaplacement-metadata"):
            zones_of(case["metadata"], case["vectors"], containers)
    else:
        assert zones_of(case["metadata"], case["vectors"], containers) == dict(
            zip(containers, case["zones"], strict=True)
        )


@cases("metadata", table("TestUnpackMetadataErrors"))
def test_metadata_that_is_no_metadata(metadata):
    with pytest.raises(ValueError, match="numaplacement-metadata"):
        zones_of(metadata, {}, [("n", "p", "c")])


@pytest.mark.parametrize("vector", ["~", "é", "!!", "~~~~~~~~~~!"])
def test_a_vector_that_is_no_vector(vector):
    with pytest.raises(ValueError, match="numaplacement-vector"):
        zones_of("npv0v001::ve=leb89::cc=1::nn=2::bn=1", {0: vector}, [("n", "p", "c")])


def test_known_hashes():
    known = {b"": 0xEF46DB3751D8E999, b"abc": 0x44BC2CF5AD770999}
    assert {data: xxh64(data) for data in known} == known
    assert xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1
    assert fingerprint([("namespace1", "pod1")]) == "pfp0v0019e0420efb37746c6"


def running(name, **fields):
    return pod(name, BIG, node="n", status={"phase": "Running"}, **fields)


def told(*pods):
    return {FINGERPRINT: fingerprint((each.namespace, each.name) for each in pods)}


THIRTY = [{"available": {"cpu": "30"}}]


def test_a_pod_that_is_being_bound_counts_although_its_node_has_a_newer_topology():
    """Upstream forgets it then: the topology counts only the pods that run."""
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5)
    cluster.reserve(pod("binding", BIG))
    cluster.pod(running("old"))
    cluster.topology(topology("n", [{"available": {"cpu": "20"}}], attributes=told(running("old"))))
    assert cluster.left("cpu") == [12_000]


def test_a_pod_that_is_deleted_before_it_runs_counts_no_more():
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5)
    placed = pod("p", BIG)
    cluster.reserve(placed)
    cluster.pod(pod("p", BIG, node="n"))
    assert cluster.left("cpu") == [22_000]
    cluster.gone(pod("p", BIG, node="n"))
    assert cluster.left("cpu") == [30_000]


def test_the_topology_of_a_node_that_joins_later_counts():
    cluster = numa(
        topology("n", THIRTY),
        cacheResyncPeriodSeconds=5,
        nodes=map(node_of, [topology("n", THIRTY), topology("m", THIRTY)]),
    )
    assert cluster.left("cpu", "m") == [-1]
    cluster.topology(topology("m", [{"available": {"cpu": "1"}}]))
    assert cluster.left("cpu", "m") == [1000]


def test_what_foreign_pods_took_counts_when_the_topology_has_them():
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5)
    foreign = running("f", spec={"schedulerName": "another"})
    cluster.pod(foreign)
    assert cluster.reason(pod("p", BIG)) == "invalid node topology data"
    cluster.topology(topology("n", [{"available": {"cpu": "10"}}], attributes=told(foreign)))
    assert cluster.plugin.cache.fresh("n")
    assert cluster.left("cpu") == [10_000]


@pytest.mark.parametrize(("mode", "fresh"), [("All", False), ("None", True), ("OnlyExclusiveResources", True)])
def test_foreign_pods_that_share_what_they_use(mode, fresh):
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5, cache={"foreignPodsDetect": mode})
    cluster.pod(pod("f", {"requests": {"cpu": "100m"}}, node="n", spec={"schedulerName": "another"}))
    assert cluster.plugin.cache.fresh("n") is fresh


@pytest.mark.parametrize(
    ("method", "left"), [("Autodetect", 10_000), ("OnlyExclusiveResources", 10_000), ("All", 30_000)]
)
def test_a_fingerprint_of_pods_with_exclusive_resources(method, left):
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5, cache={"resyncMethod": method})
    shared = pod("s", {"requests": {"cpu": "1"}}, node="n", status={"phase": "Running"})
    cluster.pod(shared)
    cluster.pod(running("p"))
    attributes = told(running("p")) | {"nodeTopologyPodsFingerprintMethod": "with-exclusive-resources"}
    cluster.topology(topology("n", [{"available": {"cpu": "10"}}], attributes=attributes))
    assert cluster.left("cpu") == [left]


@pytest.mark.parametrize(("informer", "left"), [("Dedicated", 10_000), ("Shared", 30_000)])
def test_pods_in_an_unknown_phase_count_for_a_dedicated_informer(informer, left):
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5, cache={"informerMode": informer})
    cluster.pod(pod("p", BIG, node="n", status={"phase": "Unknown"}))
    cluster.topology(topology("n", [{"available": {"cpu": "10"}}], attributes=told(running("p"))))
    assert cluster.left("cpu") == [left]


def test_profiles_share_what_is_reserved():
    cluster = numa(topology("n", THIRTY), cacheResyncPeriodSeconds=5)
    again = NodeResourceTopologyMatchArgs(cacheResyncPeriodSeconds=60)
    other = NodeResourceTopologyMatch(OfflineHandle(cluster.state), again, "other")
    cluster.reserve(pod("p", BIG))
    assert other.cache is cluster.plugin.cache


EVENTS = st.lists(st.tuples(st.sampled_from(["reserve", "runs", "gone", "told"]), st.integers(0, 2)), max_size=14)


@settings(max_examples=30, deadline=None)
@given(EVENTS)
def test_no_pod_counts_twice_or_never(steps):
    """A topology that tells the truth, whenever it comes: what is left is what no pod has, in the only zone."""
    cluster = numa(topology("n", [{"available": {"cpu": "100"}}], attributes=told()), cacheResyncPeriodSeconds=5)
    placed, runs = set(), set()
    for step, number in steps:
        name = f"p{number}"
        if step == "reserve" and name not in placed:
            cluster.reserve(pod(name, BIG))
            placed.add(name)
        elif step == "runs" and name in placed - runs:
            cluster.pod(running(name))
            runs.add(name)
        elif step == "gone" and name in runs:
            cluster.gone(running(name))
            placed.discard(name)
            runs.discard(name)
        elif step == "told":
            left = str(100 - 8 * len(runs))
            cluster.topology(
                topology("n", [{"available": {"cpu": left}}], attributes=told(*map(running, sorted(runs))))
            )
    cluster.topology(
        topology("n", [{"available": {"cpu": str(100 - 8 * len(runs))}}], attributes=told(*map(running, sorted(runs))))
    )
    assert cluster.left("cpu") == [1000 * (100 - 8 * len(placed))]
