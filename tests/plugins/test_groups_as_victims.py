"""DefaultPreemption in 1.37: pods of PodGroups as victims of a single pod."""

import pytest
from preempting import HIGH, LOW, MIDDLE, budget, cluster_of, preempted, running, vip
from tests.support.tables import cases

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.versions import gates_of

pytestmark = pytest.mark.feature("DefaultPreemption: PodGroups as victims")

ON = gates_of("1.37").but("GenericWorkload")
ALL, SINGLE = {"all": {}}, {"single": {}}
LABELS = {"labels": {"app": "kept"}}


def group(name, mode=ALL, priority=LOW):
    spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": mode, "priority": priority}
    return CustomObject(metadata={"name": name, "namespace": "default", "uid": f"uid-{name}"}, spec=spec)


def on(name, node, of=None, priority=LOW, cpu="1", **fields):
    spec = {"schedulingGroup": {"podGroupName": of}} if of else {}
    return running(name, node, priority, cpu, spec=spec, **fields)


def decided(pods, groups, pod, gates=ON, **options):
    """The node, and the names of the victims."""
    cluster = cluster_of(*pods, gates=gates, **options)
    for each in groups:
        cluster.state.objects[custom_kind(POD_GROUPS)].set(f"default/{each.metadata.name}", each)
    return preempted(cluster, pod)


SPREAD = [on("g1", "a", "red"), on("g2", "b", "red"), on("g3", "b", "red"), on("other", "a", priority=MIDDLE)]
"""Node a has a pod of a group, whose other pods are on b, and a pod of a higher priority."""
FULL_B = on("two", "b", priority=HIGH, cpu="2")
HIGHER = [on("one", "a", priority=HIGH), FULL_B]
ON_A = [on("g1", "a", "red"), on("g2", "a", "red")]


@cases(
    "pods, groups, pod, expected",
    {
        "the group goes as a whole": (
            [on("g1", "a", "red"), on("g2", "b", "red"), *HIGHER],
            [group("red")],
            vip("1"),
            ("a", ["g1", "g2"]),
        ),
        "pods of a group with single go alone": ([*ON_A, FULL_B], [group("red", SINGLE)], vip("1"), ("a", ["g2"])),
        "a pod of a missing group goes alone": ([*ON_A, FULL_B], [], vip("1"), ("a", ["g2"])),
        "the priority of the group protects its pods": (
            [on("g1", "a", "red", cpu="2"), on("p1", "b", priority=MIDDLE, cpu="2")],
            [group("red", SINGLE, HIGH)],
            vip(),
            ("b", ["p1"]),
        ),
        "the priority of the group exposes its pods": (
            [on("g1", "a", "red", HIGH, "2"), on("p1", "b", priority=HIGH, cpu="2")],
            [group("red", SINGLE, LOW)],
            vip(),
            ("a", ["g1"]),
        ),
        "a group is more important than a pod": (
            [on("g1", "a", "red", started=5), on("p1", "a", started=1), FULL_B],
            [group("red")],
            vip("1"),
            ("a", ["p1"]),
        ),
        "a larger group is more important than a smaller one": (
            [on("g1", "a", "red"), on("g2", "a", "blue"), on("g3", "b", "blue"), on("two", "b", priority=HIGH)],
            [group("red"), group("blue")],
            vip("1"),
            ("a", ["g1"]),
        ),
        "the node with fewer pods to evict": ([*ON_A, on("p1", "b", cpu="2")], [group("red")], vip("1"), ("b", ["p1"])),
    },
)
def test_victims(pods, groups, pod, expected):
    assert decided(pods, groups, pod) == expected


@cases(
    "gates, victims",
    {
        "1.37": (ON, ["g1", "g2"]),
        "1.37 without the gate": (gates_of("1.37"), ["g1"]),
        "1.36": (gates_of("1.36").but("GenericWorkload"), ["g1"]),
    },
)
def test_groups_count_since_1_37_with_the_gate(gates, victims):
    pods = [on("g1", "a", "red"), on("g2", "b", "red"), *HIGHER]
    assert decided(pods, [group("red")], vip("1"), gates) == ("a", victims)


@cases("version, victim", {"1.36": ("1.36", "p1"), "1.37": ("1.37", "p3")})
def test_the_order_of_victims_that_have_not_started(version, victim):
    pods = [on(name, "a", cpu="500m") for name in ("p1", "p2", "p3")]
    assert decided(pods, [], vip("1"), gates_of(version), nodes="a") == ("a", [victim])


def test_a_group_is_protected_if_one_of_its_pods_is():
    pods = [on("g1", "a", "red"), on("g2", "b", "red", **LABELS), on("p1", "a"), on("two", "b", priority=HIGH)]
    groups = [group("red", priority=LOW)]
    assert decided(pods, groups, vip("1"), budgets=[budget("b", "kept")]) == ("a", ["p1"])


def test_a_terminating_pod_is_not_evicted_with_its_group():
    leaving = on("g2", "b", "red")
    leaving.deletion_timestamp = leaving.creation_timestamp
    assert decided([on("g1", "a", "red"), leaving, *HIGHER], [group("red")], vip("1")) == ("a", ["g1"])


def test_the_message_if_all_groups_are_too_important():
    cluster = cluster_of(on("g1", "a", "red", cpu="2"), nodes="a", gates=ON)
    cluster.state.objects[custom_kind(POD_GROUPS)].set("default/red", group("red", priority=HIGH))
    decision = cluster.decide(vip())
    assert decision.message.endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_malformed_group_counts_for_nothing():
    cluster = cluster_of(on("g1", "a", "red", cpu="2"), nodes="a", gates=ON)
    broken = CustomObject(metadata={"name": "red", "namespace": "default"}, spec={"schedulingPolicy": 5})
    cluster.state.objects[custom_kind(POD_GROUPS)].set("default/red", broken)
    assert preempted(cluster, vip()) == ("a", ["g1"])


@cases("priority, waits", {"lower": (LOW, True), "the same": (HIGH, False)})
def test_terminating_victims_of_a_group_are_waited_for_by_its_priority(priority, waits):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = on("g1", "a", "red", cpu="2", status={"conditions": [condition]})
    leaving.deletion_timestamp = leaving.creation_timestamp
    cluster = cluster_of(leaving, nodes="a", gates=ON)
    cluster.state.objects[custom_kind(POD_GROUPS)].set("default/red", group("red", priority=priority))
    message = cluster.decide(vip(status={"nominatedNodeName": "a"})).message
    assert ("not eligible due to a terminating pod" in message) is waits
