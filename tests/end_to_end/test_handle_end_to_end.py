"""The plugin handle: lookups, pods waiting in Permit, activation, and writes to the server."""

import asyncio

import pytest
from running import running_scheduler, unrecorded_scheduler
from tests.support.invariants import check_invariants
from tests.support.waiting import PATIENCE
from workloads import NAME, pod

from bayplan import Action, ClusterEvent, EventHint, Hint
from bayplan.client import ApiError
from bayplan.core.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, POD, custom_kind
from bayplan.core.framework.interface import Plugin, PostFilterResult, Wait
from bayplan.core.framework.status import Status


class Crew(Plugin):
    """Pods of one crew are bound together: gang scheduling in a few lines."""

    name = "Crew"

    def __init__(self, handle):
        self.handle = handle
        self.pods = handle.objects("Pod")
        self.plans = handle.objects(CONFIG_MAP)

    def _size(self, pod):
        plan = self.plans.get(f"{pod.namespace}/{pod.labels['crew']}")
        return int(plan.data["size"]) if plan else None

    def _crew(self, pod):
        return [other for other in self.pods.values() if other.labels.get("crew") == pod.labels["crew"]]

    def pre_filter(self, cycle, pod, nodes):
        size = self._size(pod)
        if size is None:
            return "the crew has no plan"
        return None if len(self._crew(pod)) >= size else "the crew is not complete"

    def permit(self, cycle, pod, node_name):
        waiting = [other for other in self.handle.waiting_pods if other.pod.labels.get("crew") == pod.labels["crew"]]
        if len(waiting) + 1 < self._size(pod):
            self.handle.activate(self._crew(pod))
            return Wait(30.0)
        for other in waiting:
            assert other.pending_plugins == ["Crew"]
            other.allow("Crew")
        return None

    async def pre_bind(self, cycle, pod, node_name):
        await self.handle.client.patch(
            POD, pod.name, {"metadata": {"annotations": {"berth": node_name}}}, pod.namespace
        )

    def post_bind(self, cycle, pod, node_name):
        self.handle.record(pod, "Normal", "Aboard", "Binding", f"{pod.name} is aboard {node_name}")


def sailor(name, crew="red"):
    member = pod(name, "100m")
    return {**member, "metadata": {**member["metadata"], "labels": {"crew": crew}}}


def plan(size, name="red"):
    return {"metadata": {"name": name}, "data": {"size": str(size)}}


async def test_plugin_schedules_gangs(cluster):
    await cluster.grant("list watch", "configmaps")
    await cluster.grant("patch", "pods")
    await cluster.add_node("a", cpu="1")
    observer = cluster.observer
    async with running_scheduler(cluster.access, Crew) as scheduler:
        await cluster.create(sailor("one"))
        await observer.until(lambda: observer.events_of("default/one", "FailedScheduling"))
        await cluster.client.create(CONFIG_MAP, plan(3))
        await cluster.create(sailor("two"))
        await observer.until(lambda: observer.events_of("default/two", "FailedScheduling"))
        assert not scheduler.bound
        await cluster.create(sailor("three"))
        for name in ("one", "two", "three"):
            await observer.until(lambda name=name: observer.node_of(f"default/{name}"))
            await observer.until(lambda name=name: observer.events_of(f"default/{name}", "Aboard"))
            assert observer.pods[f"default/{name}"]["metadata"]["annotations"]["berth"] == "a"
    check_invariants(observer, NAME)


class Dispatcher(Plugin):
    """Pods wait until they are activated, without an event."""

    name = "Dispatcher"

    def __init__(self, handle):
        self.handle = handle
        self.pods = handle.objects(POD)
        self.word = False

    def events(self):
        return ()

    def pre_filter(self, cycle, pod, nodes):
        return None if self.word else "no word yet"


