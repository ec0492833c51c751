"""What pods request and may use, as Trimaran counts it. Mirrors pkg/trimaran/resourcestats.go.

Unlike the scheduler itself, it counts a sidecar as any other init container.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from bayplan.plugin import PodInfo, amounts_of

_DEMAND = (__name__, "demand")
Listed = tuple[tuple[str, str], ...]
"""Resources and their amounts, as a spec has them."""
Container = tuple[Listed, Listed]
"""The requests and the limits of a container."""


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
    spec = pod.spec
    containers = tuple([_listed(each) for each in spec.containers or ()])
    inits = tuple([_listed(each) for each in spec.initContainers or ()])
    return _summed(containers, inits, tuple((spec.overhead or {}).items()))


@lru_cache(maxsize=4096)
def _summed(containers: tuple[Container, ...], inits: tuple[Container, ...], overhead: Listed) -> PodAmounts:
    """The demand of equal pods: there are many of them."""
    cpu, memory = _effective(0, containers, inits, overhead)
    cpu_limit, memory_limit = _effective(1, containers, inits, overhead)
    return PodAmounts(cpu, memory, max(cpu, cpu_limit), max(memory, memory_limit))


def _effective(
    which: int, containers: tuple[Container, ...], inits: tuple[Container, ...], overhead: Listed
) -> tuple[int, int]:
    """The sum of the containers, at least the largest init container, with the overhead."""
    main, first = ([amounts_of(dict(each[which])) for each in some] for some in (containers, inits))
    added = amounts_of(dict(overhead))
    cpu, memory = (
        max([sum(each.get(name, 0) for each in main), *(each.get(name, 0) for each in first)]) + added.get(name, 0)
        for name in ("cpu", "memory")
    )
    return cpu, memory


def _listed(container: Any) -> Container:
    resources = container.resources
    if resources is None:
        return (), ()
    return tuple((resources.requests or {}).items()), tuple((resources.limits or {}).items())
