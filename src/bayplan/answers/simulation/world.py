"""World: a cluster in memory on which the scheduler's decisions are carried out, and undone.

It decides with the same `attempt` as the service, and ends up where the service would: victims are gone, claims bound.
`move` makes it hold another snapshot, and reads only the objects whose bytes differ. `change` adds, replaces or removes
one object, as a watch event does. Each change can be undone, so `what_if` and `reset` cost as much as what was changed.
`version` is the same as long as decisions are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.answers.simulation.held_nominations import HeldNominations
from bayplan.answers.simulation.pending import PendingPodsOfWorld
from bayplan.answers.simulation.usual import USUAL_GATES, usual_configuration
from bayplan.answers.simulation.world_contents import Documents, NodesOfWorld, WorldContents
from bayplan.answers.simulation.writes import StoreClient
from bayplan.core.api.kinds import NODE, POD, RESOURCE_CLAIM, Kind
from bayplan.core.api.volumes import full_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.core.executor.handlers import Handlers, KindHandler, Receiver, SentNode
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.runtime import MoveOnEvent, Only
from bayplan.core.framework.calling import call
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.framework.status import PluginError
from bayplan.core.queue import QueueProfile, SchedulingQueue
from bayplan.core.queue.gates import run_pre_enqueue
from bayplan.core.queue.in_flight import Happened
from bayplan.core.queue.queued_pod import QueuedPod
from bayplan.core.queue.sort_keys import sort_key_of
from bayplan.core.scheduling import Options, Plan, Unit, attempt, run, unit_of
from bayplan.core.sharing import PodKey, SharedRun, Sharing
from bayplan.core.versions import FeatureGates
from bayplan.foundations.collector import collector_paused
from bayplan.foundations.failures import Failures

_KEYS = 256
"""For how many keys of pods results are kept per profile: questions are about pods of many workloads in turn."""


class World:
    """A cluster, and the profiles that schedule its pods. Not for use in several threads.

    `configuration`: by default the profiles `default-scheduler` and `bayplan-scheduler`, with the default
    plugins and `plugins`. `seed` makes the choice among nodes with equal scores repeatable. Raises ConfigurationError
    or PluginLoadError.

    Attributes:
        pending: the pods without a node that have a profile here, by `namespace/name`; gated ones included.
        contents: the objects that `move` was given, and those that could not be read.
        version: increases with every change. Where it is the same, decisions are the same.
        rng: chooses among nodes with equal scores.
        queue_profiles, own_volumes, sharing: what simulations make their queues and attempts of. failures: of plugins.
        gates: the version of Kubernetes, and what is on in it.
        client: writes objects until `reset`. Plugins have it only while a pod is bound.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Sequence[ExtraPlugin] = (),
        gates: FeatureGates = USUAL_GATES,
        *,
        seed: int = 0,
    ) -> None:
        self.gates = gates
        self.state = ClusterState()
        self.handle = OfflineHandle(self.state)
        self.client: Any = StoreClient(self.state.objects, self.change)
        if configuration is None:
            configuration = usual_configuration(plugins, gates)
        self.profiles: Mapping[str, Profile] = build_profiles(configuration, self.handle, plugins, gates)
        held = HeldNominations(self.state)
        self.profiles_without_preemption = {
            name: replace(profile, plugins={**profile.plugins, Point.POST_FILTER: (held,)})
            for name, profile in self.profiles.items()
        }
        self.queue_profiles = {name: QueueProfile.of(profile) for name, profile in self.profiles.items()}
        self.own_volumes = own_volumes(self.state.objects)
        self._pending = PendingPodsOfWorld(self.state.nominations)
        self.pending = self._pending.by_key
        self.contents = WorldContents()
        self.version = 0
        self.failures = Failures()
        self._seed = seed
        self.rng = random.Random(seed)
        self.sharing = {name: Sharing(profile, _KEYS) for name, profile in self.profiles.items()}
        self._undo: list[Callable[[], object]] = []
        self._changed: dict[tuple[Kind, str], None] = {}
        """The objects that were changed since `move`."""
        self._happened: list[Happened] = []
        """The events since `move`, and those that `undo_to` leads to."""
        self._moves: list[MoveOnEvent] = []
        self._putting = False
        self._unsorted: set[str] = set()
        """Nodes to which pods were added, so that their order may depend on the past."""
        receiver = Receiver(
            state=self.state,
            pending=self._pending,
            waiting=self.handle.waiting_pods,
            intake=Intake(lambda: None),
            profiles=self.profiles,
            now=lambda: 0.0,
            move=self._happen,
            forget=lambda _: None,
            gates=gates,
        )
        self._handlers = Handlers(receiver, nodes=NodesOfWorld(receiver, self.contents.leave_out))
        self.state.objects[RESOURCE_CLAIM].listen(self._claim_changed)

    # Contents

    def move(self, documents: Documents, now: datetime | None = None) -> None:
        """Hold exactly these objects from now on; simulated changes are undone first.

        Only the difference is applied: objects with the same bytes as before are not read again. `now`: the time of
        the plugins' clock.
        """
        self.reset()
        if now is not None:
            self.handle.time = now
        with collector_paused():
            for kind, key, obj in self.contents.replace(documents, self.handle.watched):
                self._put(kind, key, obj)
        self._sort_pods()

    def add(self, kind: Kind, key: str, raw: bytes) -> None:
        """Add or replace an object, given as JSON. Kinds that no plugin reads are ignored. Raises ValueError."""
        if kind in (POD, NODE) or kind in self.handle.watched:
            self.change(kind, key, self.contents.decode(kind, raw))

    def change(self, kind: Kind, key: str, obj: Any) -> None:
        """Add or replace an object until `reset`, or the end of `what_if`; remove it if `obj` is None.

        Pods are `PodInfo`s, other objects have the type of their kind.
        """
        before = self.state.objects[kind].known(key)
        if isinstance(obj, PodInfo) and obj is not before:
            obj.resource_version = ""  # not the version that the API server has, which the queue would know already
        self._undo.append(partial(self._put, kind, key, before))
        self._changed[kind, key] = None
        self._put(kind, key, obj)

    def changed_objects(self) -> Iterator[tuple[Kind, str, Any]]:
        """Yield the objects that were changed since `move` or `keep`, as they are now; None for one that is gone."""
        for kind, key in self._changed:
            yield kind, key, self.state.objects[kind].known(key)

    def _claim_changed(self, before: Any, now: Any) -> None:
        """Record what DynamicResources changes by itself: without a client, PostFilter frees claims directly."""
        if not self._putting:
            key = full_name(now if before is None else before)
            self._changed[RESOURCE_CLAIM, key] = None
            self.changed(partial(self._put, RESOURCE_CLAIM, key, before))

    def _put(self, kind: Kind, key: str, obj: Any) -> None:
        """Handle a change as the service does when the API server reports it."""
        self.version += 1
        self._putting = True
        try:
            handler = self._handlers.of(kind)
            if kind is POD:
                self._put_pod(handler, key, obj)
            elif obj is None:
                handler.removed(key)
            else:
                handler.put(key, SentNode(obj) if kind is NODE else obj)
        finally:
            self._putting = False

    def _put_pod(self, handler: KindHandler, key: str, pod: PodInfo | None) -> None:
        old = self.pod(key)
        if old is not None and (pod is None or pod.terminated or pod.uid != old.uid):
            handler.removed(key)
        if pod is None or pod.terminated:
            return
        handler.put(key, pod)
        if pod.node_name:
            self._pending.bound(pod.uid)
            self._unsorted.add(pod.node_name)

    def _happen(self, event: ClusterEvent, old: object, new: object, only: Only | None = None) -> None:
        if self._undo:
            self._happened.append(Happened(event, old, new))
            for move in self._moves:
                move(event, old, new, only)

    def events_so_far(self) -> int:
        """Return how many events there were, for `happened_since`."""
        return len(self._happened)

    def happened_since(self, before: int) -> Sequence[Happened]:
        """Return the events after the first `before` ones."""
        return self._happened[before:]

    @contextmanager
    def followed_by(self, queue: SchedulingQueue, move: MoveOnEvent, now: Callable[[], float]) -> Iterator[None]:
        """Tell a queue about changes of its pods, and `move` about events, while the context is open."""
        self._moves.append(move)
        try:
            with self._pending.followed_by(queue, now):
                yield
        finally:
            self._moves.remove(move)

    @contextmanager
    def unfollowed(self) -> Iterator[None]:
        """A what-if that no simulation learns about. The choices among equal nodes after it don't depend on it."""
        moves, self._moves = self._moves, []
        choices = self.rng.getstate()
        try:
            with self._pending.unfollowed(), self.what_if():
                yield
        finally:
            self._moves = moves
            self.rng.setstate(choices)

    def pod(self, key: str) -> PodInfo | None:
        """Return a pod, with or without a node, by `namespace/name`. Terminated pods are unknown."""
        pod: PodInfo | None = self.state.objects[POD].get(key)
        return pod

    # What-ifs

    @contextmanager
    def what_if(self) -> Iterator[None]:
        """Undo all changes that are made in the context, decisions included. What-ifs may be nested."""
        mark = len(self._undo)
        try:
            yield
        finally:
            self.undo_to(mark)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A what-if in which failures of plugins are not logged, because they are part of what is tried."""
        failures, self.failures = self.failures, Failures(logged=False)
        try:
            with self.what_if():
                yield
        finally:
            self.failures = failures

    def mark(self) -> int:
        """Return the current point in the sequence of changes, for `undo_to`."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Undo all changes since `mark`, the latest first."""
        while len(self._undo) > mark:
            self._undo.pop()()
        if not self._undo:
            self._sort_pods()
            self._forget_changes()

    def keep(self) -> None:
        """Keep all changes so far: they are never undone, and take no memory. Not for use in a what-if."""
        self._undo.clear()
        self._unsorted.clear()
        self._forget_changes()

    def _forget_changes(self) -> None:
        self._changed.clear()
        self._happened.clear()
        self.handle.events.clear()
        self.handle.activated.clear()
        self.handle.started.clear()

    def _sort_pods(self) -> None:
        """Order the pods of changed nodes by name: victims of a preemption with equal rank are chosen in this order."""
        table = self.state.table
        for name in self._unsorted:
            row = table.row_of.get(name)
            if row is not None:
                pods = table.pods[row]
                in_order = sorted(pods.items(), key=lambda item: item[1].key)
                pods.clear()
                pods.update(in_order)
        self._unsorted.clear()

    def reset(self) -> None:
        """Undo all changes since `move`, and seed the random generator again."""
        self.undo_to(0)
        self.rng.seed(self._seed)

    def reseed(self, seed: int) -> None:
        """Let the random generator begin with another seed from the next reset on."""
        self._seed = seed

    def changed(self, undo: Callable[[], object]) -> None:
        """Record a change of the state that was made directly, with the function that undoes it."""
        self.version += 1
        self._undo.append(undo)

    # Decisions

    def in_queue_order(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Sort pods as the scheduling queue does, those with equal keys by creation, then by name."""
        queued = [QueuedPod(pod, queued_at=_created(pod)) for pod in sorted(pods, key=lambda pod: pod.key)]
        plugin = next(iter(self.profiles.values())).at(Point.QUEUE_SORT)[0]
        return [each.pod for each in sorted(queued, key=sort_key_of(plugin.sort_key, self.failures))]

    def gate_of(self, pod: PodInfo) -> tuple[str, str] | None:
        """Return the PreEnqueue plugin that keeps a pod out of the queue, and its message; None if no plugin does."""
        queued = QueuedPod(pod, queued_at=0.0)
        gated = run_pre_enqueue(queued, self.profiles[pod.scheduler_name].at(Point.PRE_ENQUEUE), call, self.failures)
        return (queued.gating_plugin, queued.message) if gated else None

    def unit_of(self, pod: PodInfo) -> Unit:
        """Return the unit that a pending pod is scheduled in. Raises PluginError."""
        return unit_of(pod, self.profiles[pod.scheduler_name], self._pending.pending)

    def sharing_key(self, pod: PodInfo) -> Hashable | None:
        """Return a key that pods share for which the decision is the same now; None if it depends on the pod itself.

        That is so for gated and nominated pods, members of gangs, and where a plugin doesn't tell what it reads.
        """
        if pod.scheduling_gates or pod.nominated_node_name or self.state.nominations.node_of(pod.uid):
            return None
        sharing, key = self.sharing[pod.scheduler_name], self.key_of(pod)
        try:
            alike = None if key is None else sharing.alike(key, self.profiles[pod.scheduler_name], pod)
            if alike is None or self.gate_of(pod) or self.unit_of(pod).gang is not None:
                return None
        except PluginError:
            return None
        return pod.scheduler_name, alike

    def decided_by_node(self, pod: PodInfo) -> bool:
        """Return whether the verdict of the filters on a node depends only on that node."""
        try:
            return self.sharing[pod.scheduler_name].by_node(pod, self.state)
        except PluginError:
            return False

    def key_of(self, pod: PodInfo) -> PodKey | None:
        """Return what pods must have in common with this one to share results; None if a plugin doesn't tell."""
        return self.sharing[pod.scheduler_name].key(pod, self.state.nodes, self._failed)

    def shared_run(self, pod: PodInfo) -> SharedRun | None:
        """Return the run of a pod with shared results; None if there are none, or the pod is rejected."""
        if self.state.nominations.nodes:
            return None
        profile = self.profiles[pod.scheduler_name]
        run = self.sharing[pod.scheduler_name].start(profile, self.state, pod, call, self._failed)
        return run if isinstance(run, SharedRun) and run.decided is None else None

    def failure_depends_on(self, pod: PodInfo, plugins: frozenset[str]) -> Hashable | None:
        """Return what the failure of a pod depends on besides the pod and single nodes; None if that is unknown.

        `plugins`: those that rejected it. While the result is equal, a node that does not change still rejects the pod.
        """
        try:
            return self.sharing[pod.scheduler_name].failure_depends_on(pod, self.state, plugins)
        except PluginError:
            return None

    def _failed(self, error: PluginError, pod: PodInfo) -> None:
        Options(failures=self.failures).record(error, pod)

    def attempt(
        self, unit: Unit, *, explain: bool = False, preempt: bool = True, other: tuple[Profile, Sharing] | None = None
    ) -> Plan:
        """Decide about a unit; nothing changes. `explain` keeps the scores by plugin. Extenders are not asked.

        `preempt`: whether PostFilter plugins may make room. `other`: decides in place of the unit's profile. Mirrors
        the service's `AttemptDriver`: gated members of a gang are not attempted.
        """
        name = unit.pod.scheduler_name
        profile, sharing = other or (self.profiles[name], self.sharing[name])
        if not preempt and other is None:
            profile = self.profiles_without_preemption[name]
        start = PodRun.start if explain else sharing.start
        options = Options(explain=explain, start=start, failures=self.failures)
        return run(attempt(unit, profile, self.state, self.rng, options), lambda pod: self.gate_of(pod) is None)


def _created(pod: PodInfo) -> float:
    created = pod.creation_timestamp
    return created.timestamp() if created is not None else 0.0
