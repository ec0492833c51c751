"""The ports of a simulation: a World in memory, and time that passes only when nothing can be done without it.

They implement `bayplan.core.executor.ports`, as those of the service do on an API server
(`bayplan.running.service.services`). Bindings and evictions are coroutines that run when the simulation says so,
without an event loop. A plugin whose PreBind writes gets a client in memory (`writes.py`); one that waits for anything
else is taken to succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from bayplan.answers.simulation.evictions import evict
from bayplan.answers.simulation.world import World
from bayplan.answers.simulation.writes import NO_LOOP, WouldWaitError, finished
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.binding import BINDING
from bayplan.core.executor.ports import Binding, Ports, Stopwatch
from bayplan.core.executor.silent_ports import NotMeasured, SilentPorts
from bayplan.core.framework.binding_runner import run_pre_bind, run_unreserve
from bayplan.core.framework.profile import Point
from bayplan.core.framework.status import Code, PluginError, Status, success
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan, Preemption

_SILENT = logging.Logger("bayplan.answers.simulation", logging.CRITICAL + 1)  # noqa: LOG001 - no handler may have it
"""The results tell what happens in a simulation."""


class AttemptOutcomes:
    """What a simulation wants to know. Its methods are called as things happen."""

    def attempted(self, plan: Plan) -> None:
        """A unit was attempted, and its plan is about to be carried out."""

    def bound(self, binding: Binding) -> None:
        """A pod was bound."""

    def ended(self, binding: Binding, status: Status) -> None:
        """A binding cycle ended."""

    def pending(self, pod: PodInfo, message: str) -> None:
        """A pod stays pending after its attempt."""

    def evicted(self, victim: PodInfo, preemption: Preemption) -> None:
        """A victim is gone."""


@dataclass(slots=True)
class Tasks:
    """The binding cycles and evictions that have begun and not ended. They run when the simulation says so."""

    _bindings: list[tuple[PodInfo, Coroutine[Any, Any, None]]] = field(default_factory=list)
    _evictions: list[tuple[PodInfo, Coroutine[Any, Any, None]]] = field(default_factory=list)

    def start(self, what: str, pod: PodInfo, work: Coroutine[Any, Any, None]) -> None:
        """Keep a binding cycle or an eviction until `bind` or `evict` lets it go on."""
        (self._bindings if what == BINDING else self._evictions).append((pod, work))

    def bind(self) -> bool:
        """Let binding cycles go on until all that are left wait in Permit. Returns whether one has ended."""
        ended, again = False, True
        while again:
            bindings, self._bindings = self._bindings, []
            left = [each for each in bindings if _goes_on(each[1])]
            again = len(left) < len(bindings)
            self._bindings = [*left, *self._bindings]
            ended |= again
        return ended

    def evict(self) -> bool:
        """Evict the victims of all preemptions. Returns whether there were any."""
        evictions, self._evictions = self._evictions, []
        for _, work in evictions:
            finished(work)
        return bool(evictions)

    def abandon(self) -> Iterator[PodInfo]:
        """Drop all work. Yields the pods whose evictions have not begun."""
        for _, work in self._bindings:
            work.close()
        for pod, work in self._evictions:
            work.close()
            yield pod
        self._bindings.clear()
        self._evictions.clear()


def _goes_on(work: Coroutine[Any, Any, None]) -> bool:
    """Let work go on until it waits or ends. Returns False if it has ended."""
    try:
        work.send(None)
    except StopIteration:
        return False
    return True


class MemoryPorts(SilentPorts):
    """Implements the ports of executor.ports on a World. `outcomes` learns what happens. `now`: the virtual time.

    `remove` evicts a victim; by default, it is gone at once.
    """

    def __init__(
        self, world: World, outcomes: AttemptOutcomes, remove: Callable[[PodInfo], None] | None = None
    ) -> None:
        self.now = 0.0
        self._remove = remove or partial(evict, world)
        self.tasks = Tasks()
        self._world = world
        self._outcomes = outcomes
        self._written = 0

    def ports(self) -> Ports:
        """The ports of an executor."""
        return Ports(
            now=self.time,
            wake=lambda: None,
            run=self.tasks.start,
            assumptions=self._world.state,
            binder=self,
            evictor=self,
            statuses=self,
            recorder=self,
            measures=_Observer(self._outcomes),
            log=_SILENT,
        )

    def time(self) -> float:
        """The virtual time in seconds."""
        return self.now

    # Binding

    async def pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
        """Run PreBind plugins, which get a client that writes in memory; after a failure, nothing is written.

        A plugin that waits for something else is taken to succeed: here, it would wait forever.
        """
        world = self._world
        mark, world.handle.client = world.mark(), world.client
        status = success()
        try:
            for plugin in plugins:
                with suppress(WouldWaitError):
                    status = _pre_bind(plugin, binding)
                    if status.code is not Code.SUCCESS:
                        break
        except PluginError as error:
            status = Status(Code.ERROR, (str(error),), error.plugin)
        finally:
            world.handle.client = None
        if status.code is not Code.SUCCESS:
            world.undo_to(mark)
        return status

    async def bind(self, binding: Binding) -> Status:
        """Put the pod on its node."""
        world, pod = self._world, binding.pod
        world.changed(partial(run_unreserve, binding.profile, binding.cycle, pod, binding.node_name))
        world.change(POD, pod.key, pod)
        _shrink(binding)
        self._outcomes.bound(binding)
        return success()

    # Making room

    async def evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Remove victims from the world."""
        for victim in victims:
            if self._world.pod(victim.key) is not None:
                self._remove(victim)
                self._outcomes.evicted(victim, preemption)
        return True

    # What pending pods say

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        """Note the result of an attempt, and write the nominated node."""
        self._outcomes.pending(pod, message)
        if nominated_node is not None:
            self._set_nomination(pod, nominated_node)

    def clear_nomination(self, pod: PodInfo) -> None:
        """Take back a nomination."""
        self._set_nomination(pod, "")

    def _set_nomination(self, pod: PodInfo, node_name: str) -> None:
        """Write the nominated node to the pod's status: the next attempt tries that node first."""
        known = self._world.pod(pod.key)
        if known is not None and known.uid == pod.uid and known.nominated_node_name != node_name:
            document = msgspec.json.decode(known.raw)
            self._written += 1
            document["metadata"]["resourceVersion"] = f"{known.resource_version}+{self._written}"  # it is a new version
            document["status"] = {**(document.get("status") or {}), "nominatedNodeName": node_name}
            self._world.change(POD, known.key, PodInfo.from_raw(encode(document)))


