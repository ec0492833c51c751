import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.coscheduling import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL, POD_GROUPS
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, custom_kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ConfigurationError
from bayplan.core.config.loading import parse_configuration
from bayplan.core.config.profiles import build_profile
from bayplan.core.framework.events import Action, Hint
from bayplan.core.framework.interface import CycleState, Wait
from bayplan.core.framework.profile import Point
from bayplan.core.framework.status import Code
from bayplan.core.framework.verdicts import Diagnosis
from bayplan.testing.builders import CREATED, make_cluster, make_node, make_pod
from bayplan_plugins.coscheduling.arguments import CoschedulingArgs
from bayplan_plugins.coscheduling.plugin import (
    Coscheduling,
    after_pod_added,
    after_pod_group_changed,
    after_pod_label_changed,
)

KIND = custom_kind(POD_GROUPS)


def group(name, least, *, created=CREATED, **spec):
    metadata = {"name": name, "namespace": "default", "creationTimestamp": created.isoformat()}
    return CustomObject(metadata=metadata, spec={"minMember": least, **spec})


def member(name, of="red", **fields):
    return make_pod(name, labels={POD_GROUP_LABEL: of}, **fields)


def light(name, least="2", of="red", **fields):
    return make_pod(name, labels={LIGHTWEIGHT_LABEL: of, MIN_AVAILABLE_LABEL: least}, **fields)


class Stage:
    """A plugin with its handle and stores."""

    def __init__(self, *objects, nodes=(), **arguments):
        self.state = make_cluster(*nodes).state
        self.handle = OfflineHandle(self.state)
        self.plugin = Coscheduling(self.handle, CoschedulingArgs(**arguments))
        for each in objects:
            self.add(each)

    def add(self, obj):
        if isinstance(obj, CustomObject):
            self.state.objects[KIND].set(f"default/{obj.metadata.name}", obj)
        else:
            self.state.objects[POD].set(obj.key, obj)
            if obj.node_name:
                self.state.set_pod(obj)

    def remove(self, pod):
        self.state.objects[POD].remove(pod.key)

    def pre_filter(self, pod):
        answer = self.plugin.pre_filter(CycleState(), pod, self.state.nodes)
        if answer is not None:
            assert answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return answer and answer.message

    def post_filter(self, pod):
        return self.plugin.post_filter(CycleState(), pod, Diagnosis(total=1), None).status.message

    def permit(self, pod, node="a"):
        """Assume the pod and run Permit; a pod that has to wait is added to the waiting pods."""
        assumed = self.state.assume(pod, node)
        answer = self.plugin.permit(CycleState(), assumed, node)
        if isinstance(answer, Wait):
            self.handle.waiting_pods.add(assumed, {"Coscheduling": answer.seconds})
        return answer

    def gang(self, pod):
        gang = self.plugin.gang_of(pod)
        return gang and ([each.name for each in gang.members], gang.needed, gang.placed)


def three(**fields):
    return [member(f"red-{number}", **fields) for number in range(3)]


# Queue order


def test_queue_is_sorted_by_priority_then_group_then_key():
    early, late = CREATED + timedelta(seconds=10), CREATED + timedelta(seconds=20)
    alone = make_pod("alone")
    pods = [
        member("b-2", "late"),
        member("b-1", "late"),
        member("c-1", "early"),
        member("d-1", "also-early"),
        member("z-1", "late", priority=7),
        member("a-1", "early"),
        alone,
    ]
    stage = Stage(group("early", 2, created=early), group("also-early", 1, created=early), *pods)
    stage.add(group("late", 2, created=late))
    ordered = sorted(pods, key=lambda pod: stage.plugin.sort_key(pod, 0.0))
    assert [pod.name for pod in ordered] == ["z-1", "alone", "d-1", "a-1", "c-1", "b-1", "b-2"]


def test_failed_group_is_sorted_behind_newer_groups():
    red, blue = three(), member("blue-0", "blue")
    stage = Stage(group("red", 3), group("blue", 1, created=CREATED + timedelta(seconds=5)), *red, blue)
    stage.handle.time = CREATED + timedelta(seconds=9)
    assert stage.plugin.sort_key(red[0], 0.0) < stage.plugin.sort_key(blue, 0.0)
    stage.post_filter(red[0])
    assert stage.plugin.sort_key(blue, 0.0) < stage.plugin.sort_key(red[0], 0.0)


