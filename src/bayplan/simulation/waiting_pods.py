"""Pods that wait in Permit where no time passes. See `service.waiting_pods` for those of a running scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.status import Code, Status


class WaitingPod:
    """A pod that waits for one or more plugins. `status` is None until they have decided."""

    def __init__(self, pod: PodInfo, waits: Mapping[str, float]) -> None:
        """`waits`: the timeout of each plugin, in seconds."""
        self.pod = pod
        self.status: Status | None = None
        self._waits = dict(waits)

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return sorted(self._waits)

    def allow(self, plugin: str) -> None:
        """Allow the pod in the name of a plugin."""
        self._waits.pop(plugin, None)
        if not self._waits:
            self._decide(Status(Code.SUCCESS))

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod in the name of a plugin."""
        self._decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def time_out(self) -> None:
        """Reject the pod in the name of the plugin whose timeout ends first."""
        if self._waits:
            seconds, plugin = min((seconds, plugin) for plugin, seconds in self._waits.items())
            self.reject(plugin, f"rejected due to timeout after waiting {seconds:g}s at plugin {plugin}")

    async def verdict(self) -> Status:
        """The decision of the plugins. Raises AssertionError where a real pod would still wait."""
        assert self.status is not None, f"pod {self.pod.key} still waits for {self.pending_plugins}"
        return self.status

    def _decide(self, status: Status) -> None:
        self.status = self.status or status


class WaitingPods:
    """The pods that wait in Permit, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: PodInfo, waits: Mapping[str, float]) -> WaitingPod:
        """Let a pod wait. `waits`: as in WaitingPod."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, waits)
        return waiting

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this uid."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
