"""The binding cycle against an API server that answers as told: bound once, or given back whole."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.service.conftest import make_pod, recorded

from bayplan.client import ApiError, TransportError
from bayplan.cluster.state import ClusterState
from bayplan.framework.extenders import ExtenderError
from bayplan.framework.interface import CycleState, Plugin
from bayplan.framework.profile import Point, Profile
from bayplan.framework.status import Status
from bayplan.queue import QueueProfile, SchedulingQueue
from bayplan.service import binding as binding_module
from bayplan.service.binding import Binding, BindingCycles
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.extenders import FencedExtenders
from bayplan.service.failures import Failures
from bayplan.service.informers import Intake
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPods

LOST = TransportError("the connection broke", sent=True)
SERVER_ERROR = ApiError(500, "InternalError", "etcd is away")
CONFLICT = ApiError(409, "Conflict", "pod web is already assigned")
GONE = ApiError(404, "NotFound", "pods web not found")


def seen(node: str | None, uid: str = "uid-web"):
    return SimpleNamespace(metadata=SimpleNamespace(uid=uid), spec=SimpleNamespace(nodeName=node))


class Sort(Plugin):
    name = "Sort"

    def sort_key(self, pod, queued_at):
        return queued_at


class Reserver(Plugin):
    name = "Reserver"

    def __init__(self) -> None:
        self.reserved: list[str] = []

    def reserve(self, cycle, pod, node_name):
        self.reserved.append(pod.key)

    def unreserve(self, cycle, pod, node_name):
        self.reserved.remove(pod.key)


class Binder(Plugin):
    name = "Binder"

    def __init__(self, client) -> None:
        self.client = client

    async def bind(self, cycle, pod, node_name):
        await self.client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)


class Setting:
    """A pod popped, assumed on node `a` and reserved, as the loop leaves it."""

    def __init__(self, client, clock, *plugins, extenders=None) -> None:
        self.client, self.clock, self.extenders = client, clock, extenders
        self.state = ClusterState()
        self.reserver = Reserver()
        points = {Point.QUEUE_SORT: [Sort()], Point.RESERVE: [self.reserver], Point.BIND: [Binder(client)]}
        for plugin in plugins:
            for point in (Point.PERMIT, Point.PRE_BIND, Point.POST_BIND):
                if hasattr(plugin, {"permit": "permit", "preBind": "pre_bind", "postBind": "post_bind"}[point.value]):
                    points[point] = [plugin]
        self.profile = Profile("test", points)
        self.queue = SchedulingQueue({"test": QueueProfile.of(self.profile)}, self.state.nominations)
        self.recorder = EventRecorder(client, clock)
        self.status = PodStatusWriter(client, clock)
        self.waiting = WaitingPods()
        self.pod = make_pod()
        self.known = {self.pod.key: self.pod}
        self.failures = Failures(self.queue, self.state.nominations, self.recorder, self.status, clock, self._look_up)

    def _look_up(self, key):
        return self.known.get(key)

    async def bind(self, waits=None, meanwhile=None) -> "Setting":
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            self.cycles = BindingCycles(
                tasks, self.client, self.state, self.queue, self.waiting, self.failures, self.recorder, self.status,
                Intake(lambda: None), self.clock, self.extenders,
            )  # fmt: skip
            self.queue.add(self.pod, self.clock.monotonic())
            queued = self.queue.pop(self.clock.monotonic())
            assumed = self.state.assume(self.pod, "a")
            self.reserver.reserve(None, assumed, "a")
            binding = Binding(queued, assumed, "a", self.profile, CycleState())
            self.cycles.start(binding, self.waiting.add(assumed, waits) if waits else None)
            if meanwhile:
                await asyncio.sleep(0)
                meanwhile(self)
        return self

    def verbs(self) -> list[str]:
        return [request[0] for request in self.client.requests]

    def events(self) -> list[str]:
        return [event["reason"] for event in recorded(self.recorder)]

    def assert_bound(self) -> None:
        assert self.cycles.bound == 1
        assert self.state.is_assumed("uid-web"), "until the watch confirms it"
        assert self.reserver.reserved == ["default/web"]
        assert self.events() == ["Scheduled"]
        assert self.queue.get("uid-web") is None

    def assert_given_back(self) -> None:
        assert self.cycles.bound == 0
        assert self.state.pod("uid-web") is None
        assert self.reserver.reserved == []
        assert self.events() == ["FailedScheduling"]
        assert self.queue.get("uid-web").place is not None


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch) -> None:
    monkeypatch.setattr(binding_module, "_LOOK_AGAIN_SECONDS", (0,))


async def test_binds(client, clock) -> None:
    setting = await Setting(client, clock).bind()
    setting.assert_bound()
    assert client.requests == [("bind", "default", "web", "a", "uid-web")]


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        pytest.param(LOST, [seen("a")], id="answer lost, carried out"),
        pytest.param(SERVER_ERROR, [seen("a")], id="500, carried out"),
        pytest.param(CONFLICT, [seen("a")], id="409, because an earlier attempt was carried out"),
        pytest.param(LOST, [LOST, SERVER_ERROR, ApiError(403), seen("a")], id="carried out, seen late"),
    ],
)
async def test_a_binding_that_was_carried_out_counts_whatever_was_answered(client, clock, answer, then) -> None:
    client.will("bind", answer)
    client.will("get", *then)
    (await Setting(client, clock).bind()).assert_bound()
    assert client.requests[0][0] == "bind"
    assert [request[0] for request in client.requests].count("bind") == 1


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        pytest.param(LOST, [seen(None)], id="answer lost, not carried out"),
        pytest.param(TransportError("refused", sent=False), [seen(None)], id="never arrived"),
        pytest.param(SERVER_ERROR, [seen(None)], id="500, not carried out"),
        pytest.param(CONFLICT, [seen("b")], id="somebody else was faster"),
        pytest.param(LOST, [seen("a", uid="another")], id="another pod of the same name"),
        pytest.param(GONE, [], id="404"),
        pytest.param(LOST, [GONE], id="gone when we look"),
    ],
)
async def test_a_binding_that_was_not_carried_out_gives_everything_back(client, clock, answer, then) -> None:
    client.will("bind", answer)
    client.will("get", *then)
    (await Setting(client, clock).bind()).assert_given_back()


@pytest.mark.parametrize(
    "known", [None, make_pod(node="b"), make_pod(uid="another")], ids=["deleted", "bound", "replaced"]
)
async def test_a_pod_that_is_no_longer_ours_is_not_put_back(client, clock, known) -> None:
    client.will("bind", CONFLICT)
    client.will("get", seen("b"))
    setting = Setting(client, clock)
    setting.known = {"default/web": known} if known else {}
    await setting.bind()
    assert setting.queue.get("uid-web") is None
    assert setting.events() == []


class Extending:
    """Extenders that bind as they are told: True, False, or an exception."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    async def bind(self, pod, node_name):
        self.asked.append((pod.key, node_name))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