def test_creation_times_without_a_zone_are_in_utc():
    start = CREATED.replace(tzinfo=None)
    pods = [member("a", "new"), member("b", "old"), created_at(start + timedelta(seconds=7), light("c", of="newest"))]
    stage = Stage(group("new", 1, created=start + timedelta(seconds=5)), group("old", 1, created=start), *pods)
    stage.add(created_at(CREATED + timedelta(seconds=9), light("d", of="newest")))
    ordered = sorted(pods, key=lambda pod: stage.plugin.sort_key(pod, 0.0))
    assert [pod.name for pod in ordered] == ["b", "a", "c"]


def created_at(moment, pod):
    metadata = structs.replace(pod.object.metadata, creationTimestamp=moment)
    return PodInfo(structs.replace(pod.object, metadata=metadata))


def test_lightweight_group_is_sorted_by_its_oldest_pod():
    stage = Stage(light("new"), light("old"))
    assert stage.plugin.sort_key(light("new"), 0.0)[1] == CREATED
    assert stage.plugin.sort_key(member("x", "unknown"), 0.0)[1] == CREATED


# PreFilter

SIBLINGS = "pre-filter pod red-0 cannot find enough sibling pods, current pods number: {}, minMember of group: {}"
TWO = [group("red", 2), member("red-0")]


def needing(least, cpu):
    return group("red", least, minResources={"cpu": cpu})


PRE_FILTER = {
    "no group": ([make_pod("red-0")], None),
    "missing group, which Permit rejects": ([member("red-0")], None),
    "complete": ([group("red", 3), *three()], None),
    "too few members": ([group("red", 4), *three()], SIBLINGS.format(3, 4)),
    "same name in another namespace": ([*TWO, member("red-1", namespace="other")], SIBLINGS.format(1, 2)),
    "terminating member is not counted": ([*TWO, member("red-1", terminating=True)], SIBLINGS.format(1, 2)),
    "bound members are counted": ([*TWO, member("red-1", node="a")], None),
    "gated members that are needed": (
        [*TWO, member("red-1", spec={"schedulingGates": [{"name": "g"}]})],
        "pre-filter pod red-0 cannot proceed due to gated pods in the same PodGroup",
    ),
    "gated members that are not needed": (
        [group("red", 1), member("red-0"), member("g", spec={"schedulingGates": []})],
        None,
    ),
    "enough resources": ([needing(1, "7"), member("red-0")], None),
    "too few resources": (
        [group("red", 1, minResources={"cpu": 9, "memory": "1Gi", "example.com/gpu": "2"}), member("red-0")],
        "resource gap of PodGroup default/red: cpu: 1000m, example.com/gpu: 2",
    ),
    "requests of the group count as free": (
        [needing(2, "8"), member("red-0"), member("red-1", node="a", cpu="3")],
        None,
    ),
    "requests of others do not": (
        [needing(1, "8"), member("red-0"), make_pod("other", node="a", cpu="3")],
        "resource gap of PodGroup default/red: cpu: 3000m",
    ),
    "too few pod slots": (
        [needing(12, "1"), *(member(f"red-{number}") for number in range(12))],
        "resource gap of PodGroup default/red: pods: 2",
    ),
    "a node with too much on it": ([needing(1, "4"), member("red-0"), make_pod("other", node="a", cpu="6")], None),
    "a node with too much on it, and members there": (
        [needing(2, "8"), member("red-0"), member("red-1", node="a", cpu="3"), make_pod("other", node="a", cpu="3")],
        "resource gap of PodGroup default/red: cpu: 3000m",
    ),
    "invalid group": (
        [group("red", "many"), member("red-0")],
        "PodGroup default/red is invalid: Expected `int`, got `str` - at `$.minMember`",
    ),
    "invalid resources": ([needing(1, "much"), member("red-0")], "PodGroup default/red is invalid: "),
    "lightweight group": ([light("red-0"), light("red-1")], None),
    "lightweight group, too few members": ([light("red-0")], SIBLINGS.format(1, 2)),
    "lightweight group, invalid number": (
        [light("red-0", least="all")],
        f"label {MIN_AVAILABLE_LABEL} is 'all', expected the number of pods that group default/red needs, at least 1",
    ),
}


