"""Carrying out a placement against scripted replies: the pod is bound once, or everything is undone."""

import asyncio
from datetime import UTC, datetime

import pytest
from lightkube.models.core_v1 import Pod, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from tests.service.conftest import events_of, make_pod, make_runtime, watch_pods
from tests.support.tables import cases
from tests.support.waiting import PATIENCE

from bayplan.client import ApiError, TransportError
from bayplan.core.api.kinds import POD
from bayplan.core.executor.binding import BINDING
from bayplan.core.executor.executor import Executor
from bayplan.core.framework import unknown_writes
from bayplan.core.framework.extenders import ExtenderError
from bayplan.core.framework.interface import CycleState, Plugin, Wait
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Diagnosis
from bayplan.core.queue import Place
from bayplan.core.scheduling import Decision, Outcome, Plan, Unit
from bayplan.running.service.services import Services
from bayplan.testing.builders import make_node

LOST = TransportError("the connection broke", sent=True)
SERVER_ERROR = ApiError(500, "InternalError", "etcd is away")
CONFLICT = ApiError(409, "Conflict", "pod web is already assigned")
UNSENT = TransportError("connection refused", sent=False)
FORBIDDEN = ApiError(403, "Forbidden", "not you")
BUSY = ApiError(429, "TooManyRequests", "later")
GATEWAY = ApiError(504, "", "upstream request timeout")
ETCD = ApiError(500, "", "etcdserver: request timed out")
GONE = ApiError(404, "NotFound", "pods web not found")


def seen(node: str | None, uid: str = "uid-web", *, terminating: bool = False):
    deleted = datetime(2026, 1, 1, tzinfo=UTC) if terminating else None
    return Pod(metadata=ObjectMeta(uid=uid, deletionTimestamp=deleted), spec=PodSpec(containers=[], nodeName=node))


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


class Gate(Plugin):
    """Makes pods wait for so many seconds."""

    name = "Gate"

    def __init__(self, seconds) -> None:
        self.seconds = seconds

    def permit(self, cycle, pod, node_name):
        return Wait(self.seconds)


class Binder(Plugin):
    name = "Binder"

    def __init__(self, client) -> None:
        self.client = client

    async def bind(self, cycle, pod, node_name):
        await self.client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)


class Setting:
    """A pod in flight, with a plan that places it on node `a`."""

    def __init__(self, client, clock, *plugins, extenders=None, waits=None) -> None:
        self.client, self.clock = client, clock
        self.reserver = Reserver()
        points = {Point.QUEUE_SORT: [Sort()], Point.RESERVE: [self.reserver], Point.BIND: [Binder(client)]}
        if waits:
            points[Point.PERMIT] = [Gate(waits)]
        for plugin in plugins:
            for point in (Point.PRE_BIND, Point.POST_BIND):
                if hasattr(plugin, {"preBind": "pre_bind", "postBind": "post_bind"}[point.value]):
                    points.setdefault(point, []).append(plugin)
        self.profile = Profile("test", points)
        self.services = Services.of(client, clock)
        self.leads = True
        self.runtime = make_runtime(self.services, self.profile, extenders=extenders, leads=lambda: self.leads)
        self.runtime.state.set_node(make_node("a"))
        self.state, self.queue, self.waiting = self.runtime.state, self.runtime.queue, self.runtime.waiting
        self.plans = Executor(self.runtime)
        self.pod = make_pod()
        self.latest = self.pod
        """The pod as the watch reports it while it is bound."""

    def start(self) -> None:
        store = self.state.objects[POD]
        store.set(self.pod.key, self.pod)
        self.queue.add(self.pod, self.clock.monotonic())
        self.queue.pop(self.clock.monotonic())
        decision = Decision(self.pod, Outcome.SCHEDULED, CycleState(), Diagnosis(total=1), node="a")
        self.plans.carry_out(Plan.of(Unit(self.pod), decision))
        if self.latest is None:
            store.remove(self.pod.key)
        else:
            store.set(self.pod.key, self.latest)

    async def bind(self, while_binding=None) -> "Setting":
        async with asyncio.timeout(PATIENCE):
            self.start()
            if while_binding:
                await asyncio.sleep(0)
                while_binding(self)
            await self.services.tasks.drain(4)
        return self

    def verbs(self) -> list[str]:
        return [request[0] for request in self.client.requests]

    def events(self) -> list[str]:
        return [event["reason"] for event in events_of(self.services)]

    def assert_bound(self) -> None:
        assert self.plans.bound == 1
        assert self.state.is_assumed("uid-web"), "until the watch confirms it"
        assert self.reserver.reserved == ["default/web"]
        assert self.events() == ["Scheduled"]
        assert self.queue.get("uid-web") is None

    def assert_undone(self) -> None:
        assert self.plans.bound == 0
        assert self.state.pod("uid-web") is None
        assert self.reserver.reserved == []
        assert self.events() == ["FailedScheduling"]
        assert self.queue.get("uid-web").place is not None


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(unknown_writes, "_PAUSES", ())
    monkeypatch.setattr(unknown_writes, "_LONGEST_PAUSE", 0)


