"""PrioritySort, SchedulingGates, NodeName, NodePorts, DefaultBinder."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, TransportError
from bayplan.core.framework.events import Hint
from bayplan.core.framework.hints import after_own_update
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Code
from bayplan.core.plugins import node_ports
from bayplan.core.plugins.default_binder import DefaultBinder
from bayplan.core.plugins.node_name import NodeName
from bayplan.core.plugins.node_ports import NodePorts
from bayplan.core.plugins.priority_sort import PrioritySort
from bayplan.core.plugins.scheduling_gates import SchedulingGates
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_cluster, make_node, make_pod


def rejected(plugin, pod, cluster):
    rejections = plugin.filter_nodes(CycleState(), pod, cluster.state.nodes)
    if rejections is None:
        return {}
    names = cluster.state.table.names
    return {names[row]: rejections.statuses[index - 1] for row, index in enumerate(rejections.index) if index}


class TestPrioritySort:
    def test_sorts_by_priority_then_time(self):
        sort = PrioritySort()
        waiting = [(make_pod("a", priority=0), 1.0), (make_pod("b", priority=5), 9.0), (make_pod("c", priority=5), 2.0)]
        assert [pod.name for pod, _ in sorted(waiting, key=lambda each: sort.sort_key(*each))] == ["c", "b", "a"]


class TestSchedulingGates:
    def test_pod_with_gates_is_gated(self):
        pod = make_pod("p", spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]})
        status = SchedulingGates().pre_enqueue(pod)
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.message == "waiting for scheduling gates: [a b]"

    def test_pod_without_gates_is_not_gated(self):
        assert SchedulingGates().pre_enqueue(make_pod("p")) is None

    @pytest.mark.feature("SchedulingGates: queueing hints")
    def test_only_its_own_update_requeues_a_pod(self):
        pod = make_pod("p")
        assert after_own_update(pod, pod, make_pod("p")) is Hint.QUEUE
        assert after_own_update(pod, pod, make_pod("other")) is Hint.SKIP


class TestNodeName:
    def test_other_nodes_are_rejected(self):
        cluster = make_cluster(make_node("a"), make_node("b"))
        statuses = rejected(NodeName(), make_pod("p", node="b"), cluster)
        assert set(statuses) == {"a"}
        assert statuses["a"].reasons == ("node(s) didn't match the requested node name",)

    def test_missing_node_rejects_all_nodes(self):
        cluster = make_cluster(make_node("a"), make_node("b"))
        assert set(rejected(NodeName(), make_pod("p", node="gone"), cluster)) == {"a", "b"}

    def test_pod_without_node_name_is_accepted(self):
        assert NodeName().filter_nodes(CycleState(), make_pod("p"), make_cluster(make_node("a")).state.nodes) is None


def port(number, ip=None, protocol="TCP"):
    return {"containerPort": 1, "hostPort": number, "protocol": protocol, **({"hostIP": ip} if ip else {})}


def with_ports(name, *ports, node="", sidecar=()):
    return make_pod(
        name,
        node=node,
        spec={
            "containers": [{"name": "c", "ports": list(ports)}],
            "initContainers": [{"name": "s", "restartPolicy": "Always", "ports": list(sidecar)}] if sidecar else [],
        },
    )


class TestNodePorts:
    @cases(
        "taken, wanted, clashes",
        {
            "the same": (port(80), port(80), True),
            "another port": (port(80), port(81), False),
            "another protocol": (port(80), port(80, protocol="UDP"), False),
            "another address": (port(80, "10.0.0.1"), port(80, "10.0.0.2"), False),
            "any address wanted": (port(80, "10.0.0.1"), port(80), True),
            "any address taken": (port(80), port(80, "10.0.0.1"), True),
            "the same address": (port(80, "10.0.0.1"), port(80, "10.0.0.1"), True),
        },
    )
    def test_conflicts(self, taken, wanted, clashes):
        cluster = make_cluster(make_node("a"), make_node("b"), with_ports("there", taken, node="a"))
        statuses = rejected(NodePorts(), with_ports("p", wanted), cluster)
        assert set(statuses) == ({"a"} if clashes else set())
        assert all(status.code is Code.UNSCHEDULABLE for status in statuses.values())

    def test_ports_of_sidecars_are_used_and_released(self):
        there = with_ports("there", node="a", sidecar=[port(80)])
        cluster = make_cluster(make_node("a"), there)
        assert rejected(NodePorts(), with_ports("p", port(80)), cluster)
        cluster.state.remove_pod(there.uid)
        assert not rejected(NodePorts(), with_ports("p", port(80)), cluster)

    def test_pod_without_host_ports_is_skipped(self):
        answer = NodePorts().pre_filter(CycleState(), make_pod("p"), make_cluster(make_node("a")).state.nodes)
        assert answer.code is Code.SKIP

    @pytest.mark.feature("NodePorts: queueing hints")
    @cases(
        "gone, hint",
        {
            "same port": (with_ports("gone", port(80), node="a"), Hint.QUEUE),
            "another port": (with_ports("gone", port(81), node="a"), Hint.SKIP),
            "no port": (with_ports("gone", node="a"), Hint.SKIP),
            "no node": (with_ports("gone", port(80)), Hint.SKIP),
        },
    )
    def test_hint_after_pod_deletion(self, gone, hint):
        assert node_ports.after_pod_deletion(with_ports("p", port(80)), gone, None) is hint


class Recording:
    """A client that answers the first bindings with errors."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.bound = []

    async def bind(self, namespace, name, node, *, uid=None):
        self.bound.append((namespace, name, node, uid))
        if self.errors:
            raise self.errors.pop(0)


