"""Handlers of watch events, case by case: where a pod is afterwards."""

import msgspec
import pytest
from lightkube.models.core_v1 import Node, NodeStatus
from lightkube.models.meta_v1 import ObjectMeta
from tests.service.conftest import make_pod, make_runtime, watch_nodes, watch_pods
from tests.support.documents import of_kind
from tests.support.tables import cases

from bayplan.core.executor.handlers import Receiver, SentNode
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.queue import Place
from bayplan.running.service.informers import PodInformer
from bayplan.running.service.services import Services

WAITING = make_pod()
BOUND = make_pod(node="a")
DONE = make_pod(node="a", phase="Succeeded")


class Sort(Plugin):
    """The highest priority first."""

    name = "Sort"

    def sort_key(self, pod, queued_at):
        return -pod.priority, queued_at


class Watched:
    def __init__(self, client, clock) -> None:
        services = Services.of(client, clock)
        self.runtime = make_runtime(services, Profile("test", {Point.QUEUE_SORT: [Sort()]}))
        self.state, self.queue, self.waiting = self.runtime.state, self.runtime.queue, self.runtime.waiting
        self.intake, self.recorder, self.work, self.clock = services.intake, services.recorder, services.work, clock
        self.pods, self.nodes = watch_pods(self.runtime), watch_nodes(self.runtime)
        self.handler = PodInformer(Receiver.of(self.runtime), self.recorder)

    def where(self, uid: str = "uid-web") -> str:
        queued = self.queue.get(uid)
        on_node = self.state.pod(uid)
        assert queued is None or on_node is None or queued.place is Place.IN_FLIGHT, "in two places at once"
        if on_node is not None:
            return f"assumed on {on_node.node_name}" if self.state.is_assumed(uid) else f"on {on_node.node_name}"
        return queued.place.value if queued else "nowhere"

    def events(self) -> list[dict]:
        return [waiting.event for waiting in self.recorder._writer._waiting]


@pytest.fixture
def watched(client, clock) -> Watched:
    return Watched(client, clock)


@cases(
    "pod, where",
    {
        "waiting": (WAITING, "active"),
        "bound": (BOUND, "on a"),
        "done": (DONE, "nowhere"),
        "failed before it was bound": (make_pod(phase="Failed"), "nowhere"),
    },
)
def test_a_new_pod(watched, pod, where) -> None:
    watched.pods.added(pod)
    assert watched.where() == where
    assert watched.work.is_set()


def test_a_pod_of_another_scheduler_only_counts_when_bound(watched) -> None:
    other = make_pod()
    other.scheduler_name = "default-scheduler"
    watched.pods.added(other)
    assert watched.where() == "nowhere"
    bound = make_pod(node="a")
    bound.scheduler_name = "default-scheduler"
    watched.pods.updated(other, bound)
    assert watched.where() == "on a"


def test_a_pod_bound_by_another_scheduler_leaves_the_queue(watched) -> None:
    watched.pods.added(WAITING)
    watched.pods.updated(WAITING, BOUND)
    assert watched.where() == "on a"
    assert watched.queue.pop(watched.clock.monotonic()) is None


def test_a_pod_bound_by_another_scheduler_during_its_attempt_is_not_requeued(watched) -> None:
    watched.pods.added(WAITING)
    queued = watched.queue.pop(watched.clock.monotonic())
    watched.pods.updated(WAITING, BOUND)
    assert watched.queue.add_unschedulable(queued, watched.clock.monotonic()) is None
    assert watched.where() == "on a"


def test_the_reported_node_replaces_the_assumed_node(watched) -> None:
    watched.pods.added(WAITING)
    watched.queue.pop(watched.clock.monotonic())
    watched.state.assume(WAITING, "b")
    watched.pods.updated(WAITING, BOUND)
    assert watched.where() == "on a"
    assert watched.state.table.pod_count[watched.state.table.row_of["a"]] == 1
    assert "b" not in watched.state.table.row_of, "nothing is left on the node it was assumed on"


def test_deleting_an_assumed_pod_frees_its_node(watched) -> None:
    watched.pods.added(WAITING)
    watched.queue.pop(watched.clock.monotonic())
    watched.state.assume(WAITING, "b")
    watched.pods.deleted(WAITING)
    assert watched.state.pod("uid-web") is None
    watched.queue.done("uid-web")  # its binding cycle calls `done` when it ends
    assert watched.where() == "nowhere"


async def test_deleting_a_pod_that_waits_in_permit_rejects_it(watched) -> None:
    watched.pods.added(WAITING)
    watched.queue.pop(watched.clock.monotonic())
    assumed = watched.state.assume(WAITING, "b")
    waiting = watched.waiting.add(assumed, {"Gate": 60})
    watched.pods.deleted(WAITING)
    assert (await waiting.verdict()).message == "the pod was deleted"
    assert watched.where() == "assumed on b", "until its binding cycle forgets it"


@pytest.mark.parametrize("pod", [WAITING, BOUND], ids=["waiting", "bound"])
def test_a_deleted_pod_is_nowhere(watched, pod) -> None:
    watched.pods.added(pod)
    watched.pods.deleted(pod)
    assert watched.where() == "nowhere"


