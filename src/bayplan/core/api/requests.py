"""A pod's resource requests: containers, init containers, sidecars, overhead, pod-level resources and pending resizes.

Amounts are nano-units (see `quantity`) by resource name. Mirrors component-helpers' resource/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lightkube.models.core_v1 import Container, Pod, PodStatus

from bayplan.core.api import quantity
from bayplan.core.api.node_allocatable import ClaimedResources, footprint_of

Amounts = dict[str, int]
"""Nano-units by resource name."""

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
_IN_WHOLE_UNITS = frozenset({MEMORY, EPHEMERAL_STORAGE})


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    pod_level: bool = True,
    missing: Mapping[str, int] | None = None,
    atomic: bool = False,
) -> Amounts:
    """The pod's effective requests.

    `use_status` includes pending resizes: it takes the maximum of the desired, allocated and actual resources,
    and what the pod takes of its node through claims. `atomic`: it is the maximum for the pod as a whole, as since
    1.37, and not the sum of each container's maximum. So it is for all pods whose claims have the form of 1.37.
    `pod_level` lets `spec.resources` replace the sum of the containers. `missing` are default requests for containers
    that don't set them; an explicit zero stays zero. Raises InvalidQuantity.
    """
    spec = pod.spec
    assert spec is not None
    claimed = claimed_resources(pod) if use_status else ()
    of_1_37 = atomic or (claimed and any(each.resources is None for each in claimed))
    if of_1_37 and use_status and pod.status is not None:
        requests = _atomic_requests(pod, pod.status, claimed, missing)
    else:
        requests = _container_requests(pod, claimed, use_status, missing)
    if pod_level and (stated := pod_level_requests(pod)):
        if use_status and pod.status is not None and pod.status.resources is not None:
            desired = parse_amounts(spec.resources.requests if spec.resources else None)
            actual = parse_amounts(pod.status.resources.requests)
            allocated = parse_amounts(pod.status.allocatedResources)
            effective = _effective(pod, desired, actual, allocated)
            names = filter(_at_pod_level, effective) if atomic else stated
            stated = {name: effective.get(name, 0) for name in names}
        requests.update(stated)
    if spec.overhead:
        _add(requests, parse_amounts(spec.overhead))
    return requests


def claimed_resources(pod: Pod) -> Sequence[ClaimedResources]:
    """What a pod takes of its node through its claims, as its status says."""
    found = pod.status.nodeAllocatableResourceClaimStatuses if pod.status is not None else None
    return [each for each in found if isinstance(each, ClaimedResources)] if found else ()


def container_limits(pod: Pod) -> Amounts:
    """The limits of the pod's containers together. Raises InvalidQuantity. Mirrors AggregateContainerLimits."""

    def limits(container: Container) -> Amounts:
        return parse_amounts(container.resources.limits if container.resources else None)

    return _over_containers(pod, limits, limits)


def pod_limits(pod: Pod) -> Amounts:
    """The pod's effective limits from its spec. Raises InvalidQuantity. Mirrors PodLimits."""
    spec = pod.spec
    assert spec is not None
    total = container_limits(pod)
    if spec.resources is not None:
        stated = parse_amounts(spec.resources.limits)
        total.update({name: nanos for name, nanos in stated.items() if _at_pod_level(name)})
    for name, nanos in parse_amounts(spec.overhead).items():
        if total.get(name):
            total[name] += nanos
    return total


def pod_level_requests(pod: Pod) -> Amounts:
    """The resources of `spec.resources.requests` that are supported at pod level: cpu, memory and huge pages."""
    spec = pod.spec
    if spec is None or spec.resources is None or not spec.resources.requests:
        return {}
    return {name: quantity.parse(amount) for name, amount in spec.resources.requests.items() if _at_pod_level(name)}


def _at_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def parse_amounts(resources: Mapping[str, str] | None) -> Amounts:
    """A resource list in nano-units; empty for None."""
    return {name: quantity.parse(amount) for name, amount in resources.items()} if resources else {}


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts a resource in addition to cpu, memory and ephemeral storage.

    It counts extended resources, huge pages, prefixed native resources and attachable volumes, but no unknown name
    without a prefix.
    Mirrors pkg/scheduler/util/utils.go IsScalarResourceName.
    """
    return is_extended(name) or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    """Whether a resource name is an extended resource: it has a domain other than kubernetes.io."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def counted(amounts: Amounts) -> dict[str, int]:
    """The resources that the scheduler counts: cpu in thousandths, all others in whole units.

    Mirrors framework.Resource, which ignores names that are neither native nor scalar.
    """
    units: dict[str, int] = {}
    for name, nanos in amounts.items():
        if name == CPU:
            units[name] = quantity.milli_value(nanos)
        elif name in _IN_WHOLE_UNITS or is_scalar(name):
            units[name] = quantity.value(nanos)
    return units


def amounts_of(resources: Mapping[str, Any]) -> dict[str, int]:
    """The amounts of a resource list in the units of `counted`; numbers count as their text. Raises InvalidQuantity."""
    return counted(parse_amounts({name: str(amount) for name, amount in resources.items()}))


