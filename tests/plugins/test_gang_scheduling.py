from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.framework.events import Action, Hint
from bayplan.core.framework.gangs import PLACED_WITH
from bayplan.core.framework.interface import CycleState, Wait
from bayplan.core.framework.status import Code
from bayplan.core.plugins.gang_scheduling.plugin import (
    GangScheduling,
    after_pod_added,
    after_pod_group_added,
    after_pod_group_updated,
)
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_cluster, make_node, make_pod

KIND = custom_kind(POD_GROUPS)


def group(name="red", policy=None):
    policy = {"gang": {"minCount": 3}} if policy is None else policy
    return CustomObject(metadata={"name": name, "namespace": "default"}, spec={"schedulingPolicy": policy})


def member(name, of="red", **fields):
    spec = {"schedulingGroup": {"podGroupName": of}, **fields.pop("spec", {})}
    return make_pod(name, spec=spec, **fields)


def three():
    return [member(f"red-{number}") for number in range(3)]


class Stage:
    def __init__(self, *objects):
        self.state = make_cluster(make_node("a")).state
        self.handle = OfflineHandle(self.state)
        self.plugin = GangScheduling(self.handle)
        for each in objects:
            self.add(each)

    def add(self, obj):
        if isinstance(obj, CustomObject):
            self.state.objects[KIND].set(f"default/{obj.metadata.name}", obj)
        else:
            self.state.objects[POD].set(obj.key, obj)

    def permit(self, pod, cycle=None):
        assumed = self.state.assume(pod, "a")
        answer = self.plugin.permit(cycle or CycleState(), assumed, "a")
        if isinstance(answer, Wait):
            self.handle.waiting_pods.add(assumed, {"GangScheduling": answer.seconds})
        return answer


TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
PRE_ENQUEUE = {
    "pod without a group": ([], make_pod("p"), None),
    "missing group": ([], member("red-0"), 'waiting for pods\'s pod group "red" to appear in scheduling queue'),
    "group without gang policy": ([group(policy={"basic": {}})], member("red-0"), None),
    "too few members": ([group(), *three()[:2]], member("red-0"), TOO_FEW),
    "terminating member is not counted": (
        [group(), *three()[:2], member("red-2", terminating=True)],
        member("red-0"),
        TOO_FEW,
    ),
    "enough members": ([group(), *three()], member("red-0"), None),
    "bound members are counted": ([group(), *three()[:2], member("red-2", node="a")], member("red-0"), None),
    "invalid group": (
        [group(policy={"gang": {"minCount": "many"}})],
        member("red-0"),
        "PodGroup default/red is invalid: Expected `int`, got `str` - at `$.schedulingPolicy.gang.minCount`",
    ),
}


@cases("version, whose", {"1.36": ("1.36", "pods's"), "1.37": ("1.37", "pod's")})
def test_the_message_about_a_missing_group(version, whose):
    plugin = GangScheduling(OfflineHandle(make_cluster().state), gates_of(version))
    status = plugin.pre_enqueue(member("red-0"))
    assert status.message == f'waiting for {whose} pod group "red" to appear in scheduling queue'


GANG_OF_3, GANG_OF_2, BASIC = group(), group(policy={"gang": {"minCount": 2}}), group(policy={"basic": {}})


@cases(
    "pod, old, new, hint",
    {
        "fewer members are needed": (member("red-0"), GANG_OF_3, GANG_OF_2, Hint.QUEUE),
        "more members are needed": (member("red-0"), GANG_OF_2, GANG_OF_3, Hint.SKIP),
        "another change": (member("red-0"), GANG_OF_3, GANG_OF_3, Hint.SKIP),
        "another group": (member("blue-0", of="blue"), GANG_OF_3, GANG_OF_2, Hint.SKIP),
        "another namespace": (member("red-0", namespace="team"), GANG_OF_3, GANG_OF_2, Hint.SKIP),
        "a pod without a group": (make_pod("p"), GANG_OF_3, GANG_OF_2, Hint.SKIP),
        "a group without a gang policy": (member("red-0"), BASIC, BASIC, Hint.SKIP),
    },
)
def test_hint_after_a_change_of_a_group(pod, old, new, hint):
    """Cases of Test_isSchedulableAfterPodGroupUpdated (gangscheduling_test), as far as the fields go."""
    assert after_pod_group_updated(pod, old, new) is hint