def test_a_terminated_pod_frees_its_node(watched) -> None:
    watched.pods.added(BOUND)
    watched.pods.updated(BOUND, DONE)
    assert watched.where() == "nowhere"
    assert watched.state.table.size == 1
    assert not watched.state.table.row_of


def test_an_update_of_a_waiting_pod_reaches_the_queue(watched) -> None:
    watched.pods.added(WAITING)
    newer = make_pod()
    newer.resource_version = "8"
    watched.pods.updated(WAITING, newer)
    assert watched.queue.get("uid-web").pod is newer


def test_changes_wait_during_an_attempt(watched) -> None:
    with watched.intake.held():
        watched.pods.added(WAITING)
        watched.pods.updated(WAITING, BOUND)
        assert watched.where() == "nowhere"
    assert watched.where() == "on a"


def test_a_failing_change_does_not_stop_the_others(watched, caplog) -> None:
    def breaks() -> None:
        raise RuntimeError("out of order")

    with watched.intake.held():
        watched.intake.take("NodeAdd", breaks)
        watched.pods.added(WAITING)
    assert watched.where() == "active"
    assert "out of order" in caplog.text


@cases(
    "spec, expected",
    {
        "ours": ({"schedulerName": "test"}, True),
        "another scheduler's": ({"schedulerName": "other"}, False),
        "bound already": ({"schedulerName": "test", "nodeName": "a"}, False),
        "no spec at all": ("nonsense", False),
    },
)
def test_an_undecodable_pod_is_reported(watched, caplog, spec, expected) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "odd", "namespace": "default", "uid": "u"}, "spec": spec})
    watched.handler.undecodable(raw, ValueError("'x' is not a quantity"))
    assert "ignoring pod default/odd, which cannot be decoded" in caplog.text
    events = watched.events()
    assert len(events) == expected
    if expected:
        assert events[0]["regarding"]["name"] == "odd"
        assert events[0]["note"] == "the pod cannot be decoded: 'x' is not a quantity"


def node(name: str = "a", cpu: str = "4") -> SentNode:
    return SentNode(Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": cpu, "pods": "110"})))


def test_nodes_are_added_and_removed(watched) -> None:
    watched.nodes.added(node())
    assert watched.state.table.live_count == 1
    watched.nodes.updated(node(), node(cpu="8"))
    assert watched.state.nodes.allocatable("cpu").tolist() == [8000]
    watched.nodes.deleted(node())
    assert watched.state.table.live_count == 0


@cases(
    "read, sent_on",
    {
        "as it came where whole nodes are wanted": (
            SentNode.keep,
            {"metadata": {"name": "a", "new": 1}, "spec": {"new": [{}]}, "new": None},
        ),
        "as it is known where not": (SentNode.read, {"metadata": {"name": "a"}, "spec": {}}),
    },
)
def test_the_json_of_nodes_is_kept_for_extenders(watched, read, sent_on) -> None:
    document = of_kind(
        "Node", "a", metadata={"new": 1, "managedFields": [{"manager": "kubelet"}]}, spec={"new": [{}]}, new=None
    )
    watched.nodes.added(read(msgspec.json.encode(document)))
    assert msgspec.json.decode(watched.state.nodes.info(0).raw) == sent_on
    watched.nodes.deleted(read(msgspec.json.encode(document)))
    assert watched.state.table.raw == {}


def test_an_invalid_version_of_a_node_is_ignored(watched, caplog) -> None:
    watched.nodes.added(node())
    watched.nodes.updated(node(), node(cpu="many"))
    assert watched.state.nodes.allocatable("cpu").tolist() == [4000]
    assert "ignoring an invalid version of node a" in caplog.text
    assert "'many' is not a quantity" in caplog.text


def test_pod_with_the_uid_of_another_pod_is_ignored_until_that_pod_is_gone(watched, caplog) -> None:
    first, second = make_pod("first", uid="same", node="a"), make_pod("second", uid="same", node="b")
    watched.pods.added(first)
    watched.pods.added(second)
    assert watched.state.pod("same").key == "default/first"
    assert "ignoring pod default/second, which has the uid of pod default/first" in caplog.text
    watched.pods.deleted(second)
    assert watched.state.pod("same").key == "default/first"
    watched.pods.added(second)
    watched.pods.deleted(first)
    assert watched.where("same") == "on b"
    watched.pods.deleted(second)
    assert watched.where("same") == "nowhere"


def test_pod_that_lost_its_node_is_pending_again(watched) -> None:
    watched.pods.added(BOUND)
    watched.pods.updated(BOUND, WAITING)
    assert watched.where() == "active"


def test_pod_of_another_scheduler_leaves_the_queue(watched) -> None:
    watched.pods.added(WAITING)
    other = make_pod()
    other.scheduler_name = "another"
    watched.pods.updated(WAITING, other)
    assert watched.where() == "nowhere"


def test_pod_with_the_uid_of_a_deleted_pod_that_is_in_flight_is_placed(watched) -> None:
    first, second = make_pod("first", uid="same"), make_pod("second", uid="same", node="b")
    watched.pods.added(first)
    assert watched.queue.pop(0.0) is not None
    watched.pods.added(second)
    assert watched.state.pod("same") is None
    watched.pods.deleted(first)
    assert watched.state.pod("same").key == "default/second"