def amount_text(resource: str, amount: int) -> str:
    """An amount as a quantity. `amount`: in the units of `counted`."""
    nanos = amount * (10**6 if resource == CPU else quantity.NANO)
    return quantity.format_quantity(nanos, binary=is_written_in_binary(resource))


def is_written_in_binary(resource: str) -> bool:
    """Whether amounts of a resource are written with suffixes such as Mi."""
    return resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")


def may_count_otherwise(pod: Pod) -> bool:
    """Whether `atomic` may make a difference to `pod_requests`: the status has other resources than the spec."""
    spec, status = pod.spec, pod.status
    if spec is None or status is None:
        return False
    if status.resources is not None or status.allocatedResources is not None or resize_infeasible(pod):
        return True
    containers = {each.name: each for each in (*(spec.containers or ()), *(spec.initContainers or ()))}
    for known in (*(status.containerStatuses or ()), *(status.initContainerStatuses or ())):
        container = containers.get(known.name)
        desired = container.resources.requests if container is not None and container.resources else None
        actual = known.resources.requests if known.resources is not None else None
        if any((each or {}) != (desired or {}) for each in (actual, known.allocatedResources) if each is not None):
            return True
    return False


def _container_requests(
    pod: Pod, claimed: Sequence[ClaimedResources], use_status: bool, missing: Mapping[str, int] | None
) -> Amounts:
    statuses = _statuses(pod) if use_status else {}
    total = _over_containers(
        pod,
        lambda container: _one(pod, container, statuses, missing),
        lambda container: _one(pod, container, {}, missing),
    )
    if claimed:
        _add_claimed(total, claimed)
    return total


def _atomic_requests(
    pod: Pod, status: PodStatus, claimed: Iterable[ClaimedResources], missing: Mapping[str, int] | None
) -> Amounts:
    """The maximum of what the containers are to have, were granted, and have; each as a sum.

    Mirrors AggregateContainerRequests of 1.37. A pod's own status has the sums, if there is one. What the kubelet has
    set includes what is claimed.
    """
    infeasible = resize_infeasible(pod)
    known = {each.name: each for each in (*(status.initContainerStatuses or ()), *(status.containerStatuses or ()))}

    def desired(container: Container) -> Mapping[str, str] | None:
        return container.resources.requests if container.resources else None

    def allocated(container: Container) -> Mapping[str, str] | None:
        own: Any = known.get(container.name)
        granted: Mapping[str, str] | None = own.allocatedResources if own is not None else None
        return granted if granted is not None or infeasible else desired(container)

    def actual(container: Container) -> Mapping[str, str] | None:
        own: Any = known.get(container.name)
        has: Mapping[str, str] | None = own.resources.requests if own is not None and own.resources else None
        return has if has is not None else allocated(container)

    def total(of: Callable[[Container], Mapping[str, str] | None]) -> Amounts:
        def one(container: Container) -> Amounts:
            return {**(missing or {}), **parse_amounts(of(container))}

        return _over_containers(pod, one, one)

    planned = total(desired)
    _add_claimed(planned, claimed)
    of_pod = status.resources.requests if status.resources is not None else None
    if status.allocatedResources is not None and of_pod is not None:
        return _effective(pod, planned, parse_amounts(of_pod), parse_amounts(status.allocatedResources))
    granted = total(allocated)
    _add_claimed(granted, claimed)
    return _effective(pod, planned, total(actual), granted)


def _add_claimed(total: Amounts, claimed: Iterable[ClaimedResources]) -> None:
    for each in claimed:
        add_amounts(total, footprint_of(each).of(len(each.containers or ())))


def _over_containers(
    pod: Pod, long_running: Callable[[Container], Amounts], init: Callable[[Container], Amounts]
) -> Amounts:
    """The maximum that the pod uses at any time.

    `long_running` returns the amounts of containers and sidecars, `init` those of init containers that terminate.
    """
    spec = pod.spec
    assert spec is not None
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, long_running(container))
    if not spec.initContainers:
        return total
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        if container.restartPolicy == "Always":
            own = long_running(container)
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            running = init(container)
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
        actual, allocated = parse_amounts(status.resources.requests), parse_amounts(status.allocatedResources)
        amounts = _effective(pod, amounts, actual, allocated)
    if missing:
        amounts = {**missing, **amounts}
    return amounts


def _effective(pod: Pod, desired: Amounts, actual: Amounts, allocated: Amounts) -> Amounts:
    effective: Amounts = {}
    for amounts in (actual, allocated) if resize_infeasible(pod) else (desired, actual, allocated):
        _raise_to(effective, amounts)
    return effective


def resize_infeasible(pod: Pod) -> bool:
    """Whether the node can't give what the spec asks for, so that the spec doesn't count."""
    conditions: Iterable[Any] | None = pod.status.conditions if pod.status else None
    if not conditions:
        return False
    pending = next((condition for condition in conditions if condition.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def add_amounts(total: Amounts, more: Iterable[tuple[str, int]]) -> None:
    """Add amounts by resource to a total."""
    for name, nanos in more:
        total[name] = total.get(name, 0) + nanos


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    add_amounts(total, more.items())


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, nanos in least.items():
        if name not in total or nanos > total[name]:
            total[name] = nanos
