"""DynamicResources: the taints of DeviceTaintRules."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import cases

from bayplan.core.api.kinds import DEVICE_TAINT_RULE, RESOURCE_SLICE
from bayplan.core.api.objects import convert
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.devices.slices import DeviceSlices
from bayplan.core.framework.events import Hint
from bayplan.core.plugins.dynamic_resources.events import after_rule_change, hints
from bayplan.core.versions import DEFAULT_GATES, gates_of
from bayplan.testing import make_cluster, make_node
from devices import DRIVER, claim, device, device_class, pod_with, request, resource_slice

pytestmark = pytest.mark.feature("DynamicResources: DeviceTaintRules")

ON = DEFAULT_GATES.but("DRADeviceTaintRules")
NODES = [make_node("n1"), make_node("n2")]
SLICES = [resource_slice("s1", "a", node="n1"), resource_slice("s2", "a", "b", node="n2")]


def rule(name="r", effect="NoSchedule", **selector):
    spec = {"taint": {"key": "broken", "value": "yes", "effect": effect}, "deviceSelector": selector}
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}
    return convert(DEVICE_TAINT_RULE.type, document)


def cluster_with(*rules, gates=ON, **asked):
    cluster = make_cluster(*NODES, *SLICES, device_class(), claim("c", request(**asked)), gates=gates)
    for each in rules:
        cluster.state.objects[DEVICE_TAINT_RULE].set(each.metadata.name, each)
    return cluster


def feasible(cluster):
    decision = cluster.decide(pod_with("c"))
    rejected = {decision.diagnosis.verdicts.nodes.name(row) for row, _ in decision.diagnosis.verdicts.rejected()}
    return {"n1", "n2"} - rejected


@cases(
    "rules, expected",
    {
        "no rule": ([], {"n1", "n2"}),
        "all devices": ([rule()], set()),
        "a driver": ([rule(driver=DRIVER)], set()),
        "another driver": ([rule(driver="other.example.com")], {"n1", "n2"}),
        "a pool": ([rule(pool="n1")], {"n2"}),
        "a device of all pools": ([rule(device="a")], {"n2"}),
        "a device of a pool": ([rule(pool="n2", device="a")], {"n1", "n2"}),
        "two rules": ([rule("r", pool="n2", device="a"), rule("q", device="b")], {"n1"}),
        "eviction": ([rule(effect="NoExecute", pool="n1")], {"n2"}),
        "no effect": ([rule(effect="None")], {"n1", "n2"}),
    },
)
def test_rules_taint_devices(rules, expected):
    assert feasible(cluster_with(*rules)) == expected
    assert feasible(cluster_with(*rules, gates=DEFAULT_GATES)) == {"n1", "n2"}


@cases("version, expected", {"1.36": ("1.36", set()), "1.37": ("1.37", {"n1", "n2"})})
def test_a_rule_without_a_selector_taints_nothing_since_1_37(version, expected):
    gates, unselecting = gates_of(version).but("DRADeviceTaintRules"), rule()
    unselecting.spec.deviceSelector = None
    assert feasible(cluster_with(unselecting, gates=gates)) == expected
    assert feasible(cluster_with(rule(), gates=gates)) == set()


def test_a_rule_that_loses_its_selector_taints_nothing():
    cluster = cluster_with(rule(pool="n1"), gates=gates_of("1.37"))
    seen, unselecting = [feasible(cluster)], rule()
    unselecting.spec.deviceSelector = None
    cluster.state.objects[DEVICE_TAINT_RULE].set("r", unselecting)
    assert [*seen, feasible(cluster)] == [{"n2"}, {"n1", "n2"}]


def test_claims_tolerate_the_taints_of_rules():
    tolerations = [{"key": "broken", "operator": "Equal", "value": "yes"}]
    assert feasible(cluster_with(rule(), tolerations=tolerations)) == {"n1", "n2"}


def test_changed_rules_count_at_once():
    cluster = cluster_with()
    rules, seen = cluster.state.objects[DEVICE_TAINT_RULE], []
    for each in (rule(pool="n1"), rule(pool="n2"), None):
        if each is None:
            rules.remove("r")
        else:
            rules.set("r", each)
        seen.append(feasible(cluster))
    assert seen == [{"n2"}, {"n1"}, {"n1", "n2"}]


def test_the_taint_of_a_rule_is_explained():
    cluster = cluster_with(rule(pool="n1"))
    decision = cluster.decide(pod_with("c"))
    plugin = next(each for each in cluster.profile.every() if each.name == "DynamicResources")
    details = plugin.explain(decision.cycle, pod_with("c"), cluster.state.nodes.info(0))
    assert "broken=yes:NoSchedule" in details.text


@cases(
    "old, new, expected",
    {
        "new": (None, rule(), Hint.QUEUE),
        "gone": (rule(), None, Hint.QUEUE),
        "other devices": (rule(), rule(pool="n1"), Hint.QUEUE),
        "only its status": (rule(), rule(), Hint.SKIP),
    },
)
def test_hint_after_a_change_of_a_rule(old, new, expected):
    assert after_rule_change(pod_with("c"), old, new) is expected


@cases("taint_rules", {"on": True, "off": False})
def test_rules_wake_pods_only_if_they_count(taint_rules):
    resources = {each.event.resource for each in hints({}, taint_rules=taint_rules)}
    assert ("DeviceTaintRule" in resources) is taint_rules


def put(rng, store, kind, make):
    name = rng.choice("xyz")
    if rng.random() < 0.3:
        store.remove(name)
    else:
        made = make(name)
        store.set(name, convert(kind.type, made) if isinstance(made, dict) else made)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_taints_kept_over_changes_are_those_of_a_new_start(seed):
    rng = random.Random(seed)
    slices, rules = ObjectStore(), ObjectStore()
    kept = DeviceSlices(slices, rules)

    def a_slice(name):
        taints = [{"key": "own", "effect": "NoSchedule"}] if rng.random() < 0.3 else []
        names = rng.sample("ab", rng.randint(1, 2))
        return resource_slice(name, *(device(each, taints=taints) for each in names), pool=rng.choice("pq"), node="n")

    def a_rule(name):
        parts = {"driver": [DRIVER, "other.example.com"], "pool": ["p", "q"], "device": ["a", "b"]}
        return rule(name, **{part: rng.choice(values) for part, values in parts.items() if rng.random() < 0.5})

    for _ in range(12):
        if rng.random() < 0.5:
            put(rng, slices, RESOURCE_SLICE, a_slice)
        else:
            put(rng, rules, DEVICE_TAINT_RULE, a_rule)
        if rng.random() < 0.7:
            kept.refresh()
        new = DeviceSlices(slices, rules)
        if rng.random() < 0.7:
            kept.refresh()
            new.refresh()
            assert taints(kept) == taints(new)


def taints(slices):
    return {
        (each.name, device.id): [(taint.key, taint.value) for taint in device.taints]
        for pool in slices.by_pool.values()
        for each in pool.values()
        for device in each.devices
    }
