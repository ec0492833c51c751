"""Types of fields that lightkube's models leave open: the values of maps, and the size of integers.

lightkube declares maps as `dict` and integers without bounds. Go clients reject an object whose label isn't a string,
whose priority isn't an int32 or whose counter isn't a quantity, and code that reads these fields relies on it.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from lightkube.models import core_v1, meta_v1, resource_v1

from bayplan.core.api.node_allocatable import ClaimedResources, MappedDevice
from bayplan.core.api.quantity import PATTERN

_STRINGS = dict[str, str] | None
_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_QUANTITY = Annotated[str, msgspec.Meta(pattern=PATTERN)] | int
_QUANTITIES = dict[str, _QUANTITY] | None


class _Attribute(TypedDict, total=False):
    bool: bool | None
    int: _INT64 | None
    string: str | None
    version: str | None
    bools: list[bool] | None
    ints: list[_INT64] | None
    strings: list[str] | None
    versions: list[str] | None


class _Counter(TypedDict):
    value: _QUANTITY


class _Range(TypedDict):
    min: NotRequired[_QUANTITY | None]
    max: NotRequired[_QUANTITY | None]
    step: NotRequired[_QUANTITY | None]


class _RequestPolicy(TypedDict):
    default: NotRequired[_QUANTITY | None]
    validRange: NotRequired[_Range | None]
    validValues: NotRequired[list[_QUANTITY] | None]


class _Capacity(TypedDict):
    value: _QUANTITY
    requestPolicy: NotRequired[_RequestPolicy | None]


class _Mapping(TypedDict):
    capacityKey: NotRequired[str | None]
    capacityMultiplier: NotRequired[_QUANTITY | None]
    deviceMultiplier: NotRequired[_QUANTITY | None]


class _Overhead(TypedDict):
    perContainer: NotRequired[_QUANTITY | None]
    perPod: NotRequired[_QUANTITY | None]


class _NodeAllocatable(TypedDict):
    mapping: NotRequired[_Mapping | None]
    overhead: NotRequired[_Overhead | None]


_FIELDS: dict[type[Any], dict[str, Any]] = {
    meta_v1.ObjectMeta: {"labels": _STRINGS, "annotations": _STRINGS, "generation": _INT64 | None},
    meta_v1.LabelSelector: {"matchLabels": _STRINGS},
    core_v1.PodSpec: {"nodeSelector": _STRINGS, "overhead": _STRINGS, "priority": _INT32 | None},
    core_v1.WeightedPodAffinityTerm: {"weight": _INT32},
    core_v1.PreferredSchedulingTerm: {"weight": _INT32},
    core_v1.TopologySpreadConstraint: {"maxSkew": _INT32, "minDomains": _INT32 | None},
    core_v1.ContainerPort: {"hostPort": _INT32 | None},
    core_v1.ContainerImage: {"sizeBytes": _INT64 | None},
    core_v1.ContainerStatus: {"allocatedResources": _STRINGS},
    core_v1.PodStatus: {
        "allocatedResources": _STRINGS,
        "nodeAllocatableResourceClaimStatuses": list[ClaimedResources] | None,
        "observedGeneration": _INT64 | None,
    },
    core_v1.ResourceRequirements: {"limits": _STRINGS, "requests": _STRINGS},
    core_v1.VolumeResourceRequirements: {"limits": _STRINGS, "requests": _STRINGS},
    core_v1.NodeStatus: {"allocatable": _STRINGS, "capacity": _STRINGS},
    core_v1.PersistentVolumeSpec: {"capacity": _STRINGS},
    core_v1.PersistentVolumeClaimStatus: {"capacity": _STRINGS},
    core_v1.ServiceSpec: {"selector": _STRINGS},
    core_v1.ReplicationControllerSpec: {"selector": _STRINGS},
    resource_v1.CapacityRequirements: {"requests": _QUANTITIES},
    resource_v1.CounterSet: {"counters": dict[str, _Counter]},
    resource_v1.Device: {
        "attributes": dict[str, _Attribute] | None,
        "capacity": dict[str, _Capacity] | None,
        "nodeAllocatableResources": dict[str, _NodeAllocatable] | None,
    },
    resource_v1.ResourceSliceSpec: {"devices": list[MappedDevice] | None},
    resource_v1.DeviceCounterConsumption: {"counters": dict[str, _Counter]},
    resource_v1.DeviceRequestAllocationResult: {"consumedCapacity": _QUANTITIES},
}


def declare() -> None:
    """Have msgspec decode these fields by their complete types. Call it before the first object is decoded.

    msgspec reads declarations once. They are restored afterwards, because the embedded API server reads them, too.
    """
    original = {model: dict(model.__annotations__) for model in _FIELDS}
    for model, fields in _FIELDS.items():
        if unknown := fields.keys() - original[model].keys():
            raise AttributeError(f"{model.__name__} has no field {', '.join(sorted(unknown))}")
        model.__annotations__.update(fields)
    for model in _FIELDS:
        msgspec.json.Decoder(model)
    for model, fields in original.items():
        model.__annotations__.update(fields)