@cases("objects, rejection", PRE_FILTER)
def test_pre_filter(objects, rejection):
    stage = Stage(*objects, nodes=[make_node(name, cpu="4", pods=5) for name in ("a", "b")])
    pod = next(each for each in objects if getattr(each, "name", "") == "red-0")
    found = stage.pre_filter(pod)
    assert found == rejection or (rejection and rejection.endswith(": ") and found.startswith(rejection))


def test_resource_check_is_cached_for_a_while():
    stage = Stage(group("red", 1, minResources={"cpu": "4"}), member("red-0"), nodes=[make_node("a", cpu="4")])
    assert stage.pre_filter(member("red-0")) is None
    stage.add(make_pod("other", cpu="1", node="a"))
    assert stage.pre_filter(member("red-0")) is None
    stage.handle.time += timedelta(seconds=61)
    assert "resource gap" in stage.pre_filter(member("red-0"))


def test_only_pods_without_a_group_have_a_signature():
    stage = Stage(group("red", 3), *three())
    assert stage.plugin.sign(make_pod("plain")) == ()
    assert stage.plugin.sign(member("red-0")) is None


# Permit and Unreserve


def waiting(stage):
    return [each.pod.name for each in stage.handle.waiting_pods]


async def verdicts(stage):
    return [(each.pod.name, await each.verdict()) for each in stage.handle.waiting_pods]


async def test_members_wait_for_each_other_in_permit():
    one, two, three_ = three()
    stage = Stage(group("red", 3), one, two, three_, nodes=[make_node("a")])
    assert stage.permit(one) == Wait(60)
    assert [pod.name for pod in stage.handle.activated] == ["red-1", "red-2"]
    assert stage.permit(two) == Wait(60)
    assert len(stage.handle.activated) == 2, "only the first member activates the others"
    assert stage.permit(three_) is None
    assert [(name, status.code) for name, status in await verdicts(stage)] == [
        ("red-0", Code.SUCCESS),
        ("red-1", Code.SUCCESS),
    ]


WAITS = {
    "from the arguments": (group("red", 3), {"permitWaitingTimeSeconds": 10}, 10),
    "from the group": (group("red", 3, scheduleTimeoutSeconds=5), {"permitWaitingTimeSeconds": 10}, 5),
    "0 in the group": (group("red", 3, scheduleTimeoutSeconds=0), {"permitWaitingTimeSeconds": 10}, 10),
    "0 in the arguments means 60": (group("red", 3), {"permitWaitingTimeSeconds": 0}, 60),
}


@cases("pod_group, arguments, seconds", WAITS)
async def test_permit_timeout(pod_group, arguments, seconds):
    stage = Stage(pod_group, *three(), nodes=[make_node("a")], **arguments)
    assert stage.permit(three()[0]) == Wait(seconds)
    for each in stage.handle.waiting_pods:
        each.reject("test", "over")
        await each.verdict()


def test_permit_allows_pods_that_need_not_wait():
    stage = Stage(nodes=[make_node("a")])
    assert stage.permit(make_pod("plain")) is None
    assert stage.permit(member("red-0")) == "PodGroup not found"


def test_permit_counts_bound_members():
    stage = Stage(group("red", 3), member("red-0", node="a"), member("red-1", node="a"), nodes=[make_node("a")])
    assert stage.permit(member("red-2")) is None


async def test_unreserve_rejects_waiting_members():
    one, two, three_ = three()
    stage = Stage(group("red", 3), one, two, three_, nodes=[make_node("a")])
    stage.permit(one)
    stage.permit(two)
    stage.plugin.unreserve(CycleState(), three_, "a")
    assert {(status.plugin, status.message) for _, status in await verdicts(stage)} == {
        ("Coscheduling", "rejection in Unreserve")
    }
    for pod in (one, two):
        stage.plugin.unreserve(CycleState(), pod, "a")
    assert stage.gang(one) == (["red-0", "red-1", "red-2"], 3, 0)


