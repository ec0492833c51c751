"""A scheduler on an API server in memory, in virtual time, and what the users of the cluster do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar

import pytest

from bayplan.core.api.coscheduling import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL
from bayplan.core.api.kinds import COMPOSITE_POD_GROUP, GATED_KINDS, NODE, POD, Kind
from bayplan.core.config import default_profile
from bayplan.core.versions import OLDEST, Version, gates_of
from bayplan.running.provisioning.desk import Desk
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.service.leader_election import Leadership
from bayplan.running.service.scheduler import BuildProfiles, Scheduler
from bayplan.running.service.settings import Peers, Settings
from bayplan.testing.in_memory import load, make_client, stored
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.in_memory import InMemoryClient

T = TypeVar("T")
NAME = "default-scheduler"
SETTLED = 30.0
"""Seconds after which nothing changes any more: three times the longest backoff."""


def in_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, and return its result."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


def loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The hook `pytest_asyncio_loop_factories`: tests with the fixture `here` run in virtual time."""
    in_virtual_time = "here" in getattr(item, "fixturenames", ())
    return {"virtual": VirtualTime} if in_virtual_time else {"real": asyncio.new_event_loop}


class Story:
    """The cluster. What is created is loaded: it isn't a request of the client, whose requests are recorded."""

    def __init__(self, client: InMemoryClient, scheduler: Scheduler, version: Version = OLDEST) -> None:
        self.client, self.scheduler, self.version = client, scheduler, version
        self.group_kind = next(kind for kind in GATED_KINDS[version] if kind.kind == "PodGroup")

    async def create(self, kind: Kind, document: dict[str, Any]) -> None:
        load(self.client.server, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
        await asyncio.sleep(0)

    async def add_node(self, name: str, cpu: str = "2", **labels: str) -> None:
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        metadata = {"name": name, "labels": labels}
        await self.create(NODE, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})

    async def add_group(
        self, name: str, least: int | None = None, topology: str | None = None, *, pods: Sequence[str] = (), **spec: Any
    ) -> None:
        """Create a Kubernetes PodGroup, a gang if `least` is given, and `pods` of it."""
        policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
        await self._add_group(self.group_kind, name, policy, topology, spec)
        await self.add(*pods, of=name, priority=spec.get("priority"))

    async def add_composite(
        self, name: str, least: int | None = None, topology: str | None = None, **spec: Any
    ) -> None:
        """Create a CompositePodGroup, a gang of groups if `least` is given."""
        policy = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
        await self._add_group(COMPOSITE_POD_GROUP, name, policy, topology, spec)

    async def _add_group(
        self, kind: Kind, name: str, policy: dict[str, Any], topology: str | None, spec: dict[str, Any]
    ) -> None:
        """Create a group. `spec`: more fields; `parent` is the name of the group above it."""
        parent = spec.pop("parent", None)
        above: dict[str, Any] = {"parentCompositePodGroupName": parent} if parent else {}
        if parent or kind is COMPOSITE_POD_GROUP:
            above["workloadRef"] = {"workloadName": "work", "templateName": name}
        constraints = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
        spec = {"schedulingPolicy": policy, **constraints, **above, **spec}
        await self.create(kind, {"metadata": {"name": name, "generation": 1}, "spec": spec})

    async def add(
        self, *names: str, least: int | None = None, of: str | None = None, cpu: str = "1", by: str = NAME, **spec: Any
    ) -> None:
        """Create pods for the scheduler `by`: of the PodGroup `of`, or of the gang "crew" with labels that say `least`.

        They are gone once they are deleted, as there is no kubelet.
        """
        labels = {} if least is None else {LIGHTWEIGHT_LABEL: "crew", MIN_AVAILABLE_LABEL: str(least)}
        group = {} if of is None else {"schedulingGroup": {"podGroupName": of}}
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        spec = {"containers": containers, "schedulerName": by, "terminationGracePeriodSeconds": 0, **group, **spec}
        for name in names:
            await self.create(POD, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    async def attempt(self, *names: str, **fields: Any) -> None:
        """Create pods as `add` does, and wait until nothing changes any more."""
        await self.add(*names, **fields)
        await self.settle()

    async def attempt_group(self, *arguments: Any, **fields: Any) -> None:
        """Create a PodGroup and pods as `add_group` does, and wait until nothing changes any more."""
        await self.add_group(*arguments, **fields)
        await self.settle()

    async def delete(self, name: str) -> None:
        await self.client.delete(POD, name, "default")

    async def settle(self, seconds: float = SETTLED) -> None:
        await asyncio.sleep(seconds)

    def nodes(self) -> dict[str, str]:
        """pod -> node, for bound pods."""
        pods = stored(self.client.server, POD)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}

    def reasons(self) -> dict[str, str]:
        """pod -> the message of its condition, for pending pods."""
        return {
            pod["metadata"]["name"]: pod["status"]["conditions"][0]["message"]
            for pod in stored(self.client.server, POD)
            if not pod["spec"].get("nodeName") and pod["status"].get("conditions")
        }

    async def condition(self, group: str, kind: Kind | None = None) -> tuple[str, str] | None:
        """Reason and message of the condition of a PodGroup, or of a group of another kind."""
        found = await self.client.get(kind or self.group_kind, group, "default")
        conditions = (found.status.conditions if found.status else None) or ()
        return next(((condition.reason, condition.message) for condition in conditions), None)

    def nothing_is_held(self) -> None:
        assert self.scheduler.state.assumed_count == 0
        assert len(self.scheduler.waiting) == 0
        assert self.scheduler.queue.pending_pods().in_flight == 0

    def evicted(self) -> set[str]:
        """The pods that the scheduler has deleted: only its deletions have a body here."""
        return {sent.info.name for sent in self.client.transport.sent("delete") if sent.document}


@asynccontextmanager
async def scheduling(
    *objects: Any,
    plugins: Sequence[Any] = (),
    gates: Sequence[str] = (),
    version: Version = OLDEST,
    profiles: Sequence[str] = (NAME,),
    build: BuildProfiles | None = None,
    recorder: DecisionRecorder | None = None,
    provisioning: Desk | None = None,
    client: InMemoryClient | None = None,
    leadership: Leadership | None = None,
) -> AsyncIterator[Story]:
    """Run a scheduler on these objects until the end of the block, on the event loop's clock. It has synced.

    `client`: of an API server that there is already, in place of one with these objects.

    Its profiles have the default plugins, `plugins` and those of the feature `gates`, unless `build` returns others. It
    and the API server have a `version` of Kubernetes.
    """
    loop: Any = asyncio.get_running_loop()
    on = gates_of(version).but(*gates)
    default: BuildProfiles = lambda handle: {name: default_profile(name, handle, plugins, on) for name in profiles}  # noqa: E731
    made = make_client(*objects, clock=loop, version=version, gates=on) if client is None else nullcontext(client)
    async with made as its_client:
        peers = Peers(None, leadership, None, recorder, provisioning)
        scheduler = Scheduler(its_client, build or default, Settings(seed=0, clock=loop), peers)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            try:
                await scheduler.synced.wait()
                yield Story(its_client, scheduler, version)
            finally:
                stop.set()


@pytest.fixture
async def here(request: pytest.FixtureRequest) -> AsyncIterator[Story]:
    """A scheduler as the test's mark `scheduler(...)` says. At the end, nothing is assumed, waits or is in flight."""
    arguments: dict[str, Any] = {}
    for mark in reversed([*request.node.iter_markers("scheduler")]):  # the test's mark comes after its module's
        arguments |= mark.kwargs
    async with scheduling(**arguments) as story:
        yield story
        story.nothing_is_held()
