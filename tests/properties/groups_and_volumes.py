"""Random events about gangs and volumes, and what a new scheduler does with the cluster that they leave at rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from events_in_time import HOSTNAME, NAMES, PRIORITIES, Events, watch_placements
from tests.support.slow_selectors import slow_selectors
from tests.support.storage_documents import DRIVER, allowed, claim, storage_class, using, volume
from tests.support.stories import NAME, SETTLED, scheduling

from bayplan.core.api.kinds import (
    CSI_NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
)
from bayplan.core.config import default_profile
from bayplan.core.queue import Place
from bayplan.core.versions import gates_of
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings
from bayplan.testing.in_memory import stored
from bayplan_devcluster.controllers.csi_provisioner import CsiProvisioner
from bayplan_devcluster.controllers.manager import ControllerManager
from bayplan_devcluster.controllers.persistent_volume import PersistentVolumeController
from bayplan_devcluster.controllers.storage_protection import ClaimProtectionController, VolumeProtectionController
from bayplan_devcluster.in_memory import InMemoryClient

VERSIONS = "1.36", "1.37"
GATES = {"1.36": ("GenericWorkload", "GangScheduling"), "1.37": ("GenericWorkload",)}
LONGEST = {"1.36": SETTLED, "1.37": 90.0}
"""Seconds after which nothing changes any more, by version: the backoff of a group is longer in 1.37."""
CLASSES = {
    "local": storage_class("local", provisioner="kubernetes.io/no-provisioner", late=True),
    "now": storage_class("now", provisioner="kubernetes.io/no-provisioner"),
    "made": storage_class("made", late=True),
    "narrow": storage_class("narrow", late=True, **allowed(HOSTNAME, "n0", "n1")),
}
CLAIMS = ["c0", "c1", "c2", "c3", "c4", "c5"]
GROUPS = ["g0", "g1", "g2"]
CONTROLLERS = PersistentVolumeController, CsiProvisioner, ClaimProtectionController, VolumeProtectionController


class WiderEvents(Events):
    """Pods use volumes and belong to groups; what both need comes and goes, before its users and after them."""

    def __init__(self, rng, here, user):
        super().__init__(rng, here, user)
        self.with_volumes, self.in_groups = rng.choice([(0.0, 0.8), (0.7, 0.0), (0.3, 0.5), (0.6, 0.6)])
        self.shapes = {}
        """By group: what its pods are like, and how many they may be."""

    def usual(self):
        volumes = {
            self.add_claim: 6,
            self.delete_claim: 1,
            self.add_volume: 4,
            self.delete_volume: 1,
            self.change_class: 2,
            self.change_limit: 1,
        }
        groups = {
            self.add_group: 8,
            self.add_member: 5,
            self.delete_member: 3,
            self.delete_group: 1,
            self.change_least: 2,
        }
        return {
            **super().usual(),
            **(volumes if self.with_volumes else {}),
            **(groups if self.in_groups else {}),
        }

    async def prepare(self):
        await super().prepare()
        for storage in CLASSES.values():
            if self.rng.random() < 0.8:
                await self.user.create(STORAGE_CLASS, storage)
        for _ in CLAIMS[2:] if self.with_volumes else ():
            await self.add_claim()
            await self.add_volume()

    async def add_pod(self):
        await self.add_one(
            self.a_spec(), self.rng.choice([None, *GROUPS]) if self.rng.random() < self.in_groups else None
        )

    def a_spec(self):
        rng = self.rng
        spec = {"terminationGracePeriodSeconds": 30 if rng.random() < self.with_grace else 0}
        if rng.random() < self.with_volumes:
            spec |= using(*rng.sample(CLAIMS, rng.choice([1, 1, 2])))
        if rng.random() < 0.2:
            spec["nodeSelector"] = {HOSTNAME: rng.choice(NAMES)}
        spec["priorityClassName"] = list(PRIORITIES)[min(int(3 * rng.random() + 2.5 * self.progress), 4)]
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"cpu": rng.choice(["100m", "500m", "1", "1", "2"])}},
        }
        return {**spec, "containers": [container]}

    async def add_one(self, spec, group):
        self.number += 1
        if group is not None:
            spec = {**self.shapes.setdefault(group, spec), "schedulingGroup": {"podGroupName": group}}
        await self.here.create(POD, {"metadata": {"name": f"p{self.number}"}, "spec": spec})

    async def rest(self):
        """A backoff counts from the last turn of a group, of which 1.37 has several that are rejected."""
        await super().rest()
        await asyncio.sleep(LONGEST[self.here.version])

    # Groups

    async def add_group(self):
        """A group, before its members, between them or after them."""
        rng, name = self.rng, self.rng.choice(GROUPS)
        if name in self.groups():
            return
        least, spec = rng.choice([1, 2, 2, 3, 4]), self.shapes.setdefault(name, self.a_spec())
        policy = {"gang": {"minCount": least}} if rng.random() < 0.85 else {"basic": {}}
        missing = rng.choice([0, 0, 1, -1])
        members = [lambda: self.add_one(spec, name)] * max(least - missing, 1)
        first = {"metadata": {"name": name, "generation": 1}, "spec": {"schedulingPolicy": policy}}
        first["spec"]["priorityClassName"] = spec["priorityClassName"]
        steps = [lambda: self.here.create(self.here.group_kind, first), *members]
        if rng.random() < 0.3:
            rng.shuffle(steps)
        for step in steps:
            await step()
            await asyncio.sleep(rng.choice([0, 0, 0, 0.2]))

    async def add_member(self):
        if self.shapes:
            group = self.rng.choice(sorted(self.shapes))
            await self.add_one(self.shapes[group], group)

    async def delete_member(self):
        members = [pod for pod in stored(self.server, POD) if pod["spec"].get("schedulingGroup")]
        if members:
            await self.user.delete(POD, self.rng.choice(members)["metadata"]["name"], "default")

    async def delete_group(self):
        if groups := self.groups():
            name = self.rng.choice(sorted(groups))
            await self.user.patch(self.here.group_kind, name, {"metadata": {"finalizers": None}}, "default")
            await self.user.delete(self.here.group_kind, name, "default")

    async def change_least(self):
        """Other members are enough. In 1.36 a group is immutable: another one has its name."""
        if not (groups := self.groups()):
            return
        name = self.rng.choice(sorted(groups))
        policy = {"schedulingPolicy": {"gang": {"minCount": self.rng.choice([1, 2, 3])}}}
        if self.here.version == "1.36":
            await self.user.patch(self.here.group_kind, name, {"metadata": {"finalizers": None}}, "default")
            await self.user.delete(self.here.group_kind, name, "default")
            spec = policy | {"priorityClassName": self.shapes[name]["priorityClassName"]}
            await self.here.create(self.here.group_kind, {"metadata": {"name": name, "generation": 1}, "spec": spec})
        else:
            await self.user.patch(self.here.group_kind, name, {"spec": policy}, "default")

    def groups(self):
        return {group["metadata"]["name"] for group in stored(self.server, self.here.group_kind)}

    # Volumes

    async def add_claim(self):
        rng, known = self.rng, {each["metadata"]["name"] for each in stored(self.server, PERSISTENT_VOLUME_CLAIM)}
        of = rng.choice([*CLASSES, "local"])
        name = rng.choice([name for name in CLAIMS if name not in known] or CLAIMS)
        made = claim(name, of, rng.choice(["1Gi", "2Gi"]), rng.choice(["ReadWriteOnce"] * 3 + ["ReadWriteOncePod"]))
        await self.user.create(PERSISTENT_VOLUME_CLAIM, made)

    async def delete_claim(self):
        await self.user.delete(PERSISTENT_VOLUME_CLAIM, self.rng.choice(CLAIMS), "default")

    async def add_volume(self):
        rng, self.number = self.rng, self.number + 1
        modes = ["ReadWriteOnce", "ReadWriteOncePod"]
        made = volume(
            f"v{self.number}", rng.choice(["local", "now"]), rng.choice(["1Gi", "2Gi"]), *modes, node=rng.choice(NAMES)
        )
        await self.user.create(PERSISTENT_VOLUME, made)

    async def delete_volume(self):
        free = [each for each in stored(self.server, PERSISTENT_VOLUME) if not each["spec"].get("claimRef")]
        if free:
            await self.user.delete(PERSISTENT_VOLUME, self.rng.choice(free)["metadata"]["name"])

    async def change_class(self):
        """One appears; or one goes, and may come again."""
        name = self.rng.choice(list(CLASSES))
        if any(each["metadata"]["name"] == name for each in stored(self.server, STORAGE_CLASS)):
            if self.rng.random() < 0.3:
                await self.user.delete(STORAGE_CLASS, name)
        else:
            await self.user.create(STORAGE_CLASS, CLASSES[name])

    async def add_node(self, name):
        await super().add_node(name)
        if self.with_volumes:
            await self.change_limit(name)

    async def change_limit(self, name=""):
        """How many volumes of the driver a node can have."""
        name = name or self.rng.choice(NAMES)
        drivers = [
            {
                "name": DRIVER,
                "nodeID": name,
                "topologyKeys": [HOSTNAME],
                "allocatable": {"count": self.rng.choice([1, 2, 9])},
            }
        ]
        if any(each["metadata"]["name"] == name for each in stored(self.server, CSI_NODE)):
            await self.user.delete(CSI_NODE, name)
        await self.user.create(CSI_NODE, {"metadata": {"name": name}, "spec": {"drivers": drivers}})


@asynccontextmanager
async def controllers(user, loop) -> AsyncIterator[None]:
    """The controllers of volumes, which bind and make what the scheduler has chosen."""
    manager = ControllerManager(user, loop, CONTROLLERS)
    tasks = [asyncio.create_task(each.run()) for each in (manager.informers, manager)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wider_story(rng, length):
    """Run random events, and return what is wrong: what lower priorities took, and what a new scheduler does then."""
    version = rng.choice(VERSIONS)
    loop = asyncio.get_running_loop()
    async with scheduling(gates=GATES[version], version=version) as here:
        async with InMemoryClient(here.client.server) as user, controllers(user, loop):
            with slow_selectors(loop, 0.001):
                taken = watch_placements(here.scheduler)
                await WiderEvents(rng, here, user).run(length)
            waits, holds = waiting(here), holds_room_for_gated_pods(here.scheduler)
        server = here.client.server
    if holds:  # as upstream, a new scheduler doesn't know of that room
        return taken
    return [
        *taken,
        *[f"a new scheduler {what}, at rest {waits}" for what in await what_a_new_one_does(server, version)],
    ]


def waiting(here):
    """pod -> where it waits, and why."""
    queue = here.scheduler.queue
    return {each.pod.name: (each.place.value, each.gating_plugin, each.message) for each in queue}


def holds_room_for_gated_pods(scheduler):
    """Whether gated pods keep the nomination that they had before they were gated."""
    nominations = scheduler.state.nominations
    return any(each.place is Place.GATED and nominations.node_of(each.pod.uid) for each in scheduler.queue)


async def what_a_new_one_does(server, version):
    """What a scheduler binds and evicts that begins with this cluster."""
    loop = asyncio.get_running_loop()
    on = gates_of(version).but(*GATES[version])
    async with InMemoryClient(server) as user, InMemoryClient(server) as client, controllers(user, loop):
        scheduler = Scheduler(
            client, lambda handle: {NAME: default_profile(NAME, handle, (), on)}, Settings(seed=0, clock=loop)
        )
        stop = asyncio.Event()
        running = asyncio.create_task(scheduler.run(stop))
        await asyncio.sleep(LONGEST[version])
        stop.set()
        await running
        bindings = [each.info.name for each in client.transport.sent("create") if each.info.subresource == "binding"]
        evictions = [each.info.name for each in client.transport.sent("delete")]
    return [*(f"binds {name}" for name in bindings), *(f"evicts {name}" for name in evictions)]
