"""Pods that wait in Permit where no time passes.

`bayplan.running.service.waiting_pods` has those of a running scheduler. A timeout ends when the simulation says so:
once nothing else can be done.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from bayplan.core.framework.status import Status
from bayplan.core.framework.waiting_pods import PodInPermit


class SimulatedWait(PodInPermit):
    """A waiting pod whose timeouts end only when the simulation says so."""

    @property
    def timeout(self) -> float:
        """The seconds until the first timeout."""
        return min(self.waits.values(), default=0.0)

    def time_out_first(self) -> None:
        """Reject the pod in the name of the plugin whose timeout ends first."""
        if self.waits:
            self.time_out(min(self.waits, key=lambda plugin: (self.waits[plugin], plugin)))

    async def verdict(self) -> Status:
        """Wait until the pod is allowed or rejected."""
        await _Decided(self)
        assert self.status is not None
        return self.status


class _Decided:
    """Yields to the simulation until a waiting pod has a status."""

    def __init__(self, waiting: SimulatedWait) -> None:
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, None]:
        while self._waiting.status is None:
            yield self._waiting