NO_ANSWER = ExtenderError("no answer within 5 s")


@pytest.mark.parametrize(
    ("answer", "then", "requests"),
    [
        pytest.param(True, [], [], id="it binds"),
        pytest.param(False, [], ["bind"], id="it leaves the pod to the plugins"),
        pytest.param(NO_ANSWER, [seen("a")], ["get"], id="answer lost, carried out"),
    ],
)
async def test_an_extender_binds(client, clock, answer, then, requests) -> None:
    client.will("get", *then)
    extenders = Extending(answer)
    setting = await Setting(client, clock, extenders=extenders).bind()
    setting.assert_bound()
    assert extenders.asked == [("default/web", "a")]
    assert setting.verbs() == requests


async def test_an_extender_that_does_not_bind_gives_everything_back(client, clock) -> None:
    client.will("get", seen(None))
    setting = await Setting(client, clock, extenders=Extending(NO_ANSWER)).bind()
    setting.assert_given_back()
    assert setting.verbs() == ["get"]
    assert setting.queue.get("uid-web").message == "binding to node a failed: no answer within 5 s"


@pytest.mark.parametrize("leads", [True, False])
async def test_an_extender_binds_for_a_leader_only(client, clock, leads) -> None:
    client.will("get", seen(None))
    extenders = Extending(True)
    setting = await Setting(client, clock, extenders=FencedExtenders(extenders, lambda: leads)).bind()
    if leads:
        setting.assert_bound()
    else:
        setting.assert_given_back()
    assert len(extenders.asked) == leads


