"""NodeResourceTopologyMatch: the tables of upstream's unit tests."""

from functools import cache

import numpy as np
import pytest
from tests.bayplan_plugins.numa_clusters import node_of, numa, pod, topology
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan_plugins.node_resource_topology import least_numa
from bayplan_plugins.node_resource_topology.demand import demand_of, held_by, is_affine, is_host_level
from bayplan_plugins.node_resource_topology.evictions import NOTHING, TOO_MUCH, ZoneEvictions
from bayplan_plugins.node_resource_topology.fingerprints import METADATA, VECTOR, xxh64
from bayplan_plugins.node_resource_topology.topologies import counted, read


@cache
def table(file, name):
    return vectors(f"node_resource_topology_{file}", name)


def of_case(given, **fields):
    made = {"namespace": given.get("namespace", "default"), "node": given.get("node", ""), **fields}
    if "quality" in given:
        made["status"] = {"qosClass": given["quality"]}
    if "scheduler" in given:
        made["spec"] = {"schedulerName": given["scheduler"]}
    return pod(given.get("name", "p"), *given.get("containers", ()), init=given.get("init", ()), **made)


def whole(given, policy=""):
    return topology(given["name"], given["zones"], given.get("policy", policy))


# Filter


@cases("case", table("filter", "TestNodeResourceTopology"))
def test_a_node_is_filtered(case):
    given = table("filter", "topologies")[case["node"]]
    document = whole(given)
    cluster = numa(document, nodes=[node_of(document, **given.get("node", {}))])
    assert cluster.reason(of_case(case["pod"]), given["name"]) == (case["status"] or "")


@cases("case", table("filter", "TestNodeResourceTopologyMultiContainerPodScope"))
def test_the_containers_of_a_pod_fit_into_one_zone(case):
    given = table("filter", "pod scope")
    assert numa(whole(given)).reason(of_case(case["pod"]), given["name"]) == (case["status"] or "")


@cases("case", table("filter", "TestNodeResourceTopologyMultiContainerContainerScope"))
def test_each_container_fits_into_a_zone(case):
    given = table("filter", "container scope")
    assert numa(whole(given)).reason(of_case(case["pod"]), given["name"]) == (case["status"] or "")


# Score


@cases("case", table("score", "TestNodeResourceScorePlugin") | table("score", "TestNodeResourcePartialDataScorePlugin"))
def test_the_best_node_has_the_score(case):
    found = [whole({**each, "policy": "SingleNUMANodeContainerLevel"}) for each in table("score", "default topologies")]
    known = [each for each in found if case.get("only") in {None, each["metadata"]["name"]}]
    cluster = numa(*known, nodes=map(node_of, found), scoringStrategy={"type": case["strategy"]})
    scores = cluster.scores(pod("p", {"all": {"cpu": "2", "memory": "20Mi"}}))
    for node, score in case["best"].items():
        assert (max(scores, key=scores.__getitem__), scores[node]) == (node, score)
    unknown = scores.keys() - {each["metadata"]["name"] for each in known}
    assert all(scores[node] == 0 for node in unknown)


@cases("case", table("score", "TestNodeResourceScorePluginLeastNUMA"))
def test_nodes_where_few_zones_are_needed_have_a_high_score(case):
    found = [
        whole({**each, "policy": case.get("policy") or each["policy"]}) for each in table("score", case["topologies"])
    ]
    cluster = numa(*found, scoringStrategy={"type": "LeastNUMANodes"})
    asked = of_case({"containers": [{"all": each} for each in case["requests"]], "quality": "Guaranteed"})
    assert cluster.scores(asked) == case["scores"]


def zone_group(zones, request):
    listed = {f"node-{zone['number']}": {"available": {}, **zone} for zone in zones}
    cluster = numa(topology("n", listed))
    view = cluster.plugin.cache.columns.view(cluster.state.nodes)
    return least_numa.ZoneGroup(view, len(zones), np.array([0]), demand_of(pod("p", {"all": request})))


