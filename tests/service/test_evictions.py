"""Evictions against scripted replies: victims are evicted in order, and no preemptor is left behind."""

import asyncio
from dataclasses import replace

import pytest
from lightkube.models.core_v1 import PodCondition
from tests.service.conftest import ScriptedClient, events_of, make_pod, make_runtime
from tests.support.waiting import PATIENCE, turns

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.client import ApiError, TransportError
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.executor import Executor
from bayplan.core.framework.changes import ASSIGNED_POD_DELETE
from bayplan.core.framework.events import Action, ClusterEvent, EventHint
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.plugins.default_preemption.plugin import DefaultPreemption
from bayplan.core.queue import Place
from bayplan.core.scheduling import Plan, Preemption, Refusal, Unit
from bayplan.running.service import evictions as evictions_module
from bayplan.running.service.services import Services

pytestmark = pytest.mark.feature("DefaultPreemption: asynchronous eviction")

GONE = ApiError(404, "NotFound", "pods a not found")
AWAY = ApiError(500, "InternalError", "etcd is away")
FORBIDDEN = ApiError(403, "Forbidden", "you may not")
LOST = TransportError("the connection broke", sent=True)


class Fits(Plugin):
    """Rejected the preemptor; any deleted pod may help it."""

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
    """Deletes once `may_delete` is set."""

    def __init__(self):
        super().__init__()
        self.may_delete = asyncio.Event()
        self.may_delete.set()

    async def delete(self, kind, name, namespace=None, *, uid=None):
        await self.may_delete.wait()
        await super().delete(kind, name, namespace, uid=uid)


class Bindings:
    """Pods in PreBind, by uid, and why they were cancelled."""

    def __init__(self, *uids):
        self.cancelled = dict.fromkeys(uids, "")

    def cancel_pre_bind(self, uid, why):
        if uid in self.cancelled:
            self.cancelled[uid] = why
        return uid in self.cancelled


class Setting:
    """A preemptor that was decided, and its victims on node `a`."""

    def __init__(self, clock, *victims, bindings=None):
        self.client, self.clock, state = GatedClient(), clock, ClusterState()
        self.victims = victims
        for victim in victims:
            state.set_pod(victim)
            state.objects[POD].set(victim.key, victim)
        preemption = DefaultPreemption(OfflineHandle(state))
        profile = Profile("test", {Point.QUEUE_SORT: [Sort()], Point.FILTER: [Fits()], Point.PRE_ENQUEUE: [preemption]})
        self.services = Services.of(self.client, clock, state=state)
        runtime = make_runtime(self.services, profile)
        if bindings is not None:
            runtime = replace(runtime, ports=replace(runtime.ports, binder=bindings))
        self.runtime = runtime
        self.state, self.queue, self.waiting = state, self.runtime.queue, self.runtime.waiting
        self.plans = Executor(self.runtime)
        self.vip = make_pod("vip")
        self.vip.priority = 10
        state.objects[POD].set(self.vip.key, self.vip)

    async def evict(self, while_evicting=None):
        async with asyncio.timeout(PATIENCE):
            self.queue.add(self.vip, self.clock.monotonic())
            self.queue.pop(self.clock.monotonic())
            plan = Plan(
                Unit(self.vip),
                preemptions=[Preemption(self.vip, "a", self.victims, "Preempts")],
                refused=[Refusal(self.vip, "full", frozenset({"Fits"}), nominated_node="a")],
            )
            self.plans.carry_out(plan)
            if while_evicting is not None:
                await turns()
                while_evicting(self)
                self.client.may_delete.set()
            await self.services.tasks.drain(4)
        return self

    def went(self, victim):
        """The watch reports the deletion of a victim."""
        self.state.remove_pod(victim.uid)
        self.state.objects[POD].remove(victim.key)
        self.queue.move_on_event(ASSIGNED_POD_DELETE, victim, None, self.clock.monotonic())

    def requests(self):
        return [(verb, name) for verb, _, _, name, *_ in self.client.requests]

    def events(self):
        return [
            (event["reason"], event["regarding"]["name"], event["note"])
            for event in events_of(self.services)
            if event["reason"] == "Preempted"
        ]

    @property
    def place(self):
        return self.queue.get(self.vip.uid).place


