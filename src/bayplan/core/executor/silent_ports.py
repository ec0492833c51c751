"""Ports that do nothing, for schedulers that write to no API server: each overrides what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Binding, EventSubject, Measures, Recorder, Statuses, Stopwatch
from bayplan.core.framework.status import Code, Status
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan


class SilentPorts(Statuses, Recorder):
    """Writes nothing about pods, and has no PreBind that goes on while anything else happens."""

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        """No pod is in PreBind."""
        return False

    def survives_cancellation(self) -> bool:
        """Nothing is cancelled."""
        return False

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        """Write nothing."""

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Write nothing."""

    def clear_nomination(self, pod: PodInfo) -> None:
        """Write nothing."""

    def forget(self, uid: str) -> None:
        """Nothing is remembered."""

    def record(
        self, pod: EventSubject, controller: str, event_type: str, reason: str, action: str, note: str, /
    ) -> None:
        """Record nothing."""


class NotMeasured(Measures):
    """Measures nothing, and needs no clock."""

    @property
    def now(self) -> Callable[[], float]:
        """A clock that stands still."""
        return _no_time

    def stopwatch(self) -> Stopwatch | None:
        """No attempt is measured."""
        return None

    def attempted(self, plan: Plan, pods: Mapping[str, QueuedPod], times: Stopwatch | None) -> None:
        """Measure nothing."""

    def ended(self, binding: Binding, status: Status) -> None:
        """Measure nothing."""

    def failed(self, queued: QueuedPod, *, error: bool) -> None:
        """Measure nothing."""

    def permit_waited(self, code: Code, began: float) -> None:
        """Measure nothing."""

    def evicted(self, began: float, *, success: bool) -> None:
        """Measure nothing."""

    def handled(self, event: str, began: float) -> None:
        """Measure nothing."""


def _no_time() -> float:
    return 0.0
