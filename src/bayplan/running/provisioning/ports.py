"""The ports of an executor for which pods of provisioning requests don't exist in the API server.

What would be written about them goes nowhere, binding them holds their room, and evicting one revokes its request. For
all other pods, the ports are those of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lightkube.models.resource_v1 import AllocationResult

from bayplan.core.api.provisioning import MARK, is_provisioned, request_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Binder, Binding, EventSubject, Evictor, Ports, Recorder, Statuses
from bayplan.core.framework.binding_runner import run_unreserve
from bayplan.core.framework.interface import Allocates
from bayplan.core.framework.profile import implements
from bayplan.core.framework.status import Code, Status, success
from bayplan.core.scheduling import Preemption


class HeldRoom(Protocol):
    """Where held room is kept."""

    def bound(self, pod: PodInfo, node_name: str, devices: Mapping[str, AllocationResult]) -> bool:
        """Hold a place. Returns False if its request is gone. `devices`: what its claims got, by their keys."""

    def evicted(self, key: str, preemptor: PodInfo) -> None:
        """Give up the room of a request, for a pod of higher priority."""

    def node_kept_for(self, uid: str) -> str:
        """The node of the place that is lent to a pending pod; "" if there is none."""


def ports_with_requests(ports: Ports, room: HeldRoom, nominate: Callable[[PodInfo], None]) -> Ports:
    """Return the ports for a scheduler that also answers requests. `nominate`: keeps its place for a pending pod."""
    return replace(
        ports,
        binder=_Binder(ports.binder, room),
        evictor=_Evictor(ports.evictor, room),
        statuses=_Statuses(ports.statuses, room, nominate),
        recorder=_Recorder(ports.recorder),
    )


@dataclass(frozen=True, slots=True)
class _Binder(Binder):
    inner: Binder
    room: HeldRoom

    async def pre_bind(self, binding: Binding, plugins: Sequence[object]) -> Status:
        return success() if is_provisioned(binding.pod) else await self.inner.pre_bind(binding, plugins)

    async def bind(self, binding: Binding) -> Status:
        if not is_provisioned(binding.pod):
            return await self.inner.bind(binding)
        devices: dict[str, AllocationResult] = {}
        for plugin in binding.profile.every():
            if implements(plugin, Allocates):
                devices |= plugin.allocations(binding.cycle)
        # What plugins have reserved is not written. From here on, the place on its node and its claims stand for it.
        errors = run_unreserve(binding.profile, binding.cycle, binding.pod, binding.node_name)
        if errors:
            return Status(Code.ERROR, (str(errors[0]),))
        if not self.room.bound(binding.pod, binding.node_name, devices):
            return Status(Code.ERROR, ("its provisioning request has ended",))
        return success()

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        return self.inner.cancel_pre_bind(uid, why)

    def survives_cancellation(self) -> bool:
        return self.inner.survives_cancellation()


@dataclass(frozen=True, slots=True)
class _Evictor(Evictor):
    inner: Evictor
    room: HeldRoom

    async def evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        for key in dict.fromkeys(request_of(victim) for victim in victims if is_provisioned(victim)):
            self.room.evicted(key, preemption.pod)
        others = [victim for victim in victims if not is_provisioned(victim)]
        return not others or await self.inner.evict(preemption, others)


@dataclass(frozen=True, slots=True)
class _Statuses(Statuses):
    inner: Statuses
    room: HeldRoom
    nominated: Callable[[PodInfo], None]

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        if is_provisioned(pod):
            return
        if node := self.room.node_kept_for(pod.uid):
            self.nominated(pod)
            nominated_node = node
        self.inner.not_scheduled(pod, reason, message, nominated_node)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        if not is_provisioned(pod):
            self.inner.nominate(pod, node_name)

    def clear_nomination(self, pod: PodInfo) -> None:
        if not is_provisioned(pod):
            self.inner.clear_nomination(pod)

    def forget(self, uid: str) -> None:
        if MARK not in uid:
            self.inner.forget(uid)


@dataclass(frozen=True, slots=True)
class _Recorder(Recorder):
    inner: Recorder

    def record(
        self, pod: EventSubject, controller: str, event_type: str, reason: str, action: str, note: str, /
    ) -> None:
        if MARK not in pod.name:
            self.inner.record(pod, controller, event_type, reason, action, note)
