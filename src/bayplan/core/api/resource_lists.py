"""Amounts of resources, and what a pod requests and limits in total.

Mirrors apimachinery's pkg/api/resource and PodRequests and PodLimits of k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bayplan.core.api import quantity
from bayplan.core.api.objects import Document
from bayplan.core.api.quantity import format_quantity

POD_LEVEL = frozenset({"cpu", "memory"})
"""The resources that a pod may request and limit as a whole; huge pages are added to these."""


class Amount(NamedTuple):
    """An amount of a resource in billionths, and whether it is written with a binary suffix."""

    nanos: int
    binary: bool = False

    @classmethod
    def parse(cls, text: str) -> Amount:
        """Reads a valid quantity."""
        return cls(quantity.parse(text), text.endswith("i"))

    def __str__(self) -> str:
        return format_quantity(self.nanos, binary=self.binary)

    def plus(self, other: Amount) -> Amount:
        """The sum, in the form of the first amount that is not zero."""
        return Amount(self.nanos + other.nanos, self.binary if self.nanos else other.binary)

    def minus(self, other: Amount) -> Amount:
        """The difference, in the form of this amount."""
        return Amount(self.nanos - other.nanos, self.binary)


ZERO = Amount(0)
Amounts = dict[str, Amount]
"""Amounts by resource."""


def read_amounts(listed: Mapping[str, str] | None) -> Amounts:
    """Reads a ResourceList."""
    return {name: Amount.parse(text) for name, text in (listed or {}).items()}


def add_amounts(total: Amounts, more: Amounts) -> None:
    """Adds amounts to a total."""
    for name, amount in more.items():
        total[name] = total[name].plus(amount) if name in total else amount


def pod_total(spec: Document, field: str, *, pod_level: bool = True, overhead: bool = False) -> Amounts:
    """Returns what a pod `requests` or `limits` (the field): the containers and sidecars together, or the most that
    one init container needs with the sidecars started before it.

    `pod_level`: what the pod sets as a whole counts instead. `overhead`: the overhead is added.
    """
    total: Amounts = {}
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("containers") or ():
        add_amounts(total, _of(container, field))
    for container in spec.get("initContainers") or ():
        needed = _of(container, field)
        if container.get("restartPolicy") == "Always":
            add_amounts(total, needed)
            add_amounts(sidecars, needed)
            needed = sidecars
        else:
            add_amounts(needed, sidecars)
        _raise_to(most, needed)
    _raise_to(total, most)
    if pod_level:
        whole = read_amounts(spec.get("resources", {}).get(field))
        total |= {name: amount for name, amount in whole.items() if name in POD_LEVEL or name.startswith("hugepages-")}
    if overhead:
        for name, amount in read_amounts(spec.get("overhead")).items():
            if field == "requests" or total.get(name, ZERO).nanos:
                add_amounts(total, {name: amount})
    return total


def _of(container: Document, field: str) -> Amounts:
    return read_amounts(container.get("resources", {}).get(field))


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount.nanos > total[name].nanos:
            total[name] = amount


# The quality of service of a pod. Mirrors Kubernetes' pkg/apis/core/v1/helper/qos.


def qos_class(spec: Document) -> str:
    """Guaranteed, Burstable or BestEffort, by a pod's requests and limits of cpu and memory."""
    if spec.get("resources"):
        return _qos_of([spec["resources"]])
    containers = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    return _qos_of([container.get("resources", {}) for container in containers])


def _qos_of(resources: list[Document]) -> str:
    def counted(values: Document) -> dict[str, int]:
        amounts = {name: quantity.parse(values[name]) for name in POD_LEVEL & values.keys()}
        return {name: amount for name, amount in amounts.items() if amount > 0}

    requests = [counted(resource.get("requests", {})) for resource in resources]
    limits = [counted(resource.get("limits", {})) for resource in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    guaranteed = all(len(limit) == 2 for limit in limits)
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"
