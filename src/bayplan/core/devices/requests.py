"""The device requests of a claim: a common form for requests and their alternatives.

Mirrors requestAccessor of structured/internal/*/allocator_*.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightkube.models.resource_v1 import (
    CapacityRequirements,
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

EXACT_COUNT, ALL = "ExactCount", "All"


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """A request for devices, or an alternative of the request `parent` ("" for a request itself)."""

    name: str
    parent: str
    class_name: str
    mode: str
    count: int
    admin_access: bool
    selectors: Sequence[DeviceSelector]
    tolerations: Sequence[DeviceToleration]
    capacity: Mapping[str, Any]
    derived: Mapping[str, str] = field(default_factory=dict)
    """The attributes that it derives: CEL expressions by name."""

    @property
    def full_name(self) -> str:
        """The name in allocation results: `request` or `request/alternative`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request, without the alternative."""
        return self.parent or self.name

    @property
    def alternative(self) -> str:
        """The name of the alternative, "" for a request."""
        return self.name if self.parent else ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether any of the tolerations tolerates a taint."""
        return any(tolerates(toleration, taint) for toleration in self.tolerations)


def demands_of(request: DeviceRequest) -> tuple[DeviceDemand, ...]:
    """The alternatives of a request in order of preference, or the request itself if it has none."""
    if request.firstAvailable:
        return tuple(_demand(each.name, request.name, each) for each in request.firstAvailable)
    if request.exactly is None:
        return (DeviceDemand(request.name, "", "", "", 0, False, (), (), {}),)
    return (_demand(request.name, "", request.exactly),)


def requests_of(claim: ResourceClaim) -> Sequence[DeviceRequest]:
    """The requests of a claim."""
    devices = devices_of(claim)
    return (devices.requests if devices is not None else None) or ()


def constraints_of(claim: ResourceClaim) -> Sequence[DeviceConstraint]:
    """The constraints of a claim."""
    devices = devices_of(claim)
    return (devices.constraints if devices is not None else None) or ()


def devices_of(claim: ResourceClaim) -> DeviceClaim | None:
    """What a claim says of devices; None if it asks for none."""
    return claim.spec.devices if claim.spec is not None else None


def alternatives_of(claim: ResourceClaim) -> Iterator[tuple[int, str]]:
    """All alternatives of a claim's requests: their index in the request, and their full name."""
    for request in requests_of(claim):
        if request.exactly is None:
            for index, each in enumerate(request.firstAvailable or ()):
                yield index, f"{request.name}/{each.name}"


def _demand(name: str, parent: str, spec: ExactDeviceRequest | DeviceSubRequest) -> DeviceDemand:
    mode = spec.allocationMode or EXACT_COUNT
    capacity: CapacityRequirements | None = spec.capacity
    return DeviceDemand(
        name,
        parent,
        spec.deviceClassName,
        mode,
        spec.count if spec.count is not None else (1 if mode == EXACT_COUNT else 0),
        bool(spec.adminAccess) if isinstance(spec, ExactDeviceRequest) else False,
        spec.selectors or (),
        spec.tolerations or (),
        (capacity.requests if capacity is not None else None) or {},
        {each.name: each.expression for each in spec.derivedAttributes or ()},
    )


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a toleration tolerates a taint. Mirrors resourceclaim.ToleratesTaint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if (toleration.operator or "Equal") == "Equal":
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"
