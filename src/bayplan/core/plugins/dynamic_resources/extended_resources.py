"""Extended resources that device classes provide: one claim covers all such requests of a pod.

The claim depends on the node, because a node can provide some of the resources without devices. It is created when the
pod is bound. Mirrors dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from lightkube.models.core_v1 import Container, ContainerExtendedResourceRequest
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.models.resource_v1 import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

from bayplan.core.api import quantity
from bayplan.core.cluster.columns import Bool, Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.classes import ExtendedResources, may_be_backed_by_devices
from bayplan.core.devices.extended_claims import ANNOTATION
from bayplan.core.devices.requests import devices_of
from bayplan.core.framework.status import Status

IN_MEMORY_NAME = "<extended-resources>"
"""The name of a claim that doesn't exist on the server yet. It isn't a valid name on purpose."""

STALE = Status.unresolvable("cannot schedule extended resource claim")
CANNOT_FIT = Status.unresolvable("cannot fit resource")


def extended_requests(pod: PodInfo) -> dict[str, int]:
    """The pod's requests that device classes can provide, in whole units."""
    return {name: amount for name, amount in pod.requested.items() if amount and may_be_backed_by_devices(name)}


def new_claim(pod: PodInfo) -> ResourceClaim:
    """An empty claim for the extended resources of a pod."""
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=pod.namespace,
            name=IN_MEMORY_NAME,
            uid=f"{pod.uid}-extended-resources",
            generateName=f"{pod.name}-extended-resources-",
            ownerReferences=[owner],
            annotations={ANNOTATION: "true"},
        ),
        spec=ResourceClaimSpec(),
    )


def is_in_memory(claim: ResourceClaim) -> bool:
    """Whether the claim for extended resources doesn't exist on the server yet."""
    return claim.metadata is not None and claim.metadata.name == IN_MEMORY_NAME


def is_filled(claim: ResourceClaim) -> bool:
    """Whether an earlier attempt filled the claim for extended resources. PostFilter deletes such a claim."""
    return (devices := devices_of(claim)) is not None and devices.requests is not None


def without_resources(
    wanted: Iterable[str], nodes: Nodes, classes: ExtendedResources
) -> Iterator[tuple[Rows, frozenset[str] | None]]:
    """Positions of nodes with the set of resources that must come from devices there.

    The set is None for nodes that lack a resource that no device class provides.
    """
    groups: list[tuple[Rows, list[str]]] = [(np.arange(len(nodes)), [])]
    for name in sorted(wanted):
        lacks = nodes.allocatable(name) == 0
        groups = [part for positions, lacking in groups for part in _split(positions, lacking, lacks, name)]
    for rows, lacking in groups:
        positions = rows
        by_devices = frozenset(name for name in lacking if classes.class_of(name) is not None)
        for name in sorted({*lacking} - by_devices):
            offered = np.array([name in (nodes.info(each).status.allocatable or ()) for each in positions.tolist()])
            if not offered.all():
                yield positions[~offered], None
                positions = positions[offered]
        if len(positions):
            yield positions, by_devices


def _split(positions: Rows, lacking: list[str], lacks: Bool, name: str) -> Iterator[tuple[Rows, list[str]]]:
    """Divide nodes that lack the same resources into those that also lack another one, and the others."""
    here = lacks[positions]
    number = np.count_nonzero(here)
    if number == len(positions):
        yield positions, [*lacking, name]
    elif number == 0:
        yield positions, lacking
    else:
        yield positions[here], [*lacking, name]
        yield positions[~here], lacking


def with_requests(
    claim: ResourceClaim, pod: PodInfo, by_devices: Iterable[str], classes: ExtendedResources
) -> tuple[ResourceClaim, tuple[ContainerExtendedResourceRequest, ...]]:
    """The claim with device requests for these resources, and the assignment of its requests to containers."""
    made, mappings = device_requests(pod, by_devices, classes)
    filled = copy.copy(claim)
    filled.spec = ResourceClaimSpec(devices=DeviceClaim(requests=made or None))
    return filled, tuple(mappings)


def device_requests(
    pod: PodInfo, resources: Iterable[str], classes: ExtendedResources
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    """The device requests for some extended resources, and their assignment to containers.

    Init containers that terminate share the devices of later containers and of each other.
    """
    spec = pod.spec
    containers = [*(spec.initContainers or ()), *(spec.containers or ())]
    first = len(spec.initContainers or ())
    terminating = [index for index in range(first) if containers[index].restartPolicy != "Always"]
    made: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = classes.class_of(resource)
        class_name = device_class.metadata.name if device_class is not None and device_class.metadata else None
        if class_name is None:
            continue
        long_running: list[DeviceRequest | None] = [None] * len(containers)
        of_terminating: list[ContainerExtendedResourceRequest] = []
        for index, container in enumerate(containers):
            if index not in terminating:
                long_running[index], used = _request(index, container, resource, class_name, ())
                mappings += used
        largest: DeviceRequest | None = None
        names: set[str] = set()
        for index in terminating:
            request, used = _request(index, containers[index], resource, class_name, long_running[index:])
            if request is not None:
                names.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
            of_terminating += used
        for mapping in of_terminating:
            if largest is not None and mapping.requestName in names:
                mapping.requestName = largest.name
        mappings += of_terminating
        made += [request for request in (largest, *long_running) if request is not None]
    return sorted(made, key=lambda request: request.name), mappings


def _request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """The request for the devices that a container needs in addition to the reusable ones, and the requests it uses."""
    wanted = (container.resources.requests if container.resources is not None else None) or {}
    nanos = quantity.parse(wanted[resource]) if resource in wanted else 0
    amount, rest = divmod(nanos, quantity.NANO)
    if not amount or rest:
        return None, []
    used, reused = [], 0
    for request in reusable:
        if request is not None:
            reused += _count(request)
            used.append(_mapping(container, resource, request.name))
            if reused >= amount:
                return None, used
    name = f"container-{index}-request-{sorted(wanted).index(resource)}"
    exactly = ExactDeviceRequest(deviceClassName=class_name, allocationMode="ExactCount", count=amount - reused)
    used.append(_mapping(container, resource, name))
    return DeviceRequest(name=name, exactly=exactly), used


def _mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(containerName=container.name, resourceName=resource, requestName=request)


def _count(request: DeviceRequest) -> int:
    return (request.exactly.count if request.exactly is not None else None) or 0