async def test_permit_does_not_count_deleted_members():
    one, two, three_ = three()
    stage = Stage(group("red", 3), one, two, three_, nodes=[make_node("a")])
    stage.permit(one)
    stage.remove(one)
    stage.permit(two)
    assert stage.permit(three_) == Wait(60)
    for each in stage.handle.waiting_pods:
        each.reject("test", "over")
        await each.verdict()


# PostFilter

POST_FILTER = {
    "no group": ([], make_pod("plain"), 0, 10, ""),
    "an unknown group": ([], member("red-0"), 0, 10, "can not find pod group"),
    "most members are missing": ([group("red", 3), *three()], member("red-0"), 1, 10, "gets rejected"),
    "few members are missing": ([group("red", 3), *three()], member("red-2"), 2, 34, ""),
    "never": ([group("red", 3), *three()], member("red-0"), 0, 100, ""),
    "always": ([group("red", 3), *three()], member("red-2"), 2, 0, "gets rejected"),
    "enough members have a node": ([group("red", 2), *three()], member("red-2"), 2, 0, ""),
}


@cases("objects, pod, placed, percentage, expected", POST_FILTER)
async def test_post_filter(objects, pod, placed, percentage, expected):
    stage = Stage(*objects, nodes=[make_node("a")], podGroupRejectPercentage=percentage)
    for other in [each for each in objects if not isinstance(each, CustomObject)][:placed]:
        stage.permit(other)
    message = stage.post_filter(pod)
    assert (expected in message) if expected else message == ""
    for each in stage.handle.waiting_pods:
        each.reject("test", "still there")
        message = (await each.verdict()).message
        assert message == "optimistic rejection in PostFilter" if expected else message in {"still there", ""}


def test_group_is_activated_after_its_backoff():
    red = three()
    stage = Stage(group("red", 3), *red, nodes=[make_node("a")], podGroupBackoffSeconds=30)
    stage.post_filter(red[0])
    assert stage.pre_filter(red[1]) == "podGroup default/red failed recently"
    stage.handle.time += timedelta(seconds=29)
    stage.plugin.wake_groups()
    assert stage.handle.activated == []
    stage.handle.time += timedelta(seconds=1)
    stage.plugin.wake_groups()
    assert [pod.name for pod in stage.handle.activated] == ["red-0", "red-1", "red-2"]
    assert stage.pre_filter(red[1]) is None


def test_state_of_a_group_is_dropped_with_its_last_pod():
    red = three()
    stage = Stage(group("red", 3), *red, podGroupBackoffSeconds=30)
    stage.post_filter(red[0])
    for pod in red:
        stage.remove(pod)
    for pod in red:
        stage.add(pod)
    assert stage.pre_filter(red[0]) is None


# Gangs

GANGS = {
    "all members": ([group("red", 3), *three()], (["red-0", "red-1", "red-2"], 3, 0)),
    "more members than needed": ([group("red", 2), *three()], (["red-0", "red-1", "red-2"], 2, 0)),
    "sorted by priority": ([group("red", 2), member("red-0"), member("red-9", priority=5)], (["red-9", "red-0"], 2, 0)),
    "one bound member is missing": ([group("red", 2), member("red-0"), member("red-1", node="a")], (["red-0"], 1, 1)),
    "terminating member is replaced": (
        [group("red", 2), member("red-0"), member("red-1"), member("red-2", node="a", terminating=True)],
        (["red-0", "red-1"], 2, 0),
    ),
    "complete": ([group("red", 1), member("red-0"), member("red-1", node="a")], None),
    "too few members": ([group("red", 4), *three()], None),
    "missing group": (three(), None),
    "lightweight group": ([light("red-0"), light("red-1")], (["red-0", "red-1"], 2, 0)),
}


@cases("objects, gang", GANGS)
def test_gang_of(objects, gang):
    stage = Stage(*objects, nodes=[make_node("a")])
    assert stage.gang(next(each for each in objects if getattr(each, "name", "") == "red-0")) == gang


# Events


def status_only(pod_group, **status):
    return CustomObject({**pod_group, "status": status})


