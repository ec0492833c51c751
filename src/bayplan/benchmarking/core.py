"""The place `core`: objects in memory, and a scheduler in the same process, without an API server.

Only the scheduler's work is measured: it decodes and queues pods, handles events, decides, assumes and reserves. What
an API server and a client would do isn't, and seconds in which the scheduler would wait are skipped.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec

from bayplan.answers.simulation.writes import StoreClient
from bayplan.benchmarking import core_objects
from bayplan.benchmarking.core_scheduler import CoreScheduler, finished
from bayplan.benchmarking.measurement import RESULTS, Counters, KnownDurations, Measurement
from bayplan.benchmarking.place import ChangeSignal, Document
from bayplan.benchmarking.pods import SeenPod, SeenPods
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workload_run import Report, check, run_operations
from bayplan.benchmarking.workloads import Workload
from bayplan.core.api import kinds
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profiles, default_profile, load_configuration
from bayplan.core.devices.claims import allocation_of
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.binding_runner import run_pre_bind, run_pre_bind_pre_flight, run_reserve
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import Code
from bayplan.core.scheduling import decide
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.foundations.collector import Collector
from bayplan.testing.virtual_time import VirtualTime

DEFAULT_SCHEDULER = "default-scheduler"

_TURNS = 16
"""After how many pods other tasks run. Each switch costs the next decision its warm caches."""

Profiler = Callable[[], AbstractContextManager[object]]
"""Makes a context in which a profiler records."""


def run_on_core(
    workload: Workload, report: Report = lambda _: None, profiler: Profiler = nullcontext
) -> list[Measurement]:
    """Run a workload in memory. `profiler` is entered for what is measured. Raises Unsupported and BenchmarkError."""
    check(workload)
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_run(workload, report, profiler))


async def _run(workload: Workload, report: Report, profiler: Profiler) -> list[Measurement]:
    core = Core(workload, profiler)
    scheduling = asyncio.create_task(core.scheduler.run())
    operating = asyncio.create_task(run_operations(workload, core, report=report))
    try:
        await asyncio.wait({scheduling, operating}, return_when=asyncio.FIRST_COMPLETED)
        if scheduling.done():
            scheduling.result()
        return operating.result()
    except BenchmarkError as error:
        problem = core.scheduler.problem()
        raise BenchmarkError(f"{error}; {problem}" if problem else str(error)) from None
    finally:
        for task in (scheduling, operating):
            task.cancel()
        await asyncio.gather(scheduling, operating, return_exceptions=True)


class Core:
    """A place in memory for one workload. It runs on an event loop of virtual time. `gates`: of its scheduler."""

    def __init__(
        self, workload: Workload, profiler: Profiler = nullcontext, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        self._loop, self._profiler = loop, profiler
        self._busy = 0.0
        self.changed = ChangeSignal()
        self.pods = SeenPods(self.clock, self.changed.notify)
        self._raw_pods: dict[str, bytes] = {}
        """As they were created or replaced, by key: without a node."""
        self._created = self._turns = 0
        state = ClusterState()
        self.objects = state.objects
        client = StoreClient(state.objects, self._write)
        self._owned = client.made
        """pod uid -> the objects that are deleted with the pod"""
        self.scheduler = CoreScheduler(
            state,
            client,
            loop,
            lambda handle: _profiles(workload, handle, gates),
            bound=self._see,
            rejected=self.pods.attempted,
            spend=self._spend,
        )

    # As a place

    def clock(self) -> float:
        """The seconds that the scheduler has worked."""
        return self._busy

    async def create(self, kind: Kind, documents: Iterable[Document], namespace: str | None = None) -> list[str]:
        """Create objects. The scheduler attempts each pod before the next one arrives."""
        names = []
        raws = []
        for document in documents:
            new = core_objects.stored(kind, document, namespace, self.number())
            names.append(new["metadata"]["name"])
            if kind is POD:
                raws.append(encode(self._with_claims(new)))
            else:
                self.store(kind, convert(kind.type, new))
        for raw in raws:
            self._put_pod(raw)
            await self._turn()
        return names

    def put_new_pod(self, document: Document, namespace: str) -> None:
        """Create a pod, which the scheduler does not attempt before it has its turn."""
        self._put_pod(encode(core_objects.stored(POD, document, namespace, self.number())))

    async def replace(self, kind: Kind, document: Document, namespace: str | None, subresource: str | None) -> None:
        """Replace an object in memory. Raises BenchmarkError for one that doesn't exist."""
        key = core_objects.key_of(namespace, document["metadata"]["name"])
        if key not in self.objects[kind]:
            raise BenchmarkError(f"there is no {kind.kind} {key}")
        if kind is POD:
            old, node = msgspec.json.decode(self._raw_pods[key]), self.objects[POD][key].node_name
            self._put_pod(encode(core_objects.replaced_pod(old, document, node, subresource, self.number())))
        else:
            self.store(kind, convert(kind.type, core_objects.stored(kind, document, namespace, self.number())))

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, *, at_once: bool = False) -> None:
        """Delete an object. There are no kubelets: a pod on a node with a grace period stays, terminating."""
        self.remove(kind, core_objects.key_of(namespace, name), at_once=at_once)

    async def node_names(self) -> list[str]:
        """The names of the nodes in memory."""
        return list(self.objects[NODE])

    async def allocate_claims(self, namespace: str | None) -> None:
        """Allocate each claim as for a pod that needs nothing else."""
        profile, state = self.scheduler.profiles[DEFAULT_SCHEDULER], self.scheduler.state
        claims, rng = self.objects[kinds.RESOURCE_CLAIM], random.Random(0)
        for number, (key, claim) in enumerate(tuple(claims.items())):
            if namespace not in {None, claim.metadata.namespace} or allocation_of(claim) is not None:
                continue
            pod = PodInfo.from_raw(core_objects.user_of(claim, number))
            decision = decide(profile, state, pod, rng)
            if not decision.node:
                raise BenchmarkError(f"no room for claim {key}: {decision.message}")
            assumed = state.assume(assumed_as(decision.cycle, pod, decision.node), decision.node)
            status = run_reserve(profile, decision.cycle, assumed, decision.node)
            if not status.rejected:
                plugins = run_pre_bind_pre_flight(profile, decision.cycle, assumed, decision.node)
                status = finished(run_pre_bind(plugins, decision.cycle, assumed, decision.node))
            state.remove_pod(pod.uid)
            if status.code is not Code.SUCCESS:
                raise BenchmarkError(f"claim {key} on node {decision.node}: {status.message}")
            allocated = claims[key]
            allocated.status.reservedFor = None
            self.store(kinds.RESOURCE_CLAIM, allocated)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Let the garbage collector work as in `bayplan run`."""
        collector = Collector()
        collector.begin()
        try:
            with self._profiler():
                yield
        finally:
            collector.end()
            gc.unfreeze()

    async def counters(self) -> Counters:
        """What the scheduler has counted; nothing is written."""
        return Counters({result: KnownDurations(tuple(self.scheduler.attempts[result])) for result in RESULTS})

    # As an API server

    def store(self, kind: Kind, obj: Any) -> None:
        """Store an object that isn't a pod, and report it to the scheduler."""
        namespace = obj.metadata.namespace if kind.namespaced else None
        self.scheduler.put(kind, core_objects.key_of(namespace, obj.metadata.name), obj)

    def remove(self, kind: Kind, key: str, *, at_once: bool = False) -> None:
        """Delete an object. A pod with finalizers, or with a grace period and a node, is only marked as terminating."""
        if kind is not POD:
            self.scheduler.removed(kind, key)
            return
        raw = self._raw_pods.get(key)
        if raw is None:
            return
        pod: PodInfo = self.objects[POD][key]
        document = msgspec.json.decode(raw)
        if core_objects.stays(document, pod.node_name, at_once=at_once):
            self._put_pod(encode(core_objects.terminating(document, pod.node_name, self._loop.now(), self.number())))
            return
        del self._raw_pods[key]
        self.scheduler.removed(POD, key)
        for owned_kind, owned in self._owned.pop(pod.uid, ()):
            self.scheduler.removed(owned_kind, owned)
        self.pods.remove(key)

    def _write(self, kind: Kind, key: str, obj: Any) -> None:
        """Store or delete what a plugin or an eviction writes."""
        if obj is None:
            self.remove(kind, key)
        else:
            self.store(kind, obj)

    def own(self, uid: str, kind: Kind, key: str) -> None:
        """Delete an object with its owner."""
        self._owned.setdefault(uid, []).append((kind, key))

    def number(self) -> int:
        """The number of the next version of an object."""
        self._created += 1
        return self._created

    # The scheduler

    async def _turn(self) -> None:
        """Let the scheduler attempt pods, and now and then other tasks run."""
        self._turns += 1
        if self.scheduler.work() or self._turns % _TURNS == 0:
            await asyncio.sleep(0)

    def _spend(self, seconds: float) -> None:
        self._busy += seconds
        self._loop.seconds += seconds

    def _see(self, pod: PodInfo) -> None:
        # An API server gives a gated pod the condition that other pods get after an attempt.
        self.pods.put(SeenPod(pod.namespace, pod.name, pod.labels, pod.node_name, bool(pod.scheduling_gates)))

    def _put_pod(self, raw: bytes) -> None:
        pod = self.scheduler.put_pod(raw)
        self._raw_pods[pod.key] = raw
        self._see(pod)

    def _with_claims(self, pod: Document) -> Document:
        """A pod with the claims that its templates ask for, which are created, as by their controller."""
        namespace, templates = pod["metadata"]["namespace"], self.objects[kinds.RESOURCE_CLAIM_TEMPLATE]
        statuses = []
        for reference in pod["spec"].get("resourceClaims") or ():
            name = reference.get("resourceClaimTemplateName")
            if not name:
                continue
            template = templates.get(core_objects.key_of(namespace, name))
            if template is None:
                raise BenchmarkError(f"no ResourceClaimTemplate {name} in namespace {namespace}")
            claim = core_objects.claim_for(pod, reference["name"], template)
            self.store(kinds.RESOURCE_CLAIM, claim)
            key = core_objects.key_of(namespace, claim.metadata.name)
            self.own(pod["metadata"]["uid"], kinds.RESOURCE_CLAIM, key)
            statuses.append({"name": reference["name"], "resourceClaimName": claim.metadata.name})
        return {**pod, "status": {**pod["status"], "resourceClaimStatuses": statuses}} if statuses else pod


def _profiles(workload: Workload, handle: Handle, gates: FeatureGates) -> Mapping[str, Profile]:
    if workload.scheduler_config is None:
        return {DEFAULT_SCHEDULER: default_profile(DEFAULT_SCHEDULER, handle, (), gates)}
    return build_profiles(load_configuration(workload.scheduler_config), handle, (), gates)
