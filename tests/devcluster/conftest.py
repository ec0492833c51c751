"""A world for tests of controllers and kubelets: an embedded cluster on a manual clock, and a trivial binder."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.binding import bind_all
from tests.support.waiting import until

from bayplan.client import PatchType
from bayplan.core.api.kinds import (
    CONTROLLER_REVISION,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    STATEFUL_SET,
    STORAGE_CLASS,
    Kind,
)
from bayplan.core.expansion.daemon_pods import target_node
from bayplan.core.versions import OLDEST
from bayplan.foundations.clock import ManualClock
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.cluster import DevCluster

PATIENCE = 15.0
"""Seconds of the event loop's time after which a wait fails."""


class World:
    """The cluster, the views of its informers, and its clock."""

    def __init__(self, cluster: DevCluster, clock: ManualClock) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = clock
        self.views = {kind: cluster.informers.of(kind) for kind in WATCHED}
        self._nodes = itertools.cycle(f"node-{number}" for number in range(3))
        self.binding = True

    def all(self, kind: Kind, **labels: str) -> list[Any]:
        """The objects of a kind with these labels, in the view of the cluster's components."""
        wanted = {key.replace("_", "-"): value for key, value in labels.items()}.items()
        return [one for one in self.views[kind].objects.values() if wanted <= (one.metadata.labels or {}).items()]

    def one(self, kind: Kind, name: str) -> Any:
        """An object in the default namespace or without a namespace."""
        return self.views[kind].get(f"default/{name}" if kind.namespaced else name)

    async def create(self, kind: Kind, document: dict[str, Any]) -> Any:
        """Create an object, and wait until the view has it."""
        created = await self.client.create(kind, document)
        await self.cluster.informers.of(kind).observe([created])
        return created

    async def patch(self, kind: Kind, name: str, patch: dict[str, Any]) -> Any:
        """Patch an object in the default namespace or without one, and wait until the view has it."""
        namespace = "default" if kind.namespaced else None
        changed = await self.client.patch(kind, name, patch, namespace, type=PatchType.STRATEGIC)
        await self.cluster.informers.of(kind).observe([changed])
        return changed

    async def until(self, check: Callable[[], Any], *, step: float = 0.0) -> Any:
        """Wait until the check succeeds. The cluster's clock advances by `step` seconds before each check."""

        def checked() -> Any:
            if not (found := check()):
                self.clock.advance(step)
            return found

        return await until(checked, within=PATIENCE, step=0.005)

    async def settle(self, seconds: float, *, step: float = 1.0) -> None:
        """Advance the clock in steps, and let all components work after each."""
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            await asyncio.sleep(0.01)

    async def bind_pods(self) -> None:
        """Bind all unscheduled pods, to the node that they are made for or to the nodes in turn, until cancelled."""
        objects, choose = self.views[POD].objects, lambda pod: target_node(pod) or next(self._nodes)
        await bind_all(self.client, objects, choose, lambda: self.binding, step=0.005)


WATCHED = (
    CONTROLLER_REVISION,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    STATEFUL_SET,
    STORAGE_CLASS,
)


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests of the world, which uses no sockets, on virtual time."""
    uses_world = "world" in getattr(item, "fixturenames", ())
    return {"virtual": VirtualTime} if uses_world else {"real": asyncio.new_event_loop}


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A cluster of three nodes. A test may name its version, or arguments, by parametrizing this fixture."""
    clock, given = ManualClock(), getattr(request, "param", OLDEST)
    arguments = given if isinstance(given, dict) else {"version": given}
    async with DevCluster(3, clock=clock, server=ApiServer(address=None, clock=clock, **arguments)) as cluster:
        world = World(cluster, clock)
        await cluster.nodes_ready()
        binder = asyncio.create_task(world.bind_pods())
        try:
            yield world
        finally:
            binder.cancel()