def victim(name, **status):
    return make_pod(name, node="a", **status)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(evictions_module, "_RETRY_SECONDS", (0.0, 0.0, 0.0))


async def test_each_victim_gets_a_condition_and_is_deleted_the_last_one_last(clock):
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
    assert setting.place is Place.UNSCHEDULABLE, "the deletion of the victims requeues the preemptor"
    assert not setting.state.preemptions.in_progress("uid-vip")


async def test_terminating_victims_are_not_deleted_again(clock):
    going = victim("going")
    going.deletion_timestamp = clock.now()
    setting = await Setting(clock, going, victim("other")).evict()
    assert setting.requests() == [("patch", "other"), ("delete", "other")]
    setting = Setting(clock, going)
    await setting.evict()
    assert (setting.requests(), len(setting.state.preemptions)) == ([], 0)


async def test_a_victim_with_the_condition_is_only_deleted(clock):
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "test: preempting to accommodate a higher priority pod",
        "observedGeneration": 1,
    }
    setting = await Setting(clock, victim("marked", conditions=[PodCondition(**condition)])).evict()
    assert setting.requests() == [("delete", "marked")]


async def test_the_condition_is_appended(clock):
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
async def test_requests_are_retried_while_the_server_fails(clock, verb, answers):
    setting = Setting(clock, victim("one"))
    setting.client.will(verb, *answers)
    await setting.evict()
    assert [reason for reason, *_ in setting.events()] == ["Preempted"]


@pytest.mark.parametrize("answers", [[FORBIDDEN], [AWAY] * 4, [LOST] * 4, [RuntimeError("a bug")]])
async def test_the_preemptor_is_retried_when_a_victim_cannot_be_evicted(clock, answers, caplog):
    setting = Setting(clock, victim("one"), victim("two"))
    setting.client.will("delete", *answers)
    await setting.evict()
    assert ("delete", "two") not in setting.requests(), "the last victim is not evicted"
    assert setting.place is Place.BACKOFF
    assert setting.services.work.is_set()
    assert not setting.state.preemptions.in_progress("uid-vip")
    assert any("default/one" in record.getMessage() for record in caplog.records)


async def test_the_preemptor_is_gated_until_the_last_victim_is_gone(clock):
    setting = Setting(clock, victim("one"), victim("two"))
    setting.client.may_delete.clear()

    def while_evicting(setting):
        assert setting.state.preemptions.in_progress("uid-vip")
        setting.went(setting.victims[0])
        assert setting.place is Place.GATED

    await setting.evict(while_evicting)
    assert setting.place is Place.GATED, "its last victim still exists"
    setting.went(setting.victims[1])
    assert setting.place in {Place.BACKOFF, Place.ACTIVE}


async def test_a_preemptor_whose_victims_go_early_is_requeued(clock):
    setting = Setting(clock, victim("one"), victim("two"))
    setting.client.may_delete.clear()

    def while_evicting(setting):
        setting.went(setting.victims[1])
        setting.went(setting.victims[0])
        assert setting.place is Place.GATED

    await setting.evict(while_evicting)
    assert setting.place is Place.BACKOFF


async def test_a_victim_that_waits_in_permit_is_rejected_there(clock):
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


async def test_the_pre_bind_of_a_victim_is_cancelled(clock):
    bindings = Bindings("uid-one")
    setting = await Setting(clock, victim("one"), bindings=bindings).evict()
    assert bindings.cancelled == {"uid-one": "preempted by Preempts"}
    assert setting.requests() == []


async def test_lower_nominations_on_the_node_are_cleared(clock):
    setting = Setting(clock, victim("one"))
    lower, equal, elsewhere = make_pod("lower"), make_pod("equal"), make_pod("elsewhere")
    equal.priority = 10
    for pod, node in ((lower, "a"), (equal, "a"), (elsewhere, "b")):
        setting.state.nominations.add(pod, node)
    await setting.evict()
    nominations = setting.state.nominations
    assert [nominations.node_of(pod.uid) for pod in (lower, equal, elsewhere)] == [None, "a", "b"]
    assert setting.services.status._statuses["uid-lower"].wanted == {"nominatedNodeName": ""}
