"""Pods that wait in Permit until all plugins allow them, or one rejects them. Time is the caller's.

Mirrors pkg/scheduler/framework/runtime/waiting_pods_map.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import Code, Status


class PodInPermit:
    """A pod that waits for one or more plugins. `status` is None until they have decided."""

    def __init__(self, pod: PodInfo, waits: Mapping[str, float]) -> None:
        """`waits`: the timeout of each plugin, in seconds."""
        self.pod = pod
        self.status: Status | None = None
        self.waits = dict(waits)

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return sorted(self.waits)

    def allow(self, plugin: str) -> None:
        """Allow the pod in the name of a plugin. Once all plugins have, the pod is bound."""
        self.waits.pop(plugin, None)
        if not self.waits:
            self.decide(Status(Code.SUCCESS))

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod in the name of a plugin. The first call of `reject`, or the last `allow`, decides."""
        self.decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Reject the pod because another pod needs its room; it is retried. Returns False if it is already decided."""
        return self.decide(Status(Code.ERROR, (message,), plugin))

    def time_out(self, plugin: str) -> None:
        """Reject the pod if a plugin has not allowed it yet."""
        if plugin in self.waits:
            self.reject(plugin, f"rejected due to timeout after waiting {self.waits[plugin]:g}s at plugin {plugin}")

    def decide(self, status: Status) -> bool:
        """Set the status. Returns False if there is one already."""
        if self.status is not None:
            return False
        self.status = status
        return True


P = TypeVar("P", bound=PodInPermit)


class PodsInPermit(Generic[P]):
    """The pods that wait in Permit, by uid. `make` creates them."""

    def __init__(self, make: Callable[[PodInfo, Mapping[str, float]], P]) -> None:
        self._make = make
        self._pods: dict[str, P] = {}

    def add(self, pod: PodInfo, waits: Mapping[str, float]) -> P:
        """Let a pod wait. `waits`: as in WaitingPod."""
        waiting = self._pods[pod.uid] = self._make(pod, waits)
        return waiting

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> P | None:
        """The waiting pod with this uid."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[P]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