class PreBinder(Plugin):
    name = "PreBinder"

    def __init__(self, answer) -> None:
        self.answer = answer

    async def pre_bind(self, cycle, pod, node_name):
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(Status.error("disk is away"), "disk is away", id="an error"),
        pytest.param("not here", "not here", id="a refusal"),
        pytest.param(RuntimeError("boom"), "boom (in PreBind of plugin PreBinder)", id="an exception"),
        pytest.param(42, "plugin PreBinder failed in PreBind: answered 42", id="nonsense"),
    ],
)
async def test_a_failing_pre_bind_gives_everything_back(client, clock, answer, message) -> None:
    setting = await Setting(client, clock, PreBinder(answer)).bind()
    setting.assert_given_back()
    assert "bind" not in setting.verbs()
    assert message in setting.queue.get("uid-web").message


@pytest.mark.feature("Nominated pods: nominatedNodeName while a binding takes long")
async def test_a_pod_with_work_in_pre_bind_is_nominated_meanwhile(client, clock) -> None:
    setting = await Setting(client, clock, PreBinder(None)).bind()
    setting.assert_bound()


class Watcher(Plugin):
    name = "Watcher"

    def post_bind(self, cycle, pod, node_name):
        raise RuntimeError("too late to matter")


async def test_a_post_bind_that_raises_leaves_the_pod_bound(client, clock, caplog) -> None:
    (await Setting(client, clock, Watcher()).bind()).assert_bound()
    assert "plugin Watcher failed in PostBind: RuntimeError: too late to matter" in caplog.text


async def test_a_waiting_pod_binds_when_it_is_allowed(client, clock) -> None:
    setting = Setting(client, clock)
    await setting.bind({"Gate": 60}, lambda setting: setting.waiting.get("uid-web").allow("Gate"))
    setting.assert_bound()
    assert len(setting.waiting) == 0


async def test_a_waiting_pod_that_is_rejected_waits_for_the_plugin(client, clock) -> None:
    setting = Setting(client, clock)
    await setting.bind({"Gate": 60}, lambda setting: setting.waiting.get("uid-web").reject("Gate", "not today"))
    setting.assert_given_back()
    queued = setting.queue.get("uid-web")
    assert queued.unschedulable_plugins == {"Gate"}
    assert queued.message == "0/1 nodes are available: 1 not today."


async def test_stopping_turns_waiting_pods_down_and_lets_others_arrive(client, clock) -> None:
    setting = Setting(client, clock)
    drained: list[asyncio.Task[None]] = []
    await setting.bind({"Gate": 60}, lambda setting: drained.append(asyncio.ensure_future(setting.cycles.drain(1))))
    await asyncio.gather(*drained)
    assert setting.state.pod("uid-web") is None


class Endless(Plugin):
    """Works until it is stopped, and perhaps takes no notice."""

    name = "Endless"

    def __init__(self, *, stubborn=False) -> None:
        self.stubborn = stubborn
        self.works = asyncio.Event()

    async def pre_bind(self, cycle, pod, node_name):
        self.works.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self.stubborn:
                raise


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_pod_in_pre_bind_can_be_turned_down(client, clock, stubborn) -> None:
    plugin = Endless(stubborn=stubborn)
    setting = Setting(client, clock, plugin)

    async def cancel() -> bool:
        await plugin.works.wait()
        return setting.cycles.cancel_pre_bind("uid-web", "preempted by X")

    cancelling = asyncio.create_task(cancel())
    await setting.bind()
    setting.assert_given_back()
    assert await cancelling
    assert setting.queue.get("uid-web").message == "preempted by X"
    assert "bind" not in setting.verbs()
    assert not setting.cycles.cancel_pre_bind("uid-web", "again")