@cases("case", table("score", "TestNUMANodesRequired"))
def test_the_smallest_sets_of_zones_are_found(case):
    numbers = sorted(zone["number"] for zone in case["zones"])
    request = counted(case["request"])
    found = zone_group(case["zones"], case["request"]).least(request, np.array([True]))
    needed = [number for number, mine in zip(numbers, found.zones[:, 0], strict=True) if mine]
    assert needed == (case["found"] or [])
    assert bool(found.nearest[0]) is case["nearest"]


@cases("case", table("score", "TestNormalizeScore"))
def test_a_number_of_zones_has_a_score(case):
    score = least_numa.normalized(np.array([case["zones"]]), np.array([case["nearest"]]), np.array([8]))
    assert score.tolist() == [case["score"]]


@cases("case", table("score", "TestMinDistance"))
def test_the_distance_of_a_set_of_zones_is_an_average(case):
    zones = [{**zone, "available": {"cpu": "1"}} for zone in table("score", "distances")]
    if not case.get("costs", True):
        zones = [{**zone, "costs": {}} for zone in zones]
    group = zone_group(zones, {"cpu": "1"})
    nearest = min(int(group.distance(tuple(each))[0]) / len(each) ** 2 for each in case["sets"])
    assert nearest == pytest.approx(case["distance"])


@cases("case", table("score", "TestOnlyNonNUMAResources"))
def test_a_request_may_be_for_nothing_of_a_zone(case):
    group = zone_group(table("score", "zones"), case["request"])
    assert group.lists_any(counted(case["request"])).tolist() == [not case["none"]]


# Objects


@cases("expected", table("objects", "TestIsHostLevelResource"))
def test_some_resources_are_of_the_host(request, expected):
    assert is_host_level(named(request)) is expected


@cases("expected", table("objects", "TestIsNUMAAffineResource"))
def test_some_resources_are_of_a_zone(request, expected):
    assert is_affine(named(request)) is expected


@cases("expected", table("objects", "TestIsValidScope"))
def test_scopes(request, expected):
    attributes = {"topologyManagerPolicy": "none", "topologyManagerScope": named(request)}
    known = [
        read(topology("n", [ZONE], old, attributes)).pod_scope
        for old in ("BestEffortPodLevel", "BestEffortContainerLevel")
    ]
    assert (known[0] == known[1]) is expected


@cases("expected", table("objects", "TestIsValidPolicy"))
def test_policies(request, expected):
    found = read(topology("n", [ZONE], "", {"topologyManagerPolicy": named(request)}))
    other = read(topology("n", [ZONE], "RestrictedPodLevel", {"topologyManagerPolicy": named(request)}))
    assert (found.policy == other.policy) is expected


def named(request):
    return request.node.callspec.id.strip('"')


ZONE = {"available": {"cpu": "1"}}
DEFAULTS = {"policy": "none", "scope": "container", "most": 8}
SETTINGS = {
    f"{name}, {each}": case
    for name in ("TestConfigFromAttributes", "TestConfigFromPolicies", "TestConfigFromNRT")
    for each, case in table("objects", name).items()
}


@cases("case", SETTINGS)
def test_the_settings_of_the_topology_manager(case):
    document = topology("n", [ZONE], "")
    document["topologyPolicies"] = case.get("policies", [])
    document["attributes"] = [{"name": name, "value": value} for name, value in case.get("attributes", [])]
    found = read(document)
    expected = DEFAULTS | {name: value for name, value in case["settings"].items() if name != "default"}
    assert found.settings == (expected["policy"], expected["scope"] == "pod", expected["most"])


@cases("case", table("objects", "TestFingerprintFromNRT"))
def test_the_fingerprint_of_a_topology(case):
    found = read(topology("n", [ZONE], "", dict(case["attributes"]), case["annotations"]))
    assert found.fingerprint == case["fingerprint"]


@cases("case", table("objects", "TestFingerprintMethodFromNRT"))
def test_a_fingerprint_may_count_some_pods_only(case):
    method = {"nodeTopologyPodsFingerprintMethod": case["method"]} if case["method"] else {}
    found = read(topology("n", [ZONE], "", {"nodeTopologyPodsFingerprint": "x", **method}))
    assert cache_of().only_exclusive(found) is case["exclusive"]


def cache_of(**cache):
    cluster = numa(cacheResyncPeriodSeconds=5, cache=cache, nodes=[node_of(topology("n", []))])
    return cluster.plugin.cache


