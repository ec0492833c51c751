"""Victims for a PodGroup. Cases of TestPodGroupEvaluator_SelectVictimsOnDomain (podgrouppreemption_test.go)."""

from preempting import HIGH, LOW, MIDDLE, budget, labelled, running
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.framework.gangs import Gang, GangVictims
from bayplan.core.framework.status import Code
from bayplan.core.plugins.default_preemption.whole_groups import WorkloadAwarePreemption
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_cluster, make_node, make_pod

WHOLE, EACH = "PodGroup", "Pod"


def group(name, mode=EACH, priority=LOW):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": mode, "priority": priority}
    return CustomObject(metadata=metadata, spec=spec)


def on(name, node, priority=LOW, of=None, **fields):
    spec = {"schedulingGroup": {"podGroupName": of}} if of else {}
    return running(name, node, priority, "100m", spec=spec, **fields)


class Stage:
    """A gang of `size` pods. It fits one more pod for each rule (names of pods) whose pods are all removed."""

    def __init__(self, pods, groups=(), *, priority=HIGH, size=1, budgets=(), **spec):
        state = make_cluster(*(make_node(name, cpu="8") for name in "abcde"), *pods).state
        for each in (*groups, group("us", priority=priority)):
            state.objects[custom_kind(POD_GROUPS)].set(f"default/{each.metadata.name}", each)
        for each in budgets:
            state.objects[POD_DISRUPTION_BUDGET].set(f"default/{each.metadata.name}", each)
        self.state = state
        self.plugin = WorkloadAwarePreemption(OfflineHandle(state))
        spec["schedulingGroup"] = {"podGroupName": "us"}
        members = tuple(make_pod(f"us-{number}", spec=spec) for number in range(size))
        self.gang = Gang("us", members, size, pod_group="default/us")
        self.trials = 0

    def decide(self, *rules):
        """The names of the victims, or the code of the rejection."""
        trial = self.plugin.gang_post_filter(self.gang, self.state.nodes)
        try:
            gone = next(trial)
            while True:
                self.trials += 1
                names = {pod.name for pod in gone}
                gone = trial.send(sum(set(rule.split()) <= names for rule in rules) >= self.gang.needed)
        except StopIteration as end:
            if isinstance(end.value, GangVictims):
                return [pod.name for pod in end.value.victims]
            return end.value.code


NEVER, FOO = Code.UNSCHEDULABLE_AND_UNRESOLVABLE, labelled("foo")
IN_PG1 = [on("g1", "a", of="pg1"), on("g2", "b", of="pg1")]
CASES = {
    "a pod without a group before those of groups": (
        Stage([on("p1", "a"), on("p2", "b", of="pg1"), on("p3", "c", of="pg2")], [group("pg1"), group("pg2")]),
        ["p1", "p2", "p3"],
        ["p1"],
    ),
    "of one group the youngest, before a higher priority": (
        Stage(
            [on("p1", "a", of="pg1", started=1), on("p2", "b", of="pg1", started=0), on("p3", "c", MIDDLE)],
            [group("pg1")],
        ),
        ["p1", "p2", "p3"],
        ["p1"],
    ),
    "three of several groups and none": (
        Stage(
            [
                on("p1", "a", of="pg1", started=2),
                on("p2", "b", of="pg1", started=1),
                on("p3", "c", of="pg2", started=0),
                on("p4", "d", MIDDLE),
                on("p5", "e", HIGH, of="pg3"),
            ],
            [group("pg1"), group("pg2"), group("pg3")],
            size=3,
        ),
        ["p1", "p2", "p3", "p4", "p5"],
        ["p3", "p2", "p1"],
    ),
    "lower priorities first": (
        Stage([on("p1", "a"), on("p2", "a", MIDDLE), on("p3", "a", HIGH)]),
        ["p1", "p2", "p3"],
        ["p1"],
    ),
    "as few victims as possible": (
        Stage([on("p1", "a", started=3), *(on(f"p{number}", "a", started=0) for number in (2, 3, 4))]),
        ["p1 p2", "p1"],
        ["p1"],
    ),
    "protected pod stays": (
        Stage([on("kept", "a", **FOO), on("free", "a")], budgets=[budget("b", "foo")]),
        ["kept", "free"],
        ["free"],
    ),
    "protected pod is evicted if necessary": (
        Stage([on("kept", "a", **FOO)], budgets=[budget("b", "foo")]),
        ["kept"],
        ["kept"],
    ),
    "group is evicted as a whole": (Stage(IN_PG1, [group("pg1", WHOLE)]), ["g1"], ["g1", "g2"]),
    "group is evicted in part": (Stage(IN_PG1, [group("pg1", EACH)]), ["g1"], ["g1"]),
    "group without PodGroup is evicted in part": (Stage(IN_PG1), ["g1"], ["g1"]),
    "single pod before a group": (Stage([on("p1", "a"), *IN_PG1], [group("pg1", WHOLE)]), ["g1 g2", "p1"], ["p1"]),
    "a group is protected if one of its pods is": (
        Stage(
            [on("g1", "a", of="pg1", **FOO), on("g2", "a", of="pg1"), on("p1", "a")],
            [group("pg1", WHOLE)],
            budgets=[budget("b", "foo")],
        ),
        ["g1", "p1"],
        ["p1"],
    ),
    "no pod of higher priority": (Stage([on("p1", "a", HIGH)], priority=MIDDLE), ["p1"], NEVER),
    "no pods": (Stage([]), [], NEVER),
    "victims free too little": (Stage([on("p1", "a")], size=2), ["p1"], Code.UNSCHEDULABLE),
    "preemptionPolicy Never": (Stage([on("p1", "a")], preemptionPolicy="Never"), ["p1"], Code.UNSCHEDULABLE),
    "a group of lower priority than its pods": (
        Stage([on("g1", "a", HIGH, of="pg1"), on("g2", "b", HIGH, of="pg1")], [group("pg1", WHOLE, MIDDLE)]),
        ["g1"],
        ["g1", "g2"],
    ),
    "a group of higher priority than its pods": (
        Stage(IN_PG1, [group("pg1", WHOLE, MIDDLE)], priority=MIDDLE),
        ["g1"],
        NEVER,
    ),
    "own pods stay": (Stage([on("us-9", "a", of="us")]), ["us-9"], NEVER),
}


