"""What pods request and may use, as Trimaran counts it. Mirrors pkg/trimaran/resourcestats.go.

Unlike the scheduler itself, it counts a sidecar as any other init container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bayplan.plugin import PodInfo, amounts_of

_DEMAND = (__name__, "demand")


class PodAmounts(NamedTuple):
    """Millicores and bytes that a pod requests, and those that it may use: its limits, but no less than it requests."""

    cpu: int
    memory: int
    cpu_limit: int
    memory_limit: int


def demand(pod: PodInfo) -> PodAmounts:
    """Return the demand of a pod."""
    return pod.of_spec(_DEMAND, _demand)


def overhead_of(pod: PodInfo) -> Mapping[str, int]:
    """Return the overhead of running a pod."""
    return amounts_of(pod.spec.overhead or {})


def _demand(pod: PodInfo) -> PodAmounts:
    cpu, memory = _effective(pod, "requests")
    cpu_limit, memory_limit = _effective(pod, "limits")
    return PodAmounts(cpu, memory, max(cpu, cpu_limit), max(memory, memory_limit))


def _effective(pod: PodInfo, field: str) -> tuple[int, int]:
    """The sum of the containers, at least the largest init container, with the overhead."""
    spec = pod.spec
    containers = [_amounts(container, field) for container in spec.containers or ()]
    inits = [_amounts(container, field) for container in spec.initContainers or ()]
    overhead = overhead_of(pod)
    cpu, memory = (
        max([sum(each.get(name, 0) for each in containers), *(each.get(name, 0) for each in inits)])
        + overhead.get(name, 0)
        for name in ("cpu", "memory")
    )
    return cpu, memory


def _amounts(container: Any, field: str) -> Mapping[str, int]:
    resources = container.resources
    return amounts_of((getattr(resources, field) if resources is not None else None) or {})