HINTS = {
    "new member": (after_pod_added, None, member("red-1", node="a"), Hint.QUEUE),
    "pod of another group": (after_pod_added, None, member("b", "blue"), Hint.SKIP),
    "pod without a group": (after_pod_added, None, make_pod("p"), Hint.SKIP),
    "own labels": (after_pod_label_changed, member("red-0", "no-such"), member("red-0"), Hint.QUEUE),
    "pod joins its group": (after_pod_label_changed, make_pod("p"), member("p"), Hint.QUEUE),
    "pod stays in its group": (after_pod_label_changed, member("p"), member("p"), Hint.SKIP),
    "pod leaves its group": (after_pod_label_changed, member("p"), make_pod("p"), Hint.SKIP),
    "own group": (after_pod_group_changed, None, group("red", 3), Hint.QUEUE),
    "another group": (after_pod_group_changed, None, group("blue", 3), Hint.SKIP),
    "own group, changed spec": (after_pod_group_changed, group("red", 3), group("red", 2), Hint.QUEUE),
    "own group, changed status": (
        after_pod_group_changed,
        group("red", 3),
        status_only(group("red", 3), phase="Pending"),
        Hint.SKIP,
    ),
}


@cases("hint, old, new, answer", HINTS)
def test_hints(hint, old, new, answer):
    assert hint(member("red-0"), old, new) is answer


def test_registered_events():
    registered = [(hint.event.resource, hint.event.action) for hint in Stage().plugin.events()]
    assert registered == [
        ("Pod", Action.ADD),
        ("Pod", Action.UPDATE_POD_LABEL),
        (POD_GROUPS, Action.ADD | Action.UPDATE),
        ("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        ("Pod", Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
    ]


def test_pods_of_a_group_with_min_resources_wait_for_room():
    stage = Stage(group("red", 1, minResources={"cpu": "4"}), group("blue", 1))
    node, left = (hint.hint for hint in [*stage.plugin.events()][-2:])
    assert [node(member("p", of), None, make_node("n")) for of in ("red", "blue")] == [Hint.QUEUE, Hint.SKIP]
    assert [node(make_pod("p"), None, make_node("n"))] == [Hint.SKIP]
    assert left(member("p"), make_pod("other", node="n"), None) is Hint.QUEUE
    assert left(member("p"), member("q", node="n"), None) is Hint.SKIP


# Configuration

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def configured(**arguments):
    plugins = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    config = [{"name": "Coscheduling", "args": arguments}] if arguments else []
    return parse_configuration({**HEAD, "profiles": [{"plugins": plugins, "pluginConfig": config}]}).profiles[0]


def test_configuration_as_upstream():
    typed = {"apiVersion": HEAD["apiVersion"], "kind": "CoschedulingArgs"}
    profile = build_profile(configured(**typed, permitWaitingTimeSeconds=10), OfflineHandle(make_cluster().state))
    points = {point for point in Point if "Coscheduling" in [plugin.name for plugin in profile.at(point)]}
    assert points == {Point.QUEUE_SORT, Point.PRE_FILTER, Point.POST_FILTER, Point.RESERVE, Point.PERMIT}
    assert [plugin.name for plugin in profile.at(Point.POST_FILTER)][-2:] == ["DefaultPreemption", "Coscheduling"]


FAULTS = {
    "negative timeout": ({"permitWaitingTimeSeconds": -1}, "permitWaitingTimeSeconds"),
    "negative backoff": ({"podGroupBackoffSeconds": -1}, "podGroupBackoffSeconds"),
    "more than 100 percent": ({"podGroupRejectPercentage": 101}, "podGroupRejectPercentage"),
    "string": ({"permitWaitingTimeSeconds": "long"}, "permitWaitingTimeSeconds"),
    "unknown field": ({"permitWaitingTime": 1}, "permitWaitingTime"),
}


@cases("arguments, path", FAULTS)
def test_invalid_arguments(arguments, path):
    with pytest.raises(ConfigurationError, match=path):
        configured(**arguments)


# Background


async def test_background_does_nothing_without_a_server():
    stage = Stage(group("red", 3), *three())
    async with asyncio.timeout(5):
        await stage.plugin.background()
    assert stage.handle.now() == datetime(2026, 1, 1, tzinfo=UTC)
