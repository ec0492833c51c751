"""How a pod's spread constraints could be relaxed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.remedies import Remedy
from bayplan.plugins.pod_topology_spread.constraints import HARD


def remedies(pod: PodInfo) -> Iterator[Remedy]:
    """Relax one of the pod's constraints, or all of them."""
    constraints = pod.spec.topologySpreadConstraints or ()
    hard = [number for number, each in enumerate(constraints) if each.whenUnsatisfiable == HARD]
    for numbers in dict.fromkeys([*((number,) for number in hard), tuple(hard)]):
        keys = " and ".join(constraints[number].topologyKey for number in numbers)
        if numbers:
            text = f"set whenUnsatisfiable to ScheduleAnyway in the pod's spread over {keys}"
            yield Remedy(text, pod=partial(_relax, numbers))


def _relax(numbers: Sequence[int], pod: dict[str, Any]) -> None:
    """Turn hard constraints into preferences, which may have no minDomains."""
    constraints = list(pod["spec"]["topologySpreadConstraints"])
    for number in numbers:
        constraint = {**constraints[number], "whenUnsatisfiable": "ScheduleAnyway"}
        constraint.pop("minDomains", None)
        constraints[number] = constraint
    pod["spec"]["topologySpreadConstraints"] = constraints
