"""The scheduling loop during calls of extenders: the state doesn't change, and other work continues."""

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from tests.service.conftest import events_of, make_runtime, watch_nodes, watch_pods
from tests.support.tables import cases
from tests.support.waiting import PATIENCE, turns

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.handlers import SentNode
from bayplan.core.framework.extenders import ExtenderError, ExtenderFilter, ExtenderPreempt, ExtenderScore, Filtered
from bayplan.core.framework.status import Status
from bayplan.core.queue import Place
from bayplan.running.service.loop import SchedulingLoop
from bayplan.running.service.services import Services
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("HTTP extenders: the state is unchanged during calls")

NAME = "default-scheduler"


class Thinking:
    """Extenders that reply when a test lets them, and bind all pods except `refuses`."""

    want_nodes = False

    def __init__(self) -> None:
        self.questions: asyncio.Queue = asyncio.Queue()
        self.silent_about: set[str] = set()
        self.refuses: set[str] = set()
        self.bound: list[tuple[str, str]] = []
        self._answer: asyncio.Future | None = None

    def are_asked(self, pod):
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
        async with asyncio.timeout(PATIENCE):
            question = await self.questions.get()
        assert isinstance(question, kind)
        return question

    async def say(self, answer):
        if isinstance(answer, Exception):
            self._answer.set_exception(answer)
        else:
            self._answer.set_result(answer)
        await turns()

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


class Setting:
    """A scheduling loop with its collaborators, and a client with scripted replies."""

    def __init__(self, client, clock, *objects) -> None:
        cluster = make_cluster(*objects)
        self.client, self.clock, self.profile = client, clock, cluster.profile
        self.extenders = Thinking()
        self.services = Services.of(client, clock, state=cluster.state)
        profile = replace(cluster.profile, scheduler_name=NAME)
        self.runtime = make_runtime(self.services, profile, extenders=self.extenders)
        self.state, self.queue, self.work = cluster.state, self.runtime.queue, self.services.work
        self.plans = Executor(self.runtime)
        attempts = AttemptDriver(self.runtime, random.Random(0), self.extenders)
        self.loop = SchedulingLoop(self.runtime, attempts, self.plans, self.work, self.services.slice)
        self.pods, self.nodes = watch_pods(self.runtime), watch_nodes(self.runtime)

    def place_of(self, pod):
        queued = self.queue.get(pod.uid)
        return queued.place if queued else None

    def notes(self):
        return [event["note"] for event in events_of(self.services) if event["reason"] != "Preempted"]


@pytest.fixture
def deciding(client, clock):
    @asynccontextmanager
    async def run(*objects):
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            setting = Setting(client, clock, *objects)
            loop = tasks.create_task(setting.loop.run())
            try:
                yield setting
                await setting.services.tasks.drain(1)
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


async def test_changes_wait_until_the_attempt_ends(deciding):
    async with deciding(*NODES) as setting:
        setting.pods.added(POD)
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


async def test_the_deletion_of_another_node_changes_nothing(deciding):
    async with deciding(*NODES) as setting:
        setting.pods.added(POD)
        await setting.extenders.asked(ExtenderFilter)
        setting.nodes.deleted(SentNode(NODES[1]))
        await setting.extenders.say(Filtered(["a"], {}))
        assert setting.extenders.bound == [("p", "a")]


async def test_a_deleted_node_fails_the_attempt(deciding):
    async with deciding(*NODES) as setting:
        setting.pods.added(POD)
        await setting.extenders.asked(ExtenderFilter)
        setting.nodes.deleted(SentNode(NODES[0]))
        await setting.extenders.say(Filtered(["a"], {}))
        assert setting.notes() == ['node "a" was deleted during the attempt']
        assert setting.extenders.bound == []
        assert setting.place_of(POD) is Place.BACKOFF


@cases(
    "change",
    {
        "deleted": lambda setting: setting.pods.deleted(POD),
        "being deleted": lambda setting: setting.pods.updated(POD, version(POD, 8, terminating=True)),
        "bound by another": lambda setting: setting.pods.updated(POD, version(POD, 8, node="b")),
    },
)
@pytest.mark.parametrize("stage", ["filter", "score"])
async def test_a_pod_that_is_gone_or_bound_is_dropped(deciding, change, stage):
    async with deciding(*NODES) as setting:
        setting.pods.added(POD)
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


