"""Pods that wait in Permit where no time passes. See `service.waiting_pods` for those of a running scheduler."""

from __future__ import annotations

from bayplan.framework.status import Status
from bayplan.framework.waiting_pods import PodInPermit


class SimulatedWait(PodInPermit):
    """A waiting pod whose timeouts end only when the simulation says so."""

    def time_out_first(self) -> None:
        """Reject the pod in the name of the plugin whose timeout ends first."""
        if self.waits:
            self.time_out(min(self.waits, key=lambda plugin: (self.waits[plugin], plugin)))

    async def verdict(self) -> Status:
        """The decision of the plugins. Raises AssertionError where a real pod would still wait."""
        assert self.status is not None, f"pod {self.pod.key} still waits for {self.pending_plugins}"
        return self.status
