"""The loop while extenders think: the cluster stands still, everything else goes on, and nothing is lost afterwards."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress

import pytest
from tests.service.conftest import recorded

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.extenders import ExtenderError, ExtenderFilter, ExtenderPreempt, ExtenderScore, Filtered
from bayplan.framework.interface import CycleState
from bayplan.framework.status import Status
from bayplan.queue import Place, QueueProfile, SchedulingQueue
from bayplan.service.binding import Binding, BindingCycles
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.evictions import Evictions
from bayplan.service.failures import Failures
from bayplan.service.informers import Intake, NodeHandler, PodHandler, SentNode
from bayplan.service.loop import SchedulingLoop
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPods
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("HTTP extenders: the cluster stands still")

NAME = "default-scheduler"


class Thinking:
    """Extenders that answer when a test lets them, and bind everything but what is in `refuses`."""

    want_nodes = False

    def __init__(self) -> None:
        self.questions: asyncio.Queue = asyncio.Queue()
        self.silent_about: set[str] = set()
        self.refuses: set[str] = set()
        self.bound: list[tuple[str, str]] = []
        self._answer: asyncio.Future | None = None

    def have_a_say(self, pod):
        return pod.name not in self.silent_about

    async def answer(self, question):
        self._answer = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(question)
        return await self._answer

    async def bind(self, pod, node_name):
        if pod.name in self.refuses:
            raise ExtenderError("no binding for you")
        self.bound.append((pod.name, node_name))
        return True

    async def asked(self, kind):
        async with asyncio.timeout(5):
            question = await self.questions.get()
        assert isinstance(question, kind)
        return question

    async def say(self, answer):
        if isinstance(answer, Exception):
            self._answer.set_exception(answer)
        else:
            self._answer.set_result(answer)
        await settled()

    async def all(self, question):
        match question:
            case ExtenderFilter():
                await self.say(Filtered(names_of(question), {}))
            case ExtenderScore():
                await self.say({"a": 1000})
            case ExtenderPreempt():
                await self.say(question.candidates)


def names_of(question):
    return [question.nodes.name(at) for at in range(len(question.nodes))]


async def settled():
    """Everybody has had their turn, as often as it takes."""
    for _ in range(20):
        await asyncio.sleep(0)


class Setting:
    """A loop that decides, with everything around it but a server that answers."""

    def __init__(self, client, clock, tasks, *objects) -> None:
        cluster = make_cluster(*objects)
        self.state, self.client, self.clock = cluster.state, client, clock
        self.extenders = Thinking()
        self.work = asyncio.Event()
        self.intake = Intake(self.work.set)
        self.queue = SchedulingQueue({NAME: QueueProfile.of(cluster.profile)}, self.state.nominations)
        self.recorder, self.status = EventRecorder(client, clock), PodStatusWriter(client, clock)
        self.waiting, self.known = WaitingPods(), {}
        failures = Failures(self.queue, self.state.nominations, self.recorder, self.status, clock, self.known.get)
        parts = tasks, client, self.state, self.queue, self.waiting
        self.bindings = BindingCycles(*parts, failures, self.recorder, self.status, self.intake, clock, self.extenders)
        self.evictions = Evictions(*parts, self.bindings, self.recorder, self.status, self.work.set, clock)
        self.profile = cluster.profile
        self.loop = SchedulingLoop(
            {NAME: cluster.profile}, self.state, self.queue, self.bindings, self.evictions, self.waiting, failures,
            self.recorder, self.intake, self.work, clock, random.Random(0), self.extenders,
        )  # fmt: skip
        self.pods = PodHandler(
            self.intake, self.state, self.queue, self.waiting, self.status, self.recorder, clock, {NAME}
        )
        self.nodes = NodeHandler(self.intake, self.state, self.queue, clock)

    # As a reflector has it: the store first, then the handlers

    def create(self, pod):
        self.known[pod.key] = pod
        self.pods.added(pod)

    def change(self, old, new):
        self.known[new.key] = new
        self.pods.updated(old, new)

    def delete(self, pod):
        del self.known[pod.key]
        self.pods.deleted(pod)

    def place_of(self, pod):
        queued = self.queue.get(pod.uid)
        return queued.place if queued else None

    def notes(self):
        return [event["note"] for event in recorded(self.recorder) if event["reason"] != "Preempted"]


@pytest.fixture
def deciding(client, clock):
    @asynccontextmanager
    async def run(*objects):
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            setting = Setting(client, clock, tasks, *objects)
            loop = tasks.create_task(setting.loop.run())
            try:
                yield setting
            finally:
                loop.cancel()

    return run


POD = make_pod("p")
NODES = make_node("a"), make_node("b")


def version(pod: PodInfo, number, **fields):
    """A later version of a pod."""
    later = make_pod(pod.name, **fields)
    later.resource_version = str(number)
    return later


async def test_the_cluster_stands_still_and_moves_on_afterwards(deciding):
    async with deciding(*NODES) as setting:
        setting.create(POD)
        question = await setting.extenders.asked(ExtenderFilter)
        setting.nodes.added(SentNode(make_node("c")))
        setting.nodes.updated(SentNode(NODES[1]), SentNode(make_node("b", unschedulable=True)))
        setting.pods.added(make_pod("other", node="a", cpu="3"))
        await setting.extenders.all(question)
        question = await setting.extenders.asked(ExtenderScore)
        assert names_of(question) == ["a", "b"]
        assert question.nodes.requested("cpu").tolist() == [0, 0]
        assert not question.nodes.unschedulable.any()
        await setting.extenders.all(question)
        assert setting.extenders.bound == [("p", "a")]
        assert setting.state.nodes.live.sum() == 3
        assert setting.state.nodes.pod_count[:2].tolist() == [2, 0]


async def test_a_node_that_is_not_taken_may_go(deciding):
    async with deciding(*NODES) as setting:
        setting.create(POD)
        await setting.extenders.asked(ExtenderFilter)
        setting.nodes.deleted(SentNode(NODES[1]))
        await setting.extenders.say(Filtered(["a"], {}))
        assert setting.extenders.bound == [("p", "a")]


async def test_a_node_that_is_taken_and_went_is_an_error(deciding):
    async with deciding(*NODES) as setting:
        setting.create(POD)
        await setting.extenders.asked(ExtenderFilter)
        setting.nodes.deleted(SentNode(NODES[0]))
        await setting.extenders.say(Filtered(["a"], {}))
        assert setting.notes() == ['node "a" went away while extenders were asked']
        assert setting.extenders.bound == []
        assert setting.place_of(POD) is Place.BACKOFF


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda setting: setting.delete(POD), id="deleted"),
        pytest.param(lambda setting: setting.change(POD, version(POD, 8, terminating=True)), id="being deleted"),
        pytest.param(lambda setting: setting.change(POD, version(POD, 8, node="b")), id="bound by somebody"),
    ],
)
@pytest.mark.parametrize("stage", ["filter", "score"])
async def test_a_pod_that_is_not_to_be_placed_any_more_is_dropped(deciding, change, stage):
    async with deciding(*NODES) as setting:
        setting.create(POD)
        question = await setting.extenders.asked(ExtenderFilter)
        if stage == "score":
            await setting.extenders.all(question)
            question = await setting.extenders.asked(ExtenderScore)
        change(setting)
        await setting.extenders.all(question)
        if stage == "filter":
            await setting.extenders.all(await setting.extenders.asked(ExtenderScore))
        assert (setting.extenders.bound, setting.notes(), setting.place_of(POD)) == ([], [], None)
        assert not setting.state.is_assumed(POD.uid)


async def test_nobody_is_evicted_for_a_pod_that_went(deciding):
    vip = make_pod("vip", cpu="4", priority=9)
    async with deciding(make_node("a"), make_pod("low", node="a", cpu="4")) as setting:
        setting.create(vip)
        question = await setting.extenders.asked(ExtenderPreempt)
        setting.delete(vip)
        await setting.extenders.all(question)
        assert (setting.client.requests, setting.place_of(vip)) == ([], None)
        assert not setting.state.preemptions.going_on(vip.uid)


async def test_a_preemption(deciding):
    vip = make_pod("vip", cpu="4", priority=9)
    async with deciding(make_node("a"), make_pod("low", node="a", cpu="4")) as setting:
        setting.create(vip)
        await setting.extenders.all(await setting.extenders.asked(ExtenderPreempt))
        assert ("delete", "Pod", "default", "low", "default-low") in setting.client.requests


async def test_an_extender_that_fails_lets_the_pod_be_tried_again(deciding):
    async with deciding(*NODES) as setting:
        setting.create(POD)
        await setting.extenders.asked(ExtenderFilter)
        await setting.extenders.say(ExtenderError("dead"))
        assert setting.notes() == ["dead"]
        assert setting.place_of(POD) is Place.BACKOFF
        setting.clock.seconds += 2
        setting.work.set()
        await setting.extenders.asked(ExtenderFilter)


async def test_a_pod_that_extenders_turn_down_waits_for_any_event(deciding):
    async with deciding(*NODES) as setting:
        setting.create(POD)
        await setting.extenders.asked(ExtenderFilter)
        await setting.extenders.say(Filtered([], {"a": Status.unschedulable("no"), "b": Status.unresolvable("no")}))
        assert setting.place_of(POD) is Place.UNSCHEDULABLE
        assert setting.notes()[0].startswith("0/2 nodes are available: 2 no.")
        setting.nodes.updated(SentNode(NODES[0]), SentNode(make_node("a", labels={"new": "x"})))
        assert setting.place_of(POD) is Place.BACKOFF


async def test_bindings_go_on_but_give_nothing_back_until_the_cycle_ends(deciding):
    quick = make_pod("quick", cpu="1")
    async with deciding(*NODES) as setting:
        setting.extenders.refuses = {"quick"}
        setting.client.will("get", *[_unbound(quick)] * 2)
        setting.create(POD)
        question = await setting.extenders.asked(ExtenderFilter)
        setting.known[quick.key] = quick
        setting.queue.add(quick, 0.0)
        queued = setting.queue.pop(0.0)
        assumed = setting.state.assume(quick, "b")
        setting.bindings.start(Binding(queued, assumed, "b", setting.profile, CycleState()), None)
        await settled()
        assert [verb for verb, *_ in setting.client.requests] == ["get"], "it failed, and was looked after"
        assert setting.state.is_assumed(quick.uid)
        assert question.nodes.pod_count.tolist() == [0, 1]
        setting.queue.delete(quick, 0.0)
        await setting.extenders.say(Filtered(["a"], {}))
        assert setting.extenders.bound == [("p", "a")]
        assert not setting.state.is_assumed(quick.uid)
        assert setting.state.nodes.pod_count.tolist() == [1, 0]


def _unbound(pod):
    return pod.object


async def test_pods_that_no_extender_wants_to_see_are_decided_without_them(deciding):
    async with deciding(*NODES) as setting:
        setting.extenders.silent_about = {"p"}
        setting.create(POD)
        await settled()
        assert len(setting.extenders.bound) == 1
        assert setting.extenders.questions.empty()


async def test_stopping_while_extenders_think_lets_changes_in(deciding):
    with suppress(asyncio.CancelledError):
        async with deciding(*NODES) as setting:
            setting.create(POD)
            await setting.extenders.asked(ExtenderFilter)
            setting.nodes.added(SentNode(make_node("c")))
    assert setting.state.nodes.live.sum() == 3
    assert setting.extenders.bound == []
