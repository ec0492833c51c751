"""What a scheduler really does on an embedded cluster: on virtual time, with the controllers of volumes and claims."""

import asyncio
import random
from contextlib import asynccontextmanager

import msgspec

from bayplan.answers.insight.readiness import is_ready
from bayplan.client import ApiError
from bayplan.core.api.kinds import EVENT, KINDS, NODE, POD
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import default_profile
from bayplan.core.versions import DEFAULT_GATES, with_gangs
from bayplan.insight import Snapshot
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings
from bayplan.testing.in_memory import load, make_client, stored
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.disruption import DisruptionController
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.manager import ControllerManager
from bayplan_devcluster.controllers.persistent_volume import PersistentVolumeController
from bayplan_devcluster.controllers.resource_claims import ResourceClaimController

NAME = "default-scheduler"
GATES = with_gangs(DEFAULT_GATES)
QUIET = 25.0
"""Virtual seconds after which nothing happens any more: backoffs take up to 10."""
DECIDED = 0.2
"""Virtual seconds after which new pods have been attempted, and before they are attempted again."""
CONTROLLERS = (PersistentVolumeController, ResourceClaimController)


class FirstChoice(random.Random):
    """Chooses the first of the best nodes, so that ties have the same result everywhere."""

    def choice(self, seq):
        return seq[0]

    def randrange(self, start, stop=None, step=1):
        return 0 if stop is None else start


def really(objects, units=()):
    """What a scheduler does with these objects, and with units of more that are created one after the other.

    Returns the nodes of the pods that are left, and the notes of all events, by the names of the pods.
    """
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_happens(objects, units))


async def _happens(objects, units):
    async with running(objects) as (client, _):
        await asyncio.sleep(QUIET)
        for unit in units:
            load(client.server, *unit)
            await asyncio.sleep(DECIDED)
            if any(pod.status.nominatedNodeName and not pod.spec.nodeName for pod in (await client.list(POD)).items):
                await asyncio.sleep(QUIET)  # it preempts, and has another attempt after a backoff
        await asyncio.sleep(QUIET)
        nodes = {pod.metadata.name: pod.spec.nodeName for pod in (await client.list(POD)).items}
        notes = {}
        answer = await client.request("GET", EVENT.path())  # not decoded: events of controllers have no eventTime
        for event in msgspec.json.decode(answer)["items"]:
            notes.setdefault(event["regarding"]["name"], set()).add(event.get("note"))
        return nodes, notes


def really_drained(objects, groups, *, remove=False):
    """What a scheduler does when groups of nodes are cordoned, and drained one group after the other.

    Like kubectl, it evicts all pods at the same time, and evicts those again that budgets protect, until this leads no
    further. A controller replaces every pod of the ReplicaSet `rs` that is gone, and pods with a node are ready at
    once. Returns the cluster before that as a snapshot, for each pod that moved the node of the last pod in its place,
    and the pods that were not evicted.
    `remove`: nodes are deleted once they are drained.
    """
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_drains(objects, groups, remove))


async def _drains(objects, groups, remove):
    async with running(objects, DisruptionController) as (client, _):
        controller = Controller(client)
        await controller.replace_until_quiet()
        controller.origins.clear()
        snapshot = Snapshot.of([document for kind in KINDS for document in stored(client.server, kind)])
        for name in (name for group in groups for name in group):
            await client.patch(NODE, name, {"spec": {"unschedulable": True}})
        protected = []
        for group in groups:
            pods = await controller.pods()
            left = [pod for name in group for pod in pods if pod.spec.nodeName == name]
            evicted = True
            while evicted:
                gone = await asyncio.gather(*map(controller.evict, left))
                evicted = any(gone)
                left = [pod for pod, is_gone in zip(left, gone, strict=True) if not is_gone]
                await controller.replace_until_quiet()
            protected += [pod.metadata.name for pod in left]
            for name in group if remove else ():
                await client.delete(NODE, name)
        nodes = {pod.metadata.name: pod.spec.nodeName for pod in await controller.pods()}
        moved = {origin: nodes.get(name) for name, origin in controller.origins.items() if name in nodes}
        return snapshot, moved, protected


class Controller:
    """Makes a pod like each one of the ReplicaSet that is gone. `origins`: the first pod in the place of each."""

    def __init__(self, client):
        self.origins = {}
        self._client = client
        self._alive = {}
        self._made = 0

    async def pods(self):
        return sorted((await self._client.list(POD)).items, key=lambda pod: pod.metadata.name)

    async def evict(self, pod):
        """Evict a pod and replace it. Returns False if its budgets don't allow that, and True if it is gone already.

        Whether the scheduler or the controller sees first that a pod is gone is a race, and so is the order in which
        pods are replaced. Here, the controller always is first, and replaces pods in the order of their evictions.
        """
        try:
            await self._client.evict("default", pod.metadata.name, uid=pod.metadata.uid)
        except ApiError as error:
            if error.status == 404:
                return True
            if error.status not in {429, 500}:  # 500: more than one budget
                raise
            return False
        if self._alive.pop(pod.metadata.name).metadata.ownerReferences:
            self._create_like(pod)
        return True

    async def replace_until_quiet(self):
        changed = True
        while changed:
            changed = await self._replace()
            if not changed:
                await asyncio.sleep(QUIET)
                changed = await self._replace() or await self._start_pods()

    async def _replace(self):
        """Replace the pods that are gone. Returns whether any was."""
        now = {pod.metadata.name: pod for pod in await self.pods()}
        gone = [pod for name, pod in self._alive.items() if name not in now]
        self._alive = now
        for pod in gone:
            if pod.metadata.ownerReferences:
                self._create_like(pod)
        return bool(gone)

    async def _start_pods(self):
        """Report pods with a node as ready, as kubelets do. Returns whether any was not."""
        conditions = [{"type": "Ready", "status": "True"}]
        new = [pod for pod in await self.pods() if pod.spec.nodeName and not is_ready(PodInfo(pod))]
        for pod in new:
            status = {"phase": "Running", "conditions": conditions}
            await self._client.patch(POD, pod.metadata.name, {"status": status}, "default", subresource="status")
        return bool(new)

    def _create_like(self, pod):
        self._made += 1
        name = f"rs-{self._made:05}"
        document = msgspec.json.decode(encode(pod))
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        metadata = {key: document["metadata"][key] for key in ("labels", "ownerReferences", "namespace")}
        created = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        load(self._client.server, created)
        self._alive[name] = pod
        self.origins[name] = self.origins.pop(pod.metadata.name, pod.metadata.name)


@asynccontextmanager
async def running(objects, *controllers, build=None, gates=GATES):
    """A client of a cluster with a scheduler, and the scheduler. `build` makes its profile from a handle."""
    loop, build = asyncio.get_running_loop(), build or (lambda handle: default_profile(NAME, handle, (), gates))
    async with make_client(*objects, clock=loop, version=gates.version) as client:
        scheduler = Scheduler(client, lambda handle: {NAME: build(handle)}, Settings(clock=loop))
        scheduler._attempts._rng = FirstChoice()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            informers = Informers(client)
            kinds = {"informers": informers, "taint_rules": client.server.taint_rules}
            manager = ControllerManager(client, loop, [*CONTROLLERS, *controllers], **kinds)
            running = [tasks.create_task(part.run()) for part in (informers, manager)]
            try:
                await scheduler.synced.wait()
                yield client, scheduler
            finally:
                stop.set()
                for task in running:
                    task.cancel()
