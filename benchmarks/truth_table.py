"""What `benchmarks/truth.py` shows: measured and foretold, for each figure and each candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truth_workload import Size

FIRST, SECOND = "as-it-is", "as-it-is-again"
CANDIDATES: dict[str, Any] = {
    "packing": {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}},
    "spreading": {"PodTopologySpread": 20},
    "weights": {"NodeResourcesFit": 5, "NodeResourcesBalancedAllocation": 10},
}
"""By name: the arguments or the weights of plugins."""


def configuration_of(candidate: dict[str, Any]) -> dict[str, Any]:
    """The KubeSchedulerConfiguration of a candidate."""
    weights = [{"name": name, "weight": weight} for name, weight in candidate.items() if isinstance(weight, int)]
    arguments = [{"name": name, "args": given} for name, given in candidate.items() if isinstance(given, dict)]
    profile = {"schedulerName": "default-scheduler", "pluginConfig": arguments}
    if weights:
        profile["plugins"] = {"multiPoint": {"enabled": weights}}
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


class Experiment:
    misses = 0

    def __init__(self, runs: Path, size: Size) -> None: ...
    def table(self) -> str:
        return ""


def write_between_markers(page, table): ...