@cases("stage, rules, victims", CASES)
def test_victims(stage, rules, victims):
    assert stage.decide(*rules) == victims


IN_1_37 = {
    "three of several groups and none": ["p2", "p1", "p5"]  # the group of p5 has a low priority
}
"""The victims that differ in 1.37, where the priority of a group counts for its pods that are evicted one by one."""


@cases("stage, rules, victims", {name: (*case[:2], IN_1_37.get(name, case[2])) for name, case in CASES.items()})
def test_victims_in_1_37(stage, rules, victims):
    store = stage.state.objects[custom_kind(POD_GROUPS)]
    for key, each in store.items():
        mode = {"all": {}} if each["spec"]["disruptionMode"] == WHOLE else {"single": {}}
        store.set(key, CustomObject({**each, "spec": {**each["spec"], "disruptionMode": mode}}))
    stage.plugin = WorkloadAwarePreemption(OfflineHandle(stage.state), gates_of("1.37"))
    assert stage.decide(*rules) == victims


@cases("version, victims", {"1.36": ("1.36", NEVER), "1.37": ("1.37", ["g1"])})
def test_the_priority_of_a_group_counts_for_its_single_pods_since_1_37(version, victims):
    """#139030: pods of a high priority, in a group of a low one."""
    stage = Stage([on("g1", "a", HIGH, of="pg1"), on("g2", "b", HIGH, of="pg1")], [group("pg1", EACH, LOW)])
    stage.plugin = WorkloadAwarePreemption(OfflineHandle(stage.state), gates_of(version))
    assert stage.decide("g1") == victims


NEVER, LOWER, NO_VICTIM = "Never", "PreemptLowerPriority", Code.UNSCHEDULABLE


@cases(
    "on, of_group, of_pods, victims",
    {
        "Never of the group": (True, NEVER, LOWER, NO_VICTIM),
        "PreemptLowerPriority of the group": (True, LOWER, LOWER, ["p1"]),
        "the group's before the pods'": (True, LOWER, NEVER, ["p1"]),
        "none of the group": (True, None, NEVER, ["p1"]),
        "off: that of the pods": (False, NEVER, LOWER, ["p1"]),
        "off: Never of the pods": (False, LOWER, NEVER, NO_VICTIM),
    },
)
def test_the_preemption_policy_of_a_group(on, of_group, of_pods, victims):
    """Cases of TestNewPodGroupPreemptorResolvesPreemptionPolicy (1.37)."""
    stage = Stage([running("p1", "a", LOW, "100m")], preemptionPolicy=of_pods)
    store = stage.state.objects[custom_kind(POD_GROUPS)]
    spec = {**store["default/us"]["spec"], "disruptionMode": {"single": {}}, "preemptionPolicy": of_group}
    store.set("default/us", CustomObject({**store["default/us"], "spec": spec}))
    gates = gates_of("1.37").but("GenericWorkload", *(["PodGroupPreemptionPolicy"] if on else []))
    stage.plugin = WorkloadAwarePreemption(OfflineHandle(stage.state), gates)
    assert stage.decide("p1") == victims


@cases("version, prefix", {"1.36": ("1.36", "preemption"), "1.37": ("1.37", "pod group preemption")})
def test_the_prefix_of_messages_about_preemption(version, prefix):
    assert WorkloadAwarePreemption(OfflineHandle(make_cluster().state), gates_of(version)).rules.name == prefix


def test_smaller_group_is_evicted():
    small, large = [on("s1", "a", of="small")], [on("l1", "a", of="large"), on("l2", "b", of="large")]
    stage = Stage([*small, *large], [group("small", WHOLE), group("large", WHOLE)])
    assert stage.decide("s1", "l1 l2") == ["s1"]


def test_restoring_many_pods_needs_few_trials():
    stage = Stage([on("last", "a"), *(on(f"p{number:03}", "b", MIDDLE) for number in range(500))])
    assert stage.decide("last") == ["last"]
    assert stage.trials < 30


def test_members_of_other_gangs_preempt_on_their_own():
    stage = Stage([])
    assert stage.plugin.gang_post_filter(Gang("other", (), 1), stage.state.nodes) is None


def test_group_is_gated_while_its_victims_are_evicted():
    stage = Stage([on("p1", "a")], size=2)
    one, two = stage.gang.members
    assert stage.plugin.pre_enqueue(two) is None
    stage.gang = Gang("us", stage.gang.members, 1, pod_group="default/us")
    assert stage.decide("p1") == ["p1"]
    stage.state.preemptions.begin(one.uid, "uid-us")
    gated = "waiting for the preemption for this pod group to be finished"
    assert stage.plugin.pre_enqueue(two).message == gated
    assert stage.plugin.pre_enqueue(make_pod("another")) is None
    stage.state.preemptions.end(one.uid)
    assert stage.plugin.pre_enqueue(two) is None