async def test_binds(client, clock) -> None:
    setting = await Setting(client, clock).bind()
    setting.assert_bound()
    assert client.requests == [("bind", "default", "web", "a", "uid-web")]


@cases(
    "answer, then",
    {
        "reply lost, bound": (LOST, [seen("a")]),
        "500, bound": (SERVER_ERROR, [seen("a")]),
        "409, bound by an earlier attempt": (CONFLICT, [seen("a")]),
        "bound, seen late": (LOST, [LOST, SERVER_ERROR, ApiError(403), seen("a")]),
    },
)
async def test_a_binding_that_took_effect_counts_whatever_the_reply(client, clock, answer, then) -> None:
    client.will("bind", answer)
    client.will("get", *then)
    (await Setting(client, clock).bind()).assert_bound()
    assert client.requests[0][0] == "bind"
    assert [request[0] for request in client.requests].count("bind") == 1


@cases(
    "answer, then",
    {
        "never arrived": (TransportError("refused", sent=False), [seen(None)]),
        "500, not bound": (SERVER_ERROR, [seen(None)]),
        "another scheduler was faster": (CONFLICT, [seen("b")]),
        "another pod of the same name": (LOST, [seen("a", uid="another")]),
        "404": (GONE, []),
        "deleted since": (LOST, [GONE]),
    },
)
async def test_a_binding_that_took_no_effect_is_undone(client, clock, answer, then) -> None:
    client.will("bind", answer)
    client.will("get", *then)
    (await Setting(client, clock).bind()).assert_undone()


@cases(
    "answers, then",
    {
        "bound by the second request": ([LOST, None], [seen(None)]),
        "bound by the fifth request": ([LOST, LOST, LOST, LOST, None], [seen(None)] * 4),
        "the first request is carried out late": ([LOST, CONFLICT], [seen(None), seen("a")]),
        "the fourth is carried out after the fifth is sent": ([LOST] * 5, [seen(None)] * 4 + [seen("a")]),
        "the server is away meanwhile": ([LOST, UNSENT, SERVER_ERROR, BUSY, None], [seen(None)] * 4),
        "a gateway timeout": ([GATEWAY, None], [seen(None)]),
        "etcd timeout": ([ETCD, None], [seen(None)]),
        "the pod is read late": ([LOST, None], [LOST, FORBIDDEN, SERVER_ERROR, seen(None)]),
    },
)
async def test_a_binding_whose_reply_is_lost_is_repeated_while_the_pod_stays_assumed(client, clock, answers, then):
    client.will("bind", *answers)
    client.will("get", *then)
    setting = Setting(client, clock)
    answer, assumed = client._answer, []
    client._answer = lambda *request: assumed.append(setting.state.is_assumed("uid-web")) or answer(*request)
    (await setting.bind()).assert_bound()
    assert [request[3] for request in client.requests if request[0] == "bind"] == ["a"] * len(answers)
    assert set(assumed) == {True}


@cases(
    "answers, then",
    {
        "refused": ([LOST, FORBIDDEN], [seen(None)] * 2),
        "bound to another node": ([LOST], [seen("b")]),
        "bound to another node later": ([LOST, LOST, CONFLICT], [seen(None), seen(None), seen("b")]),
        "deleted": ([LOST, GONE], [seen(None), GONE]),
        "replaced": ([LOST, LOST], [seen(None), seen(None, uid="another")]),
        "terminating": ([LOST], [seen(None, terminating=True)]),
    },
)
async def test_an_unknown_binding_ends_once_no_request_can_be_carried_out(client, clock, answers, then):
    client.will("bind", *answers)
    client.will("get", *then)
    (await Setting(client, clock).bind()).assert_undone()
    assert not client.script["bind"]
    assert not client.script["get"]


async def test_a_binding_is_not_repeated_without_the_lease(client, clock):
    client.will("bind", LOST)
    client.will("get", seen(None))
    setting = Setting(client, clock)
    setting.leads = False
    (await setting.bind()).assert_undone()
    assert setting.verbs().count("bind") == 1