@cases("case", table("objects", "TestIsForeignPod"))
def test_foreign_pods(case):
    mode = "OnlyExclusiveResources" if case["exclusive only"] else "All"
    zone = {"available": dict.fromkeys(case["resources"], "1") or {"other.io/thing": "1"}}
    cluster = numa(topology("random-node", [zone]), cacheResyncPeriodSeconds=5, cache={"foreignPodsDetect": mode})
    for name in case["own"]:
        cluster.plugin.cache.own(name)
    placed = of_case({**case["pod"], "scheduler": case["pod"].get("scheduler", "of-somebody")})
    cluster.pod(placed)
    assert cluster.plugin.cache.fresh("random-node") is not case["foreign"]


@cases("case", table("objects", "TestAreExclusiveForPod"))
def test_pods_with_resources_for_themselves(case):
    demand = demand_of(of_case(case["pod"]))
    assert (demand.devices, demand.exclusive({"veryfast.io/fpga"})) == (case["devices"], case["exclusive"])


@cases("case", table("objects", "TestAreExclusiveForPodNRTScoped"))
def test_devices_are_exclusive_where_a_zone_has_them(case):
    assert demand_of(of_case(case["pod"])).exclusive(set(case["resources"])) is case["exclusive"]


# ZoneEvictions


def placement_of(containers, zones=2):
    """The attributes that say which zone each container has: of the topology, and of each zone."""
    hashes = {xxh64("\0".join(each[:3]).encode()): each[3] for each in containers}
    offsets = {zone: [at for at, each in enumerate(sorted(hashes)) if hashes[each] == zone] for zone in range(zones)}
    busiest = max(offsets, key=lambda zone: (len(offsets[zone]), -zone))
    digits = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\']
    vectors_of = {
        zone: "".join(digits[at - before] for before, at in zip([0, *found], found, strict=False))
        for zone, found in offsets.items()
        if zone != busiest and found
    }
    metadata = {METADATA: f"npv0v001::ve=leb89::cc={len(hashes)}::nn={zones}::bn={busiest}"}
    return metadata, {f"node-{zone}": {VECTOR: vector} for zone, vector in vectors_of.items()}


@cases("case", table("evictions", "TestGetNRTPostPodsEviction"))
def test_evictions_give_back_what_a_zone_lent(case):
    zones = table("evictions", "topology")
    victims = [of_case({**each, "node": "n"}) for each in case["victims"]]
    named_already = {
        (victim.namespace, victim.name): {each.name for each in victim.spec.containers} for victim in victims
    }
    containers = [
        each for each in table("evictions", "containers") if each[2] in named_already.get((each[0], each[1]), {each[2]})
    ]
    others = [
        of_case(
            {
                "name": name,
                "namespace": namespace,
                "node": "n",
                "containers": [
                    {"name": each[2], "all": {"cpu": "1", "memory": "1Mi"}}
                    for each in containers
                    if each[:2] == [namespace, name]
                ],
            }
        )
        for namespace, name in dict.fromkeys((each[0], each[1]) for each in containers)
        if (namespace, name) not in named_already
    ]
    metadata, per_zone = placement_of(containers)
    listed = {name: {**zone, "attributes": per_zone.get(name, {})} for name, zone in zones.items()}
    cluster = numa(topology("n", listed, attributes=metadata), cacheResyncPeriodSeconds=5, preemptionMode="Enabled")
    cache = cluster.plugin.cache
    running = [each for each in (*victims, *others) if each.name != "newpod"]
    cache.ran["n"] = held_by(running, cache.topologies()["n"].resources)
    numbers = [counted(zone["available"]) for zone in zones.values()]
    found = ZoneEvictions(cache).of("n", victims, lambda zone, resource: numbers[zone][resource])
    if case["error"]:
        assert found == {"no resources": NOTHING, "resource release": TOO_MUCH}[" ".join(case["error"].split()[:2])]
        return
    after = [counted(case["after"][name]) for name in zones]
    gained = {
        (at, resource): amount - numbers[at][resource]
        for at, zone in enumerate(after)
        for resource, amount in zone.items()
        if amount != numbers[at][resource]
    }
    assert found == gained