async def test_nothing_is_evicted_for_a_deleted_pod(deciding):
    vip = make_pod("vip", cpu="4", priority=9)
    async with deciding(make_node("a"), make_pod("low", node="a", cpu="4")) as setting:
        setting.pods.added(vip)
        question = await setting.extenders.asked(ExtenderPreempt)
        setting.pods.deleted(vip)
        await setting.extenders.all(question)
        assert (setting.client.requests, setting.place_of(vip)) == ([], None)
        assert not setting.state.preemptions.in_progress(vip.uid)


async def test_a_preemption(deciding):
    vip = make_pod("vip", cpu="4", priority=9)
    async with deciding(make_node("a"), make_pod("low", node="a", cpu="4")) as setting:
        setting.pods.added(vip)
        await setting.extenders.all(await setting.extenders.asked(ExtenderPreempt))
        assert ("delete", "Pod", "default", "low", "default-low") in setting.client.requests


async def test_a_failing_extender_causes_a_retry(deciding):
    async with deciding(*NODES) as setting:
        setting.pods.added(POD)
        await setting.extenders.asked(ExtenderFilter)
        await setting.extenders.say(ExtenderError("dead"))
        assert setting.notes() == ["dead"]
        assert setting.place_of(POD) is Place.BACKOFF
        setting.clock.seconds += 2
        setting.work.set()
        await setting.extenders.asked(ExtenderFilter)


async def test_any_event_requeues_a_pod_that_extenders_rejected(deciding):
    async with deciding(*NODES) as setting:
        setting.pods.added(POD)
        await setting.extenders.asked(ExtenderFilter)
        await setting.extenders.say(Filtered([], {"a": Status.unschedulable("no"), "b": Status.unresolvable("no")}))
        assert setting.place_of(POD) is Place.UNSCHEDULABLE
        assert setting.notes()[0].startswith("0/2 nodes are available: 2 no.")
        setting.nodes.updated(SentNode(NODES[0]), SentNode(make_node("a", labels={"new": "x"})))
        assert setting.place_of(POD) is Place.BACKOFF


async def test_bindings_run_during_an_attempt_but_are_undone_after_it(deciding):
    quick = make_pod("quick", cpu="1")
    async with deciding(*NODES) as setting:
        setting.extenders.refuses, setting.extenders.silent_about = {"quick"}, {"quick"}
        may_reply = setting.client.hold("get")
        setting.client.will("get", quick.object)
        setting.pods.added(quick)
        await turns()
        assert setting.state.is_assumed(quick.uid), "its binding failed, and its outcome is not known yet"
        setting.pods.added(POD)
        question = await setting.extenders.asked(ExtenderFilter)
        may_reply.set()
        await turns()
        assert setting.state.is_assumed(quick.uid)
        assert question.nodes.pod_count.sum() == 1
        setting.pods.deleted(quick)
        await setting.extenders.say(Filtered(["a"], {}))
        assert setting.extenders.bound == [("p", "a")]
        assert not setting.state.is_assumed(quick.uid)
        assert setting.state.nodes.pod_count.tolist() == [1, 0]


async def test_pods_that_concern_no_extender_are_scheduled_without_them(deciding):
    async with deciding(*NODES) as setting:
        setting.extenders.silent_about = {"p"}
        setting.pods.added(POD)
        await turns()
        assert len(setting.extenders.bound) == 1
        assert setting.extenders.questions.empty()


async def test_changes_are_applied_when_the_loop_stops_during_an_attempt(deciding):
    with suppress(asyncio.CancelledError):
        async with deciding(*NODES) as setting:
            setting.pods.added(POD)
            await setting.extenders.asked(ExtenderFilter)
            setting.nodes.added(SentNode(make_node("c")))
    assert setting.state.nodes.live.sum() == 3
    assert setting.extenders.bound == []