AWAY, BROKEN, CONFLICT, REFUSED = (ApiError(status) for status in (503, 500, 409, 403))
LOST = TransportError("the connection broke", sent=True)


class TestDefaultBinder:
    def handle(self, binder):
        return SimpleNamespace(client=binder)

    def test_bind_creates_the_binding(self):
        binder = Recording()
        answer = asyncio.run(DefaultBinder(self.handle(binder)).bind(CycleState(), make_pod("p"), "a"))
        assert answer is None
        assert binder.bound == [("default", "p", "a", "default-p")]

    @cases(
        "version, errors, pauses, raised",
        {
            "1.36 asks once": ("1.36", [AWAY], [], AWAY),
            "the server is away": ("1.37", [AWAY], [0.01], None),
            "all that is retried": ("1.37", [AWAY, BROKEN, CONFLICT], [0.01, 0.05, 0.25], None),
            "four times at most": ("1.37", [AWAY, AWAY, AWAY, CONFLICT, AWAY], [0.01, 0.05, 0.25], CONFLICT),
            "refused": ("1.37", [REFUSED], [], REFUSED),
            "refused after an error": ("1.37", [AWAY, REFUSED], [0.01], REFUSED),
            "lost replies": ("1.37", [LOST], [], LOST),
        },
    )
    def test_bindings_are_retried_since_1_37(self, version, errors, pauses, raised):
        """#138855"""
        binder, slept = Recording(*errors), []

        async def sleep(seconds):
            slept.append(seconds)

        plugin = DefaultBinder(self.handle(binder), sleep, gates_of(version))
        if raised is None:
            assert asyncio.run(plugin.bind(CycleState(), make_pod("p"), "a")) is None
        else:
            with pytest.raises(type(raised)) as found:
                asyncio.run(plugin.bind(CycleState(), make_pod("p"), "a"))
            assert found.value is raised
        assert slept == pauses
        assert binder.bound == [("default", "p", "a", "default-p")] * (len(pauses) + 1)

    def test_bind_fails_without_a_server(self):
        answer = asyncio.run(DefaultBinder(self.handle(None)).bind(CycleState(), make_pod("p"), "a"))
        assert answer.code is Code.ERROR
