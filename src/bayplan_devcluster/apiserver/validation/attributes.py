"""Rules of the attributes of devices, and of what they provide of their nodes.

Mirrors validateDevice and validateDeviceAttribute of Kubernetes' pkg/apis/resource/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api import quantity
from bayplan.core.api.field_errors import FieldError, duplicate, invalid, not_found, required, too_long
from bayplan.core.devices.cel.values import is_semver
from bayplan.core.devices.limits import MAX_ATTRIBUTE_VALUES, MAX_ATTRIBUTES, MAX_VALUE_LENGTH
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At
from bayplan_devcluster.apiserver.validation.scheduling import one_set

LISTS_GATE = "DRAListTypeAttributes"
"""The feature gate of attributes with lists of values."""
OVERHEAD_OF_DEVICES = "MappingsAndOverheadOfDevices"
"""The change that gives resources of nodes, which devices provide, another form."""
SINGLE = ("bool", "int", "string", "version")
LISTS = ("bools", "ints", "strings", "versions")


def number(device: Object, at: At) -> Iterator[FieldError]:
    """Check that a device has not too many attributes, capacities and values. Yields an error for each limit."""
    attributes = device.get("attributes", {})
    total = len(attributes) + len(device.get("capacity", {}))
    if total > MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
        yield invalid(at.path, total, detail)
    values = sum(sum(len(each.get(field, ())) for field in LISTS) or 1 for each in attributes.values())
    if values > MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        yield invalid(at.path, values, detail)


def values(attributes: Object, at: At) -> Iterator[FieldError]:
    """Each attribute has one value, or one list of values."""
    for name, attribute in attributes.items():
        path = f"{at.path}[{name}]"
        for field in ("string", "version"):
            if field in attribute:
                yield from _text(field, attribute[field], f"{path}.{field}")
        for field in LISTS:
            if field in attribute and not attribute[field]:
                yield invalid(f"{path}.{field}", attribute[field], "must not be empty if specified")
            for index, text in enumerate(attribute.get(field, ()) if field in {"strings", "versions"} else ()):
                yield from _text(field.removesuffix("s"), text, f"{path}.{field}[{index}]")
        given = [field for field in (*SINGLE, *LISTS) if field in attribute]
        if len(given) != 1:
            shown = f"{{{', '.join(given)}}}" if given else ""
            yield invalid(path, shown, "exactly one value must be specified")


def mappings(device: Object, at: At) -> Iterator[FieldError]:
    """The resources of its node that a device provides, in the form of 1.36."""
    for resource, mapping in device.get("nodeAllocatableResourceMappings", {}).items():
        path = f"{at.path}.nodeAllocatableResourceMappings[{resource}]"
        yield from native(resource, path)
        multiplier, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if multiplier is None and key is None:
            yield invalid(path, "", "at least one of allocationMultiplier or capacityKey must be set")
        if multiplier is not None and quantity.parse(multiplier) <= 0:
            yield invalid(f"{path}.allocationMultiplier", multiplier, "must be positive")
        if key == "":
            yield invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
        elif key is not None and key not in device.get("capacity", {}):
            yield not_found(f"{path}.capacityKey", key)


def unique(value: str, at: At) -> Iterator[FieldError]:
    """An item of a list that isn't in it twice."""
    if value in at.before:
        yield duplicate(at.path, value)


def native(resource: str, path: str) -> Iterator[FieldError]:
    """A resource that nodes have, by the rule of 1.36."""
    if "/" in resource and "kubernetes.io/" not in resource:
        yield invalid(path, resource, "must be a node allocatable resource name")


def node_resources(device: Object, at: At) -> Iterator[FieldError]:
    """The resources of its node that a device provides or needs, in the form of 1.37."""
    for resource, provided in device.get("nodeAllocatableResources", {}).items():
        path = f"{at.path}.nodeAllocatableResources[{resource}]"
        if resource not in {"cpu", "memory"} and not resource.startswith("hugepages-"):
            yield invalid(path, resource, "must be a node allocatable resource name")
        if not {"mapping", "overhead"} & provided.keys():
            yield required(path, "at least one of mapping or overhead must be set")
        if "mapping" in provided:
            yield from _mapping(provided["mapping"], device.get("capacity", {}), f"{path}.mapping")
        if "overhead" in provided:
            yield from _overhead(provided["overhead"], f"{path}.overhead")


def _mapping(mapping: Object, capacities: Object, path: str) -> Iterator[FieldError]:
    yield from one_set(mapping, At(path, "capacityKey,deviceMultiplier"))
    key = mapping.get("capacityKey")
    if key == "":
        yield invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key is not None and key not in capacities:
        yield not_found(f"{path}.capacityKey", key)
    if key is not None and "capacityMultiplier" not in mapping:
        yield required(f"{path}.capacityMultiplier", "capacityMultiplier is required when capacityKey is set")
    if key is None and "capacityMultiplier" in mapping:
        yield required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set")
    for field in ("capacityMultiplier", "deviceMultiplier") if key is not None else ("deviceMultiplier",):
        if field in mapping and quantity.parse(mapping[field]) <= 0:
            yield invalid(f"{path}.{field}", mapping[field], "must be positive")


def _overhead(overhead: Object, path: str) -> Iterator[FieldError]:
    if not {"perPod", "perContainer"} & overhead.keys():
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    for field in ("perPod", "perContainer"):
        if field in overhead and quantity.parse(overhead[field]) < 0:
            yield invalid(f"{path}.{field}", overhead[field], "must be non-negative")


def _text(kind: str, text: str, path: str) -> Iterator[FieldError]:
    if kind == "version" and not is_semver(text):
        yield invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    if len(text.encode()) > MAX_VALUE_LENGTH:
        yield too_long(path, MAX_VALUE_LENGTH)
