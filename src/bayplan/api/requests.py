"""What a pod requests: containers, init containers, sidecars, overhead, pod-level resources and resizes in flight.

Mirrors component-helpers' resource/helpers.go. Amounts are nano-units (see `quantity`) by resource name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lightkube.models.core_v1 import Container, Pod

from bayplan.api import quantity

Amounts = dict[str, int]
"""Nano-units by resource name."""

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    pod_level: bool = True,
    missing: Mapping[str, int] | None = None,
) -> Amounts:
    """The pod's effective requests.

    `use_status` counts resizes in flight: for a bound pod the larger of what is asked, granted and in place.
    `pod_level` lets `spec.resources` replace the sum of the containers. `missing` stands in, container by container,
    for a request that is not set (one that is set to zero stays zero). Raises InvalidQuantity.
    """
    spec = pod.spec
    assert spec is not None
    requests = _container_requests(pod, use_status, missing)
    if pod_level and (stated := pod_level_requests(pod)):
        if use_status and pod.status is not None and pod.status.resources is not None:
            asked = parse_amounts(spec.resources.requests if spec.resources else None)
            in_place = parse_amounts(pod.status.resources.requests)
            granted = parse_amounts(pod.status.allocatedResources)
            effective = _effective(pod, asked, in_place, granted)
            stated = {name: effective.get(name, 0) for name in stated}
        requests.update(stated)
    if spec.overhead:
        _add(requests, parse_amounts(spec.overhead))
    return requests


def pod_limits(pod: Pod) -> Amounts:
    """The pod's effective limits, as they are asked for. Raises InvalidQuantity. Mirrors PodLimits."""

    def limits(container: Container) -> Amounts:
        return parse_amounts(container.resources.limits if container.resources else None)

    spec = pod.spec
    assert spec is not None
    total = _over_containers(pod, limits, limits)
    if spec.resources is not None:
        stated = parse_amounts(spec.resources.limits)
        total.update({name: nanos for name, nanos in stated.items() if _at_pod_level(name)})
    for name, nanos in parse_amounts(spec.overhead).items():
        if total.get(name):
            total[name] += nanos
    return total


def pod_level_requests(pod: Pod) -> Amounts:
    """`spec.resources.requests` as far as pods may state them: cpu, memory and huge pages."""
    spec = pod.spec
    if spec is None or spec.resources is None or not spec.resources.requests:
        return {}
    return {name: quantity.parse(amount) for name, amount in spec.resources.requests.items() if _at_pod_level(name)}


def _at_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def parse_amounts(resources: Mapping[str, str] | None) -> Amounts:
    """A resource list in nano-units; nothing for None."""
    return {name: quantity.parse(amount) for name, amount in resources.items()} if resources else {}


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts a resource beside cpu, memory and ephemeral storage.

    Extended resources, huge pages, prefixed native resources and attachable volumes are; an unprefixed unknown is not.
    Mirrors pkg/scheduler/util/utils.go IsScalarResourceName.
    """
    return is_extended(name) or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    """Whether a name is an extended resource: one with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def counted(amounts: Amounts) -> dict[str, int]:
    """The resources that the scheduler counts, in its units: cpu in thousandths, all others in whole units.

    Mirrors framework.Resource, which ignores names that are neither native nor scalar.
    """
    units: dict[str, int] = {}
    for name, nanos in amounts.items():
        if name == CPU:
            units[name] = quantity.milli_value(nanos)
        elif name in {MEMORY, EPHEMERAL_STORAGE} or is_scalar(name):
            units[name] = quantity.value(nanos)
    return units


def _container_requests(pod: Pod, use_status: bool, missing: Mapping[str, int] | None) -> Amounts:
    statuses = _statuses(pod) if use_status else {}
    return _over_containers(
        pod,
        lambda container: _one(pod, container, statuses, missing),
        lambda container: _one(pod, container, {}, missing),
    )


def _over_containers(
    pod: Pod, lasting: Callable[[Container], Amounts], passing: Callable[[Container], Amounts]
) -> Amounts:
    """The most that the pod takes at any time. `lasting` and `passing`: what a container takes that stays, sidecars
    among them, and what an init container takes that ends.
    """
    spec = pod.spec
    assert spec is not None
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, lasting(container))
    if not spec.initContainers:
        return total
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        if container.restartPolicy == "Always":
            own = lasting(container)
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            running = passing(container)
            _add(running, sidecars)
            _raise_to(peak, running)
    _raise_to(total, peak)
    return total


def _statuses(pod: Pod) -> dict[str, Any]:
    status = pod.status
    if status is None:
        return {}
    both = (*(status.containerStatuses or ()), *(status.initContainerStatuses or ()))
    return {container.name: container for container in both if container.resources is not None}


def _one(pod: Pod, container: Container, statuses: Mapping[str, Any], missing: Mapping[str, int] | None) -> Amounts:
    amounts = parse_amounts(container.resources.requests if container.resources else None)
    status = statuses.get(container.name)
    if status is not None:
        in_place, granted = parse_amounts(status.resources.requests), parse_amounts(status.allocatedResources)
        amounts = _effective(pod, amounts, in_place, granted)
    if missing:
        amounts = {**missing, **amounts}
    return amounts


def _effective(pod: Pod, asked: Amounts, in_place: Amounts, granted: Amounts) -> Amounts:
    effective: Amounts = {}
    for amounts in (in_place, granted) if _resize_infeasible(pod) else (asked, in_place, granted):
        _raise_to(effective, amounts)
    return effective


def _resize_infeasible(pod: Pod) -> bool:
    conditions: Iterable[Any] = (pod.status.conditions if pod.status else None) or ()
    pending = next((condition for condition in conditions if condition.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, nanos in least.items():
        if name not in total or nanos > total[name]:
            total[name] = nanos
