"""Startup: how long pods take to start on their nodes."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.core.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Startup:
    """Every pod takes `seconds` from its binding until it is ready, whatever its images and volumes."""

    seconds: float = 5.0

    def of(self, pod: PodInfo) -> float:
        """Return the seconds until a bound pod is ready."""
        return self.seconds