@cases("version, updates", {"1.36": ("1.36", False), "1.37": ("1.37", True)})
def test_changes_of_groups_are_registered_since_1_37(version, updates):
    plugin = GangScheduling(OfflineHandle(make_cluster().state), gates_of(version))
    registered = {(each.event.resource, each.event.action) for each in plugin.events()}
    assert ((POD_GROUPS, Action.UPDATE) in registered) is updates


@cases("objects, pod, rejection", PRE_ENQUEUE)
def test_pre_enqueue(objects, pod, rejection):
    status = Stage(*objects).plugin.pre_enqueue(pod)
    assert (status and status.message) == rejection
    assert status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_complete_gang_is_activated_once():
    red = three()
    stage = Stage(group(), *red[:2])
    assert stage.handle.activated == []
    stage.add(red[2])
    assert [pod.name for pod in stage.handle.activated] == ["red-0", "red-1", "red-2"]
    stage.add(member("red-2", labels={"changed": "yes"}))
    assert len(stage.handle.activated) == 3, "updates of a member do not activate the gang again"
    stage.state.objects[POD].remove(red[2].key)
    stage.add(red[2])
    assert len(stage.handle.activated) == 6


async def test_members_wait_for_each_other_in_permit():
    one, two, last = three()
    stage = Stage(group(), one, two, last)
    stage.handle.activated.clear()
    assert stage.permit(one) == Wait(300)
    assert [pod.name for pod in stage.handle.activated] == ["red-1", "red-2"]
    assert stage.permit(two) == Wait(300)
    assert stage.permit(last) is None
    assert {(await each.verdict()).code for each in stage.handle.waiting_pods} == {Code.SUCCESS}


async def test_members_placed_together_activate_no_others():
    stage = Stage(group(), *three())
    stage.handle.activated.clear()
    assert stage.permit(three()[0], CycleState({PLACED_WITH: "a gang"})) == Wait(300)
    assert stage.handle.activated == []
    for each in stage.handle.waiting_pods:
        each.reject("test", "over")
        await each.verdict()


def test_permit_allows_pods_that_need_not_wait():
    stage = Stage(group("basic", {"basic": {}}))
    assert stage.permit(make_pod("plain")) is None
    assert stage.permit(member("b", "basic")) is None
    status = stage.permit(member("x", "missing"))
    assert (status.code, status.message) == (Code.ERROR, "failed to get podGroup default/missing: it does not exist")


async def test_gang_of():
    one, two, last = three()
    stage = Stage(group(), one, two)
    assert stage.plugin.gang_of(make_pod("plain")) is None
    assert stage.plugin.gang_of(member("x", "missing")) is None
    few = stage.plugin.gang_of(one)
    assert (few.members, few.needed, few.together) == ((one, two), 3, True)
    stage.add(last)
    gang = stage.plugin.gang_of(one)
    assert (gang.name, gang.members, gang.needed, gang.placed) == ("red", (one, two, last), 3, 0)
    assert (gang.pod_group, gang.nodes) == ("default/red", ())
    stage.permit(one)
    gang = stage.plugin.gang_of(two)
    assert (gang.members, gang.needed, gang.placed, gang.nodes) == ((two, last), 2, 1, ("a",))
    stage.plugin.unreserve(CycleState(), one, "a")
    assert stage.plugin.gang_of(two).needed == 3
    for each in stage.handle.waiting_pods:
        each.reject("test", "over")
        await each.verdict()


NEEDED = {
    "group without gang policy": (group(policy={"basic": {}}), [], 0),
    "complete gang": (group(), [member(f"bound-{number}", node="a") for number in range(3)], 0),
    "gang that lacks one member": (group(), [member(f"bound-{number}", node="a") for number in range(2)], 1),
    "terminating bound pods are not counted": (
        group(),
        [member(f"bound-{number}", node="a", terminating=True) for number in range(3)],
        3,
    ),
}


@cases("of, others, needed", NEEDED)
def test_needed_members_of_a_late_pod(of, others, needed):
    late = member("late")
    gang = Stage(of, late, *others).plugin.gang_of(late)
    assert (gang.members, gang.needed) == ((late,), needed)


HINTS = {
    "new member": (after_pod_added, member("red-1", node="a"), Hint.QUEUE),
    "pod of another group": (after_pod_added, member("b", "blue"), Hint.SKIP),
    "pod without a group": (after_pod_added, make_pod("p"), Hint.SKIP),
    "own group": (after_pod_group_added, group(), Hint.QUEUE),
    "another group": (after_pod_group_added, group("blue"), Hint.SKIP),
}


@cases("hint, new, answer", HINTS)
def test_hints(hint, new, answer):
    assert hint(member("red-0"), None, new) is answer