async def test_plugin_activates_pending_pods(cluster):
    await cluster.add_node("a", cpu="1")
    built = []

    class Known(Dispatcher):
        def __init__(self, handle):
            super().__init__(handle)
            built.append(self)

    async with unrecorded_scheduler(cluster.access, Known):  # no entry says what changes the plugin
        await cluster.create(pod("p", "100m"))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/p", "FailedScheduling"))
        (plugin,) = built
        plugin.word = True
        plugin.handle.activate(plugin.pods.values())
        await cluster.observer.until(lambda: cluster.observer.node_of("default/p"))


class Annotates(Plugin):
    """Annotates unschedulable pods, from an extension point that cannot await."""

    name = "Annotates"

    def __init__(self, handle):
        self.handle = handle

    def post_filter(self, cycle, pod, diagnosis, what_if):
        patch = {"metadata": {"annotations": {"complaint": f"none of {len(self.handle.nodes)} nodes"}}}
        self.handle.start(
            f"complain of {pod.key}", lambda: self.handle.client.patch(POD, pod.name, patch, pod.namespace)
        )
        return PostFilterResult(Status.unschedulable("complained"))


async def test_plugin_writes_in_the_background(cluster):
    await cluster.grant("patch", "pods")
    await cluster.add_node("a", cpu="1")
    observer = cluster.observer
    async with running_scheduler(cluster.access, Annotates):
        await cluster.create(pod("large", "2"), pod("small", "100m"))
        await observer.until(
            lambda: observer.pods["default/large"]["metadata"].get("annotations") == {"complaint": "none of 1 nodes"}
        )
        await observer.until(lambda: observer.node_of("default/small"))
    check_invariants(observer, NAME)


async def test_kind_requested_too_late_is_rejected(cluster):
    built = []

    class Late(Dispatcher):
        def __init__(self, handle):
            super().__init__(handle)
            built.append(self)

    async with running_scheduler(cluster.access, Late):
        with pytest.raises(RuntimeError, match=r"secrets are not watched: call handle\.objects in"):
            built[0].handle.objects("Secret")


def definition(group):
    """The definition of racks, in a group per test, because tests share a server."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"racks.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "racks", "singular": "rack", "kind": "Rack"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


class Racks(Plugin):
    """A pod waits until its rack is powered, according to a custom resource."""

    name = "Racks"

    def __init__(self, kind, handle):
        self.kind = kind
        self.racks = handle.objects(kind)

    def events(self):
        return [EventHint(ClusterEvent(self.kind.kind, Action.ADD | Action.UPDATE), self.after_rack_change)]

    def after_rack_change(self, pod, old, new):
        return Hint.QUEUE if new.metadata.name == pod.labels["rack"] and new["spec"]["powered"] else Hint.SKIP

    def filter(self, cycle, pod, node):
        rack = self.racks.get(pod.labels["rack"])
        return None if rack is not None and rack["spec"]["powered"] else "the rack is not powered"


@pytest.mark.parametrize("group", ["early.example.com", "late.example.com"])
async def test_custom_resources_are_read_and_their_events_requeue_pods(cluster, group):
    kind = custom_kind(f"racks.v1.{group}", namespaced=False)

    class OfGroup(Racks):
        def __init__(self, handle):
            super().__init__(kind, handle)

    await cluster.grant("list watch", kind.resource)
    await cluster.add_node("a", cpu="1")
    client, observer = cluster.client, cluster.observer
    if group.startswith("early"):
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition(group))
        await once_served(lambda: client.list(kind))
    async with running_scheduler(cluster.access, OfGroup):
        member = pod("p", "100m")
        await cluster.create({**member, "metadata": {**member["metadata"], "labels": {"rack": "r1"}}})
        await observer.until(lambda: observer.events_of("default/p", "FailedScheduling"))
        if group.startswith("late"):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition(group))
        rack = {"apiVersion": kind.api_version, "kind": "Rack", "metadata": {"name": "r1"}, "spec": {"powered": False}}
        await once_served(lambda: client.create(kind, rack))
        await client.patch(kind, "r1", {"spec": {"powered": True}})
        await observer.until(lambda: observer.node_of("default/p"))


async def once_served(request):
    """The reply to a request, once the server serves its kind."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await request()
            except ApiError as error:
                if error.status != 404:
                    raise
            await asyncio.sleep(0.05)