class _Observer(NotMeasured):
    """Tells outcomes of attempts and bindings."""

    def __init__(self, outcomes: AttemptOutcomes) -> None:
        self._outcomes = outcomes

    def attempted(self, plan: Plan, pods: Mapping[str, QueuedPod], times: Stopwatch | None) -> None:
        self._outcomes.attempted(plan)

    def ended(self, binding: Binding, status: Status) -> None:
        self._outcomes.ended(binding, status)


def _pre_bind(plugin: Any, binding: Binding) -> Status:
    """The result of PreBind. Raises PluginError or WouldWaitError."""
    try:
        status = finished(run_pre_bind([plugin], binding.cycle, binding.pod, binding.node_name))
    except PluginError as error:
        if isinstance(error.__cause__, WouldWaitError) or NO_LOOP in str(error):
            raise WouldWaitError(str(error)) from None
        raise
    if NO_LOOP in status.message:  # a plugin that makes a status of every exception
        raise WouldWaitError(status.message)
    return status


def _shrink(binding: Binding) -> None:
    """Drop the cycle's data of plugins that don't reserve: the cycle is kept for `unreserve`.

    Such data may be arrays as long as the node table.
    """
    profile, data = binding.profile, binding.cycle.data
    reserving = {plugin.name for plugin in profile.at(Point.RESERVE)}
    unneeded = {plugin.name for plugin in profile.every() if plugin.name not in reserving}
    for key in [key for key in data if (key[0] if isinstance(key, tuple) else key) in unneeded]:
        del data[key]
