"""Evictions against an API server that answers as told: victims go in order, and no preemptor is left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from lightkube.models.core_v1 import PodCondition
from tests.service.conftest import ScriptedClient, make_pod, recorded

from bayplan.api.kinds import POD
from bayplan.client import ApiError, TransportError
from bayplan.cluster.state import ClusterState
from bayplan.framework.changes import ASSIGNED_POD_DELETE
from bayplan.framework.events import Action, ClusterEvent, EventHint
from bayplan.framework.interface import CycleState, Plugin
from bayplan.framework.profile import Point, Profile
from bayplan.framework.verdicts import Diagnosis
from bayplan.plugins.default_preemption.plugin import DefaultPreemption
from bayplan.queue import Place, QueueProfile, SchedulingQueue
from bayplan.scheduling import Decision, Outcome
from bayplan.service import evictions as evictions_module
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.evictions import Evictions
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPods
from bayplan.testing.offline import OfflineHandle

pytestmark = pytest.mark.feature("DefaultPreemption: asynchronous eviction")

GONE = ApiError(404, "NotFound", "pods a not found")
AWAY = ApiError(500, "InternalError", "etcd is away")
FORBIDDEN = ApiError(403, "Forbidden", "you may not")
LOST = TransportError("the connection broke", sent=True)


class Fits(Plugin):
    """Turned the preemptor down; any pod that goes may help it."""

    name = "Fits"

    def filter(self, cycle, pod, node):
        return "no"

    def events(self):
        yield EventHint(ClusterEvent(POD.kind, Action.DELETE))


class Sort(Plugin):
    name = "Sort"

    def sort_key(self, pod, queued_at):
        return queued_at


class GatedClient(ScriptedClient):
    """Deletes when it is let."""

    def __init__(self):
        super().__init__()
        self.may_delete = asyncio.Event()
        self.may_delete.set()

    async def delete(self, kind, name, namespace=None, *, uid=None):
        await self.may_delete.wait()
        await super().delete(kind, name, namespace, uid=uid)


class Bindings:
    """Pods in PreBind, by uid, and why they were broken off."""

    def __init__(self, *uids):
        self.cancelled = dict.fromkeys(uids, "")

    def cancel_pre_bind(self, uid, why):
        if uid in self.cancelled:
            self.cancelled[uid] = why
        return uid in self.cancelled


class Setting:
    """A preemptor that was decided, and its victims on node `a`, as the loop hands them over."""

    def __init__(self, clock, *victims, bindings=None):
        self.client, self.clock, self.state = GatedClient(), clock, ClusterState()
        self.victims = victims
        for victim in victims:
            self.state.set_pod(victim)
        preemption = DefaultPreemption(OfflineHandle(self.state))
        profile = Profile(
            "test",
            {Point.QUEUE_SORT: [Sort()], Point.FILTER: [Fits()], Point.PRE_ENQUEUE: [preemption]},
        )
        self.queue = SchedulingQueue({"test": QueueProfile.of(profile)}, self.state.nominations)
        self.recorder, self.waiting = EventRecorder(self.client, clock), WaitingPods()
        self.status = PodStatusWriter(self.client, clock)
        self.bindings = bindings or Bindings()
        self.vip = make_pod("vip")
        self.vip.priority = 10
        self.woken = 0

    async def evict(self, meanwhile=None):
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            evictions = Evictions(
                tasks, self.client, self.state, self.queue, self.waiting, self.bindings, self.recorder, self.status,
                self._wake, self.clock,
            )  # fmt: skip
            self.queue.add(self.vip, self.clock.monotonic())
            queued = self.queue.pop(self.clock.monotonic())
            decision = Decision(self.vip, Outcome.UNSCHEDULABLE, CycleState(), Diagnosis(total=1))
            evictions.start(replace(decision, nominated_node="a", victims=self.victims, preempted_by="Preempts"))
            queued.unschedulable_plugins = frozenset({"Fits"})
            self.queue.add_unschedulable(queued, self.clock.monotonic())
            if meanwhile is not None:
                for _ in range(20):  # until all that can go on has gone on
                    await asyncio.sleep(0)
                meanwhile(self)
                self.client.may_delete.set()
        return self

    def _wake(self):
        self.woken += 1

    def went(self, victim):
        """The watch tells that a victim is gone."""
        self.state.remove_pod(victim.uid)
        self.queue.move_on_event(ASSIGNED_POD_DELETE, victim, None, self.clock.monotonic())

    def requests(self):
        return [(verb, name) for verb, _, _, name, *_ in self.client.requests]

    def events(self):
        return [(event["reason"], event["regarding"]["name"], event["note"]) for event in recorded(self.recorder)]

    @property
    def place(self):
        return self.queue.get(self.vip.uid).place


def victim(name, **status):
    return make_pod(name, node="a", **status)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(evictions_module, "_RETRY_SECONDS", (0.0, 0.0, 0.0))


async def test_each_victim_is_told_why_and_deleted_the_last_one_last(clock):
    setting = await Setting(clock, victim("one"), victim("two"), victim("three")).evict()
    requests = setting.requests()
    assert sorted(requests[:4]) == [("delete", "one"), ("delete", "two"), ("patch", "one"), ("patch", "two")]
    assert requests[4:] == [("patch", "three"), ("delete", "three")]
    patch = next(request[4] for request in setting.client.requests if request[:4] == ("patch", "Pod", "default", "one"))
    (condition,) = patch["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "test: preempting to accommodate a higher priority pod",
        "observedGeneration": 1,
        "lastProbeTime": None,
    }
    assert setting.client.requests[-1][-1] == "uid-three", "never another pod of the same name"
    note = "Preempted by pod uid-vip on node a"
    assert setting.events() == [("Preempted", name, note) for name in ("one", "two", "three")]
    assert setting.place is Place.UNSCHEDULABLE, "it is the going of the victims that wakes the preemptor"
    assert not setting.state.preemptions.going_on("uid-vip")


async def test_victims_that_go_already_are_left_alone(clock):
    going = victim("going")
    going.deletion_timestamp = clock.now()
    setting = await Setting(clock, going, victim("other")).evict()
    assert setting.requests() == [("patch", "other"), ("delete", "other")]
    setting = Setting(clock, going)
    await setting.evict()
    assert (setting.requests(), len(setting.state.preemptions)) == ([], 0)


async def test_a_victim_that_was_told_before_is_only_deleted(clock):
    told = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "test: preempting to accommodate a higher priority pod",
        "observedGeneration": 1,
    }
    setting = await Setting(clock, victim("told", conditions=[PodCondition(**told)])).evict()
    assert setting.requests() == [("delete", "told")]


async def test_the_condition_comes_behind_those_that_are_there(clock):
    setting = await Setting(clock, victim("one", conditions=[PodCondition(type="Ready", status="True")])).evict()
    status = setting.client.requests[0][4]["status"]
    assert status["$setElementOrder/conditions"] == [{"type": "Ready"}, {"type": "DisruptionTarget"}]
    assert [condition["type"] for condition in status["conditions"]] == ["DisruptionTarget"]


@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_a_victim_that_is_gone_is_no_failure(clock, verb):
    setting = Setting(clock, victim("one"))
    setting.client.will(verb, GONE)
    await setting.evict()
    assert (setting.events(), setting.place) == ([], Place.UNSCHEDULABLE)


@pytest.mark.parametrize("verb", ["patch", "delete"])
@pytest.mark.parametrize("answers", [[AWAY], [LOST, AWAY], [AWAY, LOST, LOST]])
async def test_a_server_that_is_out_of_order_is_asked_again(clock, verb, answers):
    setting = Setting(clock, victim("one"))
    setting.client.will(verb, *answers)
    await setting.evict()
    assert [reason for reason, *_ in setting.events()] == ["Preempted"]


@pytest.mark.parametrize("answers", [[FORBIDDEN], [AWAY] * 4, [LOST] * 4, [RuntimeError("a bug")]])
async def test_the_preemptor_is_tried_again_when_a_victim_stays(clock, answers, caplog):
    setting = Setting(clock, victim("one"), victim("two"))
    setting.client.will("delete", *answers)
    await setting.evict()
    assert ("delete", "two") not in setting.requests(), "the last one is spared"
    assert setting.place is Place.BACKOFF
    assert setting.woken
    assert not setting.state.preemptions.going_on("uid-vip")
    assert any("default/one" in record.getMessage() for record in caplog.records)


async def test_the_preemptor_is_held_back_meanwhile_and_wakes_with_the_last_victim(clock):
    setting = Setting(clock, victim("one"), victim("two"))
    setting.client.may_delete.clear()

    def meanwhile(setting):
        assert setting.state.preemptions.going_on("uid-vip")
        setting.went(setting.victims[0])
        assert setting.place is Place.GATED

    await setting.evict(meanwhile)
    assert setting.place is Place.GATED, "its last victim is still there"
    setting.went(setting.victims[1])
    assert setting.place in {Place.BACKOFF, Place.ACTIVE}


async def test_a_preemptor_whose_last_victim_goes_early_does_not_sleep_on(clock):
    setting = Setting(clock, victim("one"), victim("two"))
    setting.client.may_delete.clear()

    def meanwhile(setting):
        setting.went(setting.victims[1])
        setting.went(setting.victims[0])
        assert setting.place is Place.GATED

    await setting.evict(meanwhile)
    assert setting.place is Place.BACKOFF


async def test_a_victim_that_waits_in_permit_is_turned_down(clock):
    setting = Setting(clock, victim("one"))
    waiting = setting.waiting.add(setting.victims[0], {"Gang": 60.0})
    await setting.evict()
    status = await waiting.verdict()
    assert (status.code.name, status.plugin, status.message) == ("ERROR", "Preempts", "preempted")
    assert setting.requests() == []
    assert setting.events() == [("Preempted", "one", "Preempted by pod uid-vip on node a (in kube-scheduler memory).")]


async def test_a_victim_that_has_just_been_allowed_is_deleted(clock):
    setting = Setting(clock, victim("one"))
    setting.waiting.add(setting.victims[0], {"Gang": 60.0}).allow("Gang")
    await setting.evict()
    assert setting.requests() == [("patch", "one"), ("delete", "one")]


async def test_a_victim_in_pre_bind_is_turned_down(clock):
    bindings = Bindings("uid-one")
    setting = await Setting(clock, victim("one"), bindings=bindings).evict()
    assert bindings.cancelled == {"uid-one": "preempted by Preempts"}
    assert setting.requests() == []


async def test_lower_nominations_on_the_node_are_taken_back(clock):
    setting = Setting(clock, victim("one"))
    lower, equal, elsewhere = make_pod("lower"), make_pod("equal"), make_pod("elsewhere")
    equal.priority = 10
    for pod, node in ((lower, "a"), (equal, "a"), (elsewhere, "b")):
        setting.state.nominations.add(pod, node)
    await setting.evict()
    nominations = setting.state.nominations
    assert [nominations.node_of(pod.uid) for pod in (lower, equal, elsewhere)] == [None, "a", "b"]
    assert setting.status._patches["uid-lower"][1] == {"nominatedNodeName": None}
