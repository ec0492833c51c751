"""Helpers for tests with devices: they observe resource claims, and publish devices of nodes."""

import asyncio
from contextlib import asynccontextmanager, suppress

from device_objects import device_class, resource_slice

from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from bayplan_devcluster.controllers.informers import Informer


class Devices:
    """Observes resource claims and their history, and publishes devices."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.view = Informer(cluster.client, RESOURCE_CLAIM)
        self.users_seen = {}
        """By claim: the number of its reservations in each of its versions."""
        self.allocated_twice = []
        self.view.listen(self._note)

    def _note(self, _, claim):
        if claim is not None:
            self.users_seen.setdefault(claim.metadata.name, []).append(len(users(claim)))
            others = {
                device
                for each in self.all
                if each.metadata.uid != claim.metadata.uid
                for device in allocated_devices(each)
            }
            self.allocated_twice += others.intersection(allocated_devices(claim))

    def one(self, name):
        return self.view.objects[f"default/{name}"]

    @property
    def all(self):
        return list(self.view.objects.values())

    async def offer(self, node, *devices, **slice_fields):
        await self._cluster.add_node(node)
        if devices:
            await self.slice(node, *devices, **slice_fields)

    async def slice(self, node, *devices, **fields):
        await self._cluster.client.create(RESOURCE_SLICE, resource_slice(node, *devices, **fields))

    async def create(self, kind, document):
        await self._cluster.client.create(kind, document, "default")

    async def clear(self):
        """Deletes what an earlier test left on a shared server."""
        for kind in (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE, DEVICE_CLASS):
            await self._cluster.client.request("DELETE", kind.path("default" if kind.namespaced else None))
        await self._cluster.observer.until(lambda: not self.all)
        self.users_seen.clear()


@asynccontextmanager
async def devices_of(cluster):
    """Creates a device class, and checks at the end that no device was allocated to two claims at once."""
    devices = Devices(cluster)
    following = asyncio.create_task(devices.view.run())
    try:
        await devices.view.synced.wait()
        await devices.clear()
        await cluster.client.create(DEVICE_CLASS, device_class())
        yield devices
        assert not devices.allocated_twice
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def users(claim):
    return [user.name for user in (claim.status.reservedFor if claim.status else None) or ()]


def allocated_devices(claim):
    """The devices allocated to a claim, as pool/device."""
    allocation = claim.status.allocation if claim.status else None
    return [f"{each.pool}/{each.device}" for each in allocation.devices.results] if allocation else []
