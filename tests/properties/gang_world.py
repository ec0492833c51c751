"""A whole scheduler on a server in this process, gangs that come and go, and what must hold of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, suppress
from itertools import cycle

from bayplan.api.custom_objects import CustomObject
from bayplan.api.kinds import NODE, POD, POD_GROUP, custom_kind
from bayplan.client import ApiError
from bayplan.config.loading import parse_configuration
from bayplan.config.profiles import build_profile
from bayplan.plugins.coscheduling.groups import (
    LIGHTWEIGHT_LABEL,
    MIN_AVAILABLE_LABEL,
    POD_GROUP_LABEL,
    POD_GROUPS,
)
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.in_memory import load, make_client, stored

_MOMENT = 0.01
SETTLED = 30.0
"""Seconds after which nothing goes on any more: three times the longest backoff."""
PLUGINS = ("Coscheduling", "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
OWN, IN_ONE_RACK = "PodGroup of Kubernetes' own", "PodGroup that stays in one rack"
_FORMS = (POD_GROUPS, LIGHTWEIGHT_LABEL, OWN, IN_ONE_RACK)
_RACK = "example.com/rack"


def configuration(plugins):
    multi_point = {"enabled": [{"name": name} for name in plugins]}
    queue_sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": multi_point, "queueSort": queue_sort}}],
    }


class GangWorld:
    """`gangs`: by name, how many members it needs at least, how many it has, and what each requests of cpu.

    A gang is a PodGroup of scheduler-plugins, exists by labels, or is a PodGroup of Kubernetes' own, perhaps with a
    topology constraint, by turns. Its members are made anew under new names, as a Job would. Two nodes make a rack.
    """

    def __init__(self, scheduler, client, gangs):
        self.scheduler, self.client, self.gangs = scheduler, client, gangs
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
                await self.create(POD_GROUP, {"metadata": metadata, "spec": spec})

    async def create(self, kind, document):
        load(self.client.server, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
        await asyncio.sleep(0)

    async def pass_time(self, seconds):
        await asyncio.sleep(seconds)

    async def add_node(self, name, cpu):
        room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        if name not in {node["metadata"]["name"] for node in stored(self.client.server, NODE)}:
            metadata = {"name": name, "labels": {_RACK: rack_of(name)}}
            await self.create(NODE, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})

    async def fail_node(self, name):
        """The node is gone, and its pods with it, but for one that is being bound to it: nobody collects that here."""
        self.lost[name] += 1
        with suppress(ApiError):
            await self.client.delete(NODE, name)
        for pod in self.pods():
            if pod["spec"].get("nodeName") == name:
                await self.delete(pod)

    async def add_member(self, gang):
        """One more member, unless all are there."""
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

    async def delete_member(self, gang, index, *, at_leisure):
        """One member is gone; `at_leisure`: not while the scheduler decides about it, or has not heard of it yet."""
        if at_leisure:
            await self.pass_time(_MOMENT)
        members = self.members(gang)
        if members:
            await self.delete(members[index % len(members)], at_leisure=at_leisure)

    async def delete(self, pod, *, at_leisure=False):
        """A pod is gone. One that the scheduler may have counted on, or that was bound, counts as lost to its gang."""
        gang, metadata = self.gang_of(pod), pod["metadata"]
        if gang is not None and (not at_leisure or self.scheduler.state.pod(metadata["uid"]) is not None):
            self.lost[gang] += 1
        with suppress(ApiError):  # it may have been evicted meanwhile
            await self.client.delete(POD, metadata["name"])
        if at_leisure:
            await self.pass_time(_MOMENT)

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

    # What must hold once everything has settled

    async def settle(self):
        """Let everything come to rest, and check it."""
        await self.pass_time(SETTLED)
        self._nothing_is_held()
        self._nobody_is_bound_alone()
        self._nobody_waits_in_vain()
        self._nobody_was_evicted_in_vain()
        self._racks_are_kept_to()
        self._groups_say_what_came_of_them()
        self.bound_before = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("nodeName")}
        self.lost.clear()
        self.evicted = self._evictions()

    def _nothing_is_held(self):
        state, queue = self.scheduler.state, self.scheduler.queue
        assert state.assumed_count == 0
        assert len(self.scheduler.waiting) == 0
        assert queue.pending_pods().in_flight == 0
        on_nodes = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("nodeName")}
        assert {pod.uid for row in state.table.pods for pod in row.values()} == on_nodes

    def _nobody_is_bound_alone(self):
        """Whenever members were bound, there were enough of them, with those that were lost since."""
        for gang, (least, _, _) in self.gangs.items():
            bound = self.bound(gang)
            new = [pod for pod in bound if pod["metadata"]["uid"] not in self.bound_before]
            assert not new or len(bound) + self.lost[gang] >= least, f"{gang}: {len(bound)} of {least} bound"

    def _nobody_waits_in_vain(self):
        """No gang waits that would fit. Members of one gang are all alike, so that it is a matter of counting."""
        for gang, (least, _, cpu) in self.gangs.items():
            members, bound = self.members(gang), self.bound(gang)
            needed = max(least - len(bound), 1)
            if len(members) < least or len(bound) == len(members) or self._has_lost_its_rack(gang):
                continue
            room = self._room_for(gang, cpu)
            assert room < needed, f"{gang} waits for {needed}, and there is room for {room}"
            for pod in members:
                if not pod["spec"].get("nodeName"):
                    conditions = pod["status"].get("conditions") or ()
                    assert any(each.get("reason") == "Unschedulable" and each["message"] for each in conditions)

    def _nobody_was_evicted_in_vain(self):
        """Pods of lower priority go for those only that are there now, or were lost since."""
        if self._evictions() > self.evicted:
            bound = {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"].get("nodeName")}
            assert bound - self.bound_before or self.lost.total()

    def _evictions(self):
        """How many pods the scheduler has asked to be deleted: with their uid, which nobody else does here."""
        deletions = self.client.transport.sent("delete")
        return sum("preconditions" in (each.document or {}) for each in deletions)

    def _racks_are_kept_to(self):
        for gang, form in self.forms.items():
            if form == IN_ONE_RACK:
                assert len(self._racks(gang)) <= 1, f"{gang} is in {self._racks(gang)}"

    def _groups_say_what_came_of_them(self):
        """One that is placed says so for good; one that was tried and was not says why."""
        groups = {group["metadata"]["name"]: group for group in stored(self.client.server, POD_GROUP)}
        for gang, (least, _, _) in self.gangs.items():
            pod_group = groups.get(gang)
            if pod_group is None:
                continue
            conditions = (pod_group.get("status") or {}).get("conditions") or ()
            said = {each["type"]: (each["status"], each["reason"]) for each in conditions}.get("PodGroupScheduled")
            if len(self.bound(gang)) >= least:
                assert said == ("True", "Scheduled"), gang
            elif len(self.members(gang)) >= least:
                assert said is not None, gang
                assert said[0] == "True" or conditions[0]["message"].startswith(f"gang {gang}: "), gang

    def _has_lost_its_rack(self, gang):
        """Whether a member is on a node that is gone: nobody knows in which rack the others have to be."""
        nodes = self.scheduler.state.nodes
        there = {nodes.name(position) for position in range(len(nodes)) if nodes.live[position]}
        return self.forms[gang] == IN_ONE_RACK and not {pod["spec"]["nodeName"] for pod in self.bound(gang)} <= there

    def _racks(self, gang):
        return {rack_of(pod["spec"]["nodeName"]) for pod in self.bound(gang)}

    def _room_for(self, gang, cpu):
        """How many members of a gang have room: in the best rack, or in theirs, if they have to stay in one."""
        nodes = self.scheduler.state.nodes
        room = Counter()
        together = self.forms[gang] == IN_ONE_RACK
        for position in range(len(nodes)):
            if nodes.live[position]:
                staying = (pod for pod in nodes.pods(position) if pod.priority >= 0 or together)
                taken = sum(pod.requested["cpu"] for pod in staying)
                free = int(nodes.allocatable("cpu")[position]) - taken
                room[rack_of(nodes.name(position))] += free // (cpu * 1000)
        racks = self._racks(gang) or room.keys()
        return max((room[rack] for rack in racks), default=0) if together else room.total()


def rack_of(node):
    return "one" if node in {"a", "b"} else "two"


@asynccontextmanager
async def gang_world(gangs, plugins=PLUGINS):
    """A scheduler that knows its cluster and decides, on the loop's own time."""
    loop = asyncio.get_running_loop()
    profile = parse_configuration(configuration(plugins)).profiles[0]
    async with make_client(clock=loop) as client:
        scheduler = Scheduler(
            client,
            lambda handle: {profile.schedulerName: build_profile(profile, handle)},
            Settings(seed=0),
            clock=loop,
        )
        world = GangWorld(scheduler, client, gangs)
        await world.define()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            try:
                await scheduler.synced.wait()
                yield world
            finally:
                stop.set()
