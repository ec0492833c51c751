"""A scheduler on an in-memory API server, gangs that come and go, and the invariants that hold once they settle."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, suppress
from itertools import cycle

from tests.support.stories import Story, scheduling

from bayplan.client import ApiError
from bayplan.core.api.coscheduling import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL, POD_GROUPS
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import NODE, POD, custom_kind
from bayplan.core.config.loading import parse_configuration
from bayplan.core.config.profiles import build_profile
from bayplan.core.versions import gates_of
from bayplan.testing.in_memory import stored

_MOMENT = 0.01
PLUGINS = ("Coscheduling", "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
KUBERNETES, IN_ONE_RACK = "Kubernetes PodGroup", "Kubernetes PodGroup in one rack"
_FORMS = (POD_GROUPS, LIGHTWEIGHT_LABEL, KUBERNETES, IN_ONE_RACK)
_RACK = "example.com/rack"


def configuration(plugins):
    multi_point = {"enabled": [{"name": name} for name in plugins]}
    queue_sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": multi_point, "queueSort": queue_sort}}],
    }


class GangWorld(Story):
    """Gangs in four forms in turn, and what happens to them.

    The forms are a PodGroup of scheduler-plugins, labels only, a Kubernetes PodGroup, and a Kubernetes PodGroup with a
    topology constraint. Deleted members are replaced under new names, as by a Job. Two nodes make a rack.
    """

    def __init__(self, scheduler, client, gangs, version):
        super().__init__(client, scheduler, version)
        self.gangs = gangs
        self.version = version
        self.numbers = Counter()
        self.bound_before: set[str] = set()
        self.lost: Counter[str] = Counter()
        self.evicted = 0
        self.forms = dict(zip(gangs, cycle(_FORMS)))

    async def define(self):
        """Create the groups."""
        for name, (least, _, _) in self.gangs.items():
            form = self.forms[name]
            metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
            spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
            if form == IN_ONE_RACK:
                spec["schedulingConstraints"] = {"topology": [{"key": _RACK}]}
            if form == POD_GROUPS:
                groups = self.scheduler.state.objects[custom_kind(form)]
                groups.set(f"default/{name}", CustomObject(metadata=metadata, spec={"minMember": least}))
            elif form != LIGHTWEIGHT_LABEL:
                await self.create(self.group_kind, {"metadata": metadata, "spec": spec})

    async def add_node(self, name, cpu):
        if name not in {node["metadata"]["name"] for node in stored(self.client.server, NODE)}:
            await super().add_node(name, str(cpu), **{_RACK: rack_of(name)})

    async def fail_node(self, name):
        """Delete the node and its pods. A pod whose binding is in flight stays: no garbage collector runs here."""
        self.lost[name] += 1
        with suppress(ApiError):
            await self.client.delete(NODE, name)
        for pod in self.pods():
            if pod["spec"].get("nodeName") == name:
                await self.delete(pod)

    async def add_member(self, gang):
        """Add a member, unless the gang is complete."""
        least, size, cpu = self.gangs[gang]
        if len(self.members(gang)) >= size:
            return
        self.numbers[gang] += 1
        labels, spec = {
            POD_GROUPS: ({POD_GROUP_LABEL: gang}, {}),
            LIGHTWEIGHT_LABEL: ({LIGHTWEIGHT_LABEL: gang, MIN_AVAILABLE_LABEL: str(least)}, {}),
        }.get(self.forms[gang], ({}, {"schedulingGroup": {"podGroupName": gang}}))
        await self.add_pod(f"{gang}-{self.numbers[gang]}", cpu, labels, **spec)

    async def add_pod(self, name, cpu, labels=None, **spec):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        await self.create(POD, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})

    async def delete_member(self, gang, index, *, when_idle):
        """Delete a member. With `when_idle`, first let the scheduler receive it and finish its attempt."""
        if when_idle:
            await asyncio.sleep(_MOMENT)
        members = self.members(gang)
        if members:
            await self.delete(members[index % len(members)], when_idle=when_idle)

    async def delete(self, pod, *, when_idle=False):
        """Delete a pod. It counts as lost to its gang if it was bound or the scheduler may have counted on it."""
        gang, metadata = self.gang_of(pod), pod["metadata"]
        if gang is not None and (not when_idle or self.scheduler.state.pod(metadata["uid"]) is not None):
            self.lost[gang] += 1
        with suppress(ApiError):  # the scheduler may have evicted it
            await self.client.delete(POD, metadata["name"])
        if when_idle:
            await asyncio.sleep(_MOMENT)

    def pods(self):
        return stored(self.client.server, POD)

    def gang_of(self, pod):
        labels = pod["metadata"].get("labels") or {}
        own = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        return labels.get(POD_GROUP_LABEL) or labels.get(LIGHTWEIGHT_LABEL) or own

    def members(self, gang):
        return [pod for pod in self.pods() if self.gang_of(pod) == gang]

    def bound(self, gang):
        return [pod for pod in self.members(gang) if pod["spec"].get("nodeName")]

    # Invariants once everything has settled

    async def settle(self):
        """Wait until nothing changes any more, then check the invariants. The backoff of a group of 1.37 is longer."""
        await super().settle(30 if self.version == "1.36" else 90)
        self._check_no_resources_are_held()
        self._check_gangs_are_bound_whole()
        self._check_pending_gangs_do_not_fit()
        self._check_evictions_made_room()
        self._check_racks()
        self._check_pod_group_conditions()
        self.bound_before = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("nodeName")}
        self.lost.clear()
        self.evicted = self._evictions()

    def _check_no_resources_are_held(self):
        self.nothing_is_held()
        on_nodes = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("nodeName")}
        assert {pod.uid for row in self.scheduler.state.table.pods for pod in row.values()} == on_nodes

    def _check_gangs_are_bound_whole(self):
        """A gang with newly bound members has at least its minimum bound, counting members lost since."""
        for gang, (least, _, _) in self.gangs.items():
            bound = self.bound(gang)
            new = [pod for pod in bound if pod["metadata"]["uid"] not in self.bound_before]
            assert not new or len(bound) + self.lost[gang] >= least, f"{gang}: {len(bound)} of {least} bound"

    def _check_pending_gangs_do_not_fit(self):
        """No pending gang would fit. All members of a gang request the same, so counting is enough."""
        for gang, (least, _, cpu) in self.gangs.items():
            members, bound = self.members(gang), self.bound(gang)
            needed = max(least - len(bound), 1)
            if len(members) < least or len(bound) == len(members) or self._has_lost_its_rack(gang):
                continue
            room = self._room_for(gang, cpu)
            assert room < needed, f"{gang} is pending: it needs {needed} more, and {room} fit"
            for pod in members:
                if not pod["spec"].get("nodeName"):
                    conditions = pod["status"].get("conditions") or ()
                    assert any(each.get("reason") == "Unschedulable" and each["message"] for each in conditions)

    def _check_evictions_made_room(self):
        """Pods are evicted only for pods that were bound afterwards or have been lost since."""
        if self._evictions() > self.evicted:
            bound = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("nodeName")}
            assert bound - self.bound_before or self.lost.total()

    def _evictions(self):
        """The number of pods that the scheduler evicted: only its deletions carry preconditions here."""
        deletions = self.client.transport.sent("delete")
        return sum("preconditions" in (each.document or {}) for each in deletions)

    def _check_racks(self):
        for gang, form in self.forms.items():
            if form == IN_ONE_RACK:
                assert len(self._racks(gang)) <= 1, f"{gang} is in {self._racks(gang)}"

    def _check_pod_group_conditions(self):
        """A PodGroup that was scheduled keeps that condition; one that was attempted and rejected reports why."""
        groups = {group["metadata"]["name"]: group for group in stored(self.client.server, self.group_kind)}
        for gang, (least, _, _) in self.gangs.items():
            pod_group = groups.get(gang)
            if pod_group is None:
                continue
            conditions = (pod_group.get("status") or {}).get("conditions") or ()
            type_ = "PodGroupScheduled" if self.version == "1.36" else "PodGroupInitiallyScheduled"
            reported = {each["type"]: (each["status"], each["reason"]) for each in conditions}.get(type_)
            if len(self.bound(gang)) >= least:
                assert reported == ("True", "Scheduled"), gang
            elif len(self.members(gang)) >= least:
                assert reported is not None, gang
                assert reported[0] == "True" or conditions[0]["message"].startswith(f"gang {gang}: "), gang

    def _has_lost_its_rack(self, gang):
        """Whether a member is on a deleted node, so that the rack of the other members is unknown."""
        nodes = self.scheduler.state.nodes
        there = {nodes.name(position) for position in range(len(nodes)) if nodes.live[position]}
        return self.forms[gang] == IN_ONE_RACK and not {pod["spec"]["nodeName"] for pod in self.bound(gang)} <= there

    def _racks(self, gang):
        return {rack_of(pod["spec"]["nodeName"]) for pod in self.bound(gang)}

    def _room_for(self, gang, cpu):
        """How many members fit: in all racks together, or for a gang in one rack, in its own or else the best one."""
        nodes = self.scheduler.state.nodes
        room = Counter()
        together = self.forms[gang] == IN_ONE_RACK
        preempts = not together or self.version != "1.36"
        for position in range(len(nodes)):
            if nodes.live[position]:
                staying = (pod for pod in nodes.pods(position) if pod.priority >= 0 or not preempts)
                taken = sum(pod.requested["cpu"] for pod in staying)
                free = int(nodes.allocatable("cpu")[position]) - taken
                room[rack_of(nodes.name(position))] += free // (cpu * 1000)
        racks = self._racks(gang) or room.keys()
        return max((room[rack] for rack in racks), default=0) if together else room.total()


def rack_of(node):
    return "one" if node in {"a", "b"} else "two"


@asynccontextmanager
async def gang_world(gangs, plugins=PLUGINS, version="1.36"):
    """A running scheduler that has synced, on the event loop's clock. It is one of a version of Kubernetes."""
    gates = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
    on = gates_of(version).but(*gates)
    profile = parse_configuration(configuration(plugins)).profiles[0]
    build = lambda handle: {profile.schedulerName: build_profile(profile, handle, gates=on)}  # noqa: E731
    async with scheduling(build=build, version=version, gates=gates) as story:
        world = GangWorld(story.scheduler, story.client, gangs, version)
        await world.define()
        yield world