async def test_a_binding_is_not_repeated_for_a_node_that_is_gone(client, clock):
    client.will("bind", LOST)
    client.will("get", seen(None))
    setting = Setting(client, clock)
    setting.state.remove_node("a")
    (await setting.bind()).assert_undone()
    assert setting.verbs().count("bind") == 1


@pytest.mark.parametrize(
    "known", [None, make_pod(node="b"), make_pod(uid="another")], ids=["deleted", "bound", "replaced"]
)
async def test_a_pod_that_is_gone_or_bound_is_not_requeued(client, clock, known) -> None:
    client.will("bind", CONFLICT)
    client.will("get", seen("b"))
    setting = Setting(client, clock)
    setting.latest = known
    await setting.bind()
    assert setting.queue.get("uid-web") is None
    assert setting.events() == []


class Extending:
    """Extenders with a scripted reply to bind: True, False, or an exception."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    async def bind(self, pod, node_name):
        self.asked.append((pod.key, node_name))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


NO_ANSWER = ExtenderError("no answer within 5 s", sent=True)
FAILED = ExtenderError("no room on the disk")


@cases(
    "answer, then, requests",
    {
        "it binds": (True, [], []),
        "it leaves the pod to the plugins": (False, [], ["bind"]),
        "reply lost, bound": (NO_ANSWER, [seen("a")], ["get"]),
        "an error, bound": (FAILED, [seen("a")], ["get"]),
        "reply lost, bound late": (NO_ANSWER, [seen(None), seen(None), seen("a")], ["get"] * 3),
    },
)
async def test_an_extender_binds(client, clock, answer, then, requests) -> None:
    client.will("get", *then)
    extenders = Extending(answer)
    setting = await Setting(client, clock, extenders=extenders).bind()
    setting.assert_bound()
    assert extenders.asked == [("default/web", "a")] * max(1, requests.count("get"))
    assert setting.verbs() == requests


async def test_a_binding_that_an_extender_fails_is_undone(client, clock) -> None:
    client.will("get", seen(None))
    setting = await Setting(client, clock, extenders=Extending(FAILED)).bind()
    setting.assert_undone()
    assert setting.verbs() == ["get"]
    assert setting.queue.get("uid-web").message == "binding to node a failed: no room on the disk"


@pytest.mark.parametrize("leads", [True, False])
async def test_an_extender_binds_only_for_the_leader(client, clock, leads) -> None:
    client.will("get", seen(None))
    extenders = Extending(True)
    setting = Setting(client, clock, extenders=extenders)
    setting.leads = leads
    await setting.bind()
    if leads:
        setting.assert_bound()
    else:
        setting.assert_undone()
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


@cases(
    "answer, message",
    {
        "an error": (Status.error("disk is away"), 'running PreBind plugin "PreBinder": disk is away'),
        "a refusal": ("not here", "not here"),
        "an exception": (RuntimeError("boom"), 'running PreBind plugin "PreBinder": RuntimeError: boom'),
        "nonsense": (42, 'running PreBind plugin "PreBinder": returned 42'),
        "a refused request": (
            ApiError(403, "Forbidden", 'claims "c" is forbidden'),
            'running PreBind plugin "PreBinder": claims "c" is forbidden',
        ),
    },
)
async def test_a_failing_pre_bind_is_undone(client, clock, answer, message) -> None:
    setting = await Setting(client, clock, PreBinder(answer)).bind()
    setting.assert_undone()
    assert "bind" not in setting.verbs()
    assert message in setting.queue.get("uid-web").message


@pytest.mark.feature("Nominated pods: nominatedNodeName during slow bindings")
async def test_a_pod_with_work_in_pre_bind_is_nominated_until_it_is_bound(client, clock) -> None:
    plugin = Endless(stubborn=True)
    setting = Setting(client, clock, plugin)
    setting.start()
    await plugin.works.wait()
    assert setting.services.status._statuses["uid-web"].wanted == {"nominatedNodeName": "a"}
    plugin.may_end.set()
    await setting.services.tasks.drain(4)
    setting.assert_bound()
    assert not setting.services.status._statuses["uid-web"].wanted


async def test_a_pod_without_work_in_pre_bind_is_not_nominated(client, clock) -> None:
    setting = Setting(client, clock)
    setting.start()
    await asyncio.sleep(0)
    assert not setting.services.status._statuses
    await setting.services.tasks.drain(4)


class Idle(PreBinder):
    """Has nothing to do in PreBind, and says so."""

    def pre_bind_pre_flight(self, cycle, pod, node_name):
        return SKIP


@pytest.mark.parametrize("others", [[], [PreBinder(None)]], ids=["alone", "with others"])
async def test_a_plugin_that_skips_pre_bind_is_not_called(client, clock, others) -> None:
    setting = await Setting(client, clock, Idle(Status.error("called")), *others).bind()
    setting.assert_bound()


class Watcher(Plugin):
    name = "Watcher"

    def post_bind(self, cycle, pod, node_name):
        raise RuntimeError("too late to matter")


async def test_a_post_bind_that_raises_leaves_the_pod_bound(client, clock, caplog) -> None:
    (await Setting(client, clock, Watcher()).bind()).assert_bound()
    assert "plugin Watcher failed in PostBind: RuntimeError: too late to matter" in caplog.text


async def test_a_waiting_pod_binds_when_it_is_allowed(client, clock) -> None:
    setting = Setting(client, clock, waits=60)
    await setting.bind(lambda setting: setting.waiting.get("uid-web").allow("Gate"))
    setting.assert_bound()
    assert len(setting.waiting) == 0


async def test_a_rejected_waiting_pod_is_requeued_with_the_plugin(client, clock) -> None:
    setting = Setting(client, clock, waits=60)
    await setting.bind(lambda setting: setting.waiting.get("uid-web").reject("Gate", "not today"))
    setting.assert_undone()
    queued = setting.queue.get("uid-web")
    assert queued.unschedulable_plugins == {"Gate"}
    assert queued.message == "0/1 nodes are available: 1 not today."


async def test_tasks_that_take_too_long_are_cancelled_when_draining(client, clock, caplog) -> None:
    setting = Setting(client, clock, Endless())
    setting.start()
    await setting.services.tasks.drain(0)
    assert "binding pod default/web was not finished in time" in caplog.text
    assert setting.services.tasks.count(BINDING) == 0


@cases(
    "verb, left", {"a request without a reply yet": ("bind", True), "a lost reply": ("get", True), "done": ("", False)}
)
async def test_draining_says_whether_a_write_may_still_be_carried_out(client, clock, verb, left) -> None:
    waits, bind = asyncio.Event(), client.bind
    if verb == "get":
        client.will("bind", LOST)

    async def held(*arguments, **options):
        waits.set()
        if verb == "bind":
            await asyncio.Event().wait()
        await bind(*arguments, **options)

    client.bind = held
    client.hold(verb)
    setting = Setting(client, clock)
    setting.start()
    await waits.wait()
    assert await setting.services.tasks.drain(0.1 if left else 4) == left


@pytest.mark.parametrize("answer", [None, ApiError(404), SERVER_ERROR], ids=["bound", "404", "500"])
async def test_pod_that_reuses_the_uid_of_a_pod_that_is_being_bound_is_queued(client, clock, answer) -> None:
    second = make_pod("second", uid="uid-web")
    held = asyncio.Event()

    async def bind(*_, **__):
        await held.wait()
        if answer is not None:
            raise answer

    client.bind = bind
    client.will("get", ApiError(404))
    setting = Setting(client, clock)
    setting.start()
    setting.runtime.state.objects[POD].set(setting.pod.key, setting.pod)
    pods = watch_pods(setting.runtime)
    await asyncio.sleep(0)
    pods.deleted(setting.pod)
    pods.added(second)
    held.set()
    await setting.services.tasks.drain(4)
    queued = setting.queue.get("uid-web")
    assert (queued.pod.key, queued.place) == ("default/second", Place.ACTIVE)


class Endless(Plugin):
    """Works until `may_end` is set or it is cancelled; a stubborn one then succeeds."""

    name = "Endless"

    def __init__(self, *, stubborn=False) -> None:
        self.stubborn = stubborn
        self.works, self.may_end = asyncio.Event(), asyncio.Event()

    async def pre_bind(self, cycle, pod, node_name):
        self.works.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            if not self.stubborn:
                raise


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_pre_bind_can_be_cancelled(client, clock, stubborn) -> None:
    plugin = Endless(stubborn=stubborn)
    setting = Setting(client, clock, plugin)

    async def cancel() -> bool:
        await plugin.works.wait()
        return setting.runtime.ports.binder.cancel_pre_bind("uid-web", "preempted by X")

    cancelling = asyncio.create_task(cancel())
    await setting.bind()
    setting.assert_undone()
    assert await cancelling
    assert setting.queue.get("uid-web").message == "preempted by X"
    assert "bind" not in setting.verbs()
    assert not setting.runtime.ports.binder.cancel_pre_bind("uid-web", "again")
