"""Validates resource claims with their allocations, device classes and resource slices.

Mirrors Kubernetes' pkg/apis/resource/validation/validation.go. The details of errors in CEL expressions differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from bayplan.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from bayplan.api.requests import is_extended
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import problems, unchanged
from bayplan.devcluster.apiserver.validation.meta import name_errors, validate_meta_details
from bayplan.devcluster.apiserver.validation.selectors import validate_node_selector
from bayplan.devices.limits import (
    MAX_ALTERNATIVES,
    MAX_CONFIGS,
    MAX_CONSTRAINTS,
    MAX_DEVICES,
    MAX_EXPRESSION_LENGTH,
    MAX_REQUESTS,
    MAX_RESERVATIONS,
    MAX_RESULTS,
    MAX_SELECTORS,
    MAX_SPECIAL_DEVICES,
)
from bayplan.devices.requests import ALL, EXACT_COUNT

EMPTY_EXPRESSION = (
    "compilation failed: ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', "
    "'-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | \n | ^"
)
MAX_IDENTIFIER = 32
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
ATTRIBUTE_VALUES = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")
MODES = (ALL, EXACT_COUNT)
_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")

Rule = Callable[[Object, str], Iterator[FieldError]]


def validate_new_resource_claim(claim: Object) -> Iterator[FieldError]:
    """Rules for a new claim."""
    yield from _claimed(claim["spec"].get("devices", {}), "spec.devices")


def validate_resource_claim_update(claim: Object, old: Object) -> Iterator[FieldError]:
    """The spec of a claim is immutable."""
    yield from unchanged("spec", claim["spec"], old["spec"])


def validate_resource_claim_status(claim: Object, old: Object) -> Iterator[FieldError]:
    """Rules for the allocation and the reservations of a claim."""
    status, was = claim.get("status", {}), old.get("status", {})
    reserved, allocation = status.get("reservedFor", ()), status.get("allocation")
    yield from _set(reserved, MAX_RESERVATIONS, _consumer, "uid", "status.reservedFor")
    devices = {_device(result) for result in (allocation or {}).get("devices", {}).get("results", ())}
    for index, device in enumerate(status.get("devices", ())):
        if _device(device) not in devices:
            detail = "must be an allocated device in the claim"
            yield invalid(f"status.devices[{index}]", "/".join(_device(device)), detail)
    if reserved and allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif "deletionTimestamp" in claim["metadata"] and any(one not in was.get("reservedFor", ()) for one in reserved):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden("status.reservedFor", detail)
    if allocation is not None and was.get("allocation") is not None:
        yield from unchanged("status.allocation", allocation, was["allocation"])
    elif allocation is not None:
        yield from _allocation(allocation, _request_names(claim["spec"].get("devices", {})), "status.allocation")


def prepare_resource_claim_status(claim: Object, old: Object) -> None:
    """Keeps the metadata, and removes the status of devices that are no longer allocated."""
    for field in ("labels", "annotations", "ownerReferences", "finalizers"):
        claim["metadata"].pop(field, None)
        if field in old["metadata"]:
            claim["metadata"][field] = old["metadata"][field]
    status, was = claim.get("status", {}), old.get("status", {})
    allocated, before = (
        {_device(result) for result in (one.get("allocation") or {}).get("devices", {}).get("results", ())}
        for one in (status, was)
    )
    left = [device for device in status.pop("devices", ()) if _device(device) not in before - allocated]
    if left:
        status["devices"] = left


def validate_resource_claim_template(template: Object) -> Iterator[FieldError]:
    """Rules for a template and its claims."""
    yield from validate_meta_details(template["spec"].get("metadata", {}), "spec.metadata")
    yield from _claimed(template["spec"].get("spec", {}).get("devices", {}), "spec.spec.devices")


def validate_device_class(device_class: Object) -> Iterator[FieldError]:
    """Rules for a device class."""
    spec = device_class["spec"]
    yield from _selectors(spec.get("selectors", ()), "spec.selectors")
    yield from _list(spec.get("config", ()), MAX_CONFIGS, _configuration, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and (not is_extended(name) or name_errors(name.partition("/")[0], "subdomain")):
        yield invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


def validate_resource_slice(resource_slice: Object) -> Iterator[FieldError]:
    """Rules for a resource slice."""
    spec = resource_slice["spec"]
    yield from _driver(spec.get("driver", ""), "spec.driver")
    pool = spec.get("pool", {})
    yield from _pool_name(pool.get("name", ""), "spec.pool.name")
    if pool.get("resourceSliceCount", 0) <= 0:
        detail = "must be greater than zero"
        yield invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), detail)
    if pool.get("generation", 0) < 0:
        yield invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero")
    yield from _place(spec)
    if "sharedCounters" in spec and "devices" in spec:
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    devices = spec.get("devices", ())
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = MAX_SPECIAL_DEVICES if special else MAX_DEVICES
    yield from _set(devices, most, _offered, "name", "spec.devices")
    if not spec.get("perDeviceNodeSelection"):
        for index, device in enumerate(devices):
            if any(device.get(field) is not None for field in ("nodeName", "nodeSelector", "allNodes")):
                detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
                yield invalid(f"spec.devices[{index}]", None, f"{detail}to true in the ResourceSlice spec")


def _offered(device: Object, where: str) -> Iterator[FieldError]:
    yield from _named(device, where)
    for name, attribute in device.get("attributes", {}).items():
        values = [field for field in ATTRIBUTE_VALUES if field in attribute]
        if len(values) != 1:
            shown = "" if not values else f"{{{', '.join(values)}}}"
            yield invalid(f"{where}.attributes[{name}]", shown, "exactly one value must be specified")


def validate_resource_slice_update(resource_slice: Object, old: Object) -> Iterator[FieldError]:
    """The driver, the pool's name and the node of a slice are immutable."""
    spec, was = resource_slice["spec"], old["spec"]
    yield from unchanged("spec.pool.name", spec.get("pool", {}).get("name"), was.get("pool", {}).get("name"))
    for field in ("driver", "nodeName"):
        yield from unchanged(f"spec.{field}", spec.get(field), was.get(field))


def _claimed(devices: Object, where: str) -> Iterator[FieldError]:
    names = _request_names(devices)

    def constraint(one: Object, at: str) -> Iterator[FieldError]:
        yield from _references(one.get("requests", ()), names, f"{at}.requests")
        attributes = [one[field] for field in ("matchAttribute", "distinctAttribute") if field in one]
        for field in ("matchAttribute", "distinctAttribute")[: 1 if "matchAttribute" in one else 2]:
            if field in one:
                yield from _full_name(one[field], f"{at}.{field}")
        if not attributes:
            detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            yield required(at, detail)

    def configuration(one: Object, at: str) -> Iterator[FieldError]:
        yield from _references(one.get("requests", ()), names, f"{at}.requests")
        yield from _configuration(one, at)

    yield from _set(devices.get("requests") or (), MAX_REQUESTS, _request, "name", f"{where}.requests")
    yield from _list(devices.get("constraints") or (), MAX_CONSTRAINTS, constraint, f"{where}.constraints")
    yield from _list(devices.get("config") or (), MAX_CONFIGS, configuration, f"{where}.config")


def _request(request: Object, where: str) -> Iterator[FieldError]:
    yield from _named(request, where)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield invalid(where, None, detail)
    elif exactly is not None:
        yield from _exact(exactly, f"{where}.exactly")
    elif alternatives:
        yield from _set(alternatives, MAX_ALTERNATIVES, _alternative, "name", f"{where}.firstAvailable")
    else:
        yield required(where, "exactly one of `exactly` or `firstAvailable` is required")


def _alternative(request: Object, where: str) -> Iterator[FieldError]:
    yield from _named(request, where)
    yield from _exact(request, where)


def _exact(exact: Object, where: str) -> Iterator[FieldError]:
    """Rules for the device class, selectors and count of a request."""
    name = exact.get("deviceClassName", "")
    if not name:
        yield required(f"{where}.deviceClassName")
    yield from problems(f"{where}.deviceClassName", name, name_errors(name, "subdomain") if name else ())
    yield from _selectors(exact.get("selectors", ()), f"{where}.selectors")
    mode, count = exact.get("allocationMode"), exact.get("count", 0)
    if mode == ALL and count:
        yield invalid(f"{where}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == EXACT_COUNT and count <= 0:
        yield invalid(f"{where}.count", count, "must be greater than zero")
    elif mode not in MODES:
        yield not_supported(f"{where}.allocationMode", mode, MODES)


def _selectors(selectors: Sequence[Object], where: str) -> Iterator[FieldError]:
    yield from _list(selectors, MAX_SELECTORS, _selector, where)


def _selector(selector: Object, where: str) -> Iterator[FieldError]:
    if selector.get("cel") is None:
        yield required(f"{where}.cel")
    elif not selector["cel"].get("expression"):
        yield invalid(f"{where}.cel.expression", "", EMPTY_EXPRESSION)
    elif len(selector["cel"]["expression"]) > MAX_EXPRESSION_LENGTH:
        yield too_long(f"{where}.cel.expression", MAX_EXPRESSION_LENGTH)
    elif problem := _compile_error(selector["cel"]["expression"]):
        yield invalid(f"{where}.cel.expression", selector["cel"]["expression"], problem)


@lru_cache(maxsize=256)
def _compile_error(expression: str) -> str:
    """The error of a CEL expression, "" if it is valid."""
    from bayplan.devices.cel.selectors import CompileError, Selector  # imported at first use, because it takes long

    try:
        Selector(expression)
    except CompileError as error:
        return f"compilation failed: {error}"
    return ""


def _configuration(configuration: Object, where: str) -> Iterator[FieldError]:
    opaque = configuration.get("opaque")
    if opaque is None:
        yield required(f"{where}.opaque")
        return
    yield from _driver(opaque.get("driver", ""), f"{where}.opaque.driver")
    if opaque.get("parameters") is None:
        yield required(f"{where}.opaque.parameters")


def _allocation(allocation: Object, names: set[str], where: str) -> Iterator[FieldError]:
    def result(one: Object, at: str) -> Iterator[FieldError]:
        yield from _reference(one.get("request", ""), names, f"{at}.request")
        yield from _driver(one.get("driver", ""), f"{at}.driver")
        yield from _pool_name(one.get("pool", ""), f"{at}.pool")
        yield from problems(f"{at}.device", one.get("device", ""), name_errors(one.get("device", ""), "label"))

    devices = allocation.get("devices", {})
    yield from _list(devices.get("results", ()), MAX_RESULTS, result, f"{where}.devices.results")
    if allocation.get("nodeSelector") is not None:
        yield from validate_node_selector(allocation["nodeSelector"], f"{where}.nodeSelector")


def _consumer(consumer: Object, where: str) -> Iterator[FieldError]:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            yield required(f"{where}.{field}")


def _place(spec: Object) -> Iterator[FieldError]:
    """Rules for the fields that say which nodes the devices of a slice are on: exactly one is set."""
    given = [field for field in _PLACES if spec.get(field) is not None]
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            yield invalid(f"spec.{field}", spec[field], "must be either unset or set to true")
            given.remove(field)
    if spec.get("nodeName") is not None:
        yield from problems("spec.nodeName", spec["nodeName"], name_errors(spec["nodeName"], "subdomain"))
    if spec.get("nodeSelector") is not None:
        yield from validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        if len(spec["nodeSelector"].get("nodeSelectorTerms") or ()) != 1:
            terms = spec["nodeSelector"].get("nodeSelectorTerms") or ()
            yield invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    ways = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        yield required("spec", ways)
    elif len(given) > 1:
        shown = ", ".join(f"`{field}`" for field in given)
        yield invalid("spec", f"{{{shown}}}", f"{ways}, but multiple fields are set")


def _full_name(name: str, where: str) -> Iterator[FieldError]:
    """Rules for the name of an attribute with its domain."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield invalid(where, "", "the domain must not be empty")
    elif slash and "/" not in domain:
        yield from _driver(domain, where)
    if slash and not identifier:
        yield invalid(where, "", "the name must not be empty")
    elif "/" not in domain:
        yield from _identifier(identifier, where)
    if not slash:
        yield invalid(where, name, "a fully qualified name must be a domain and a name separated by a slash")


def _identifier(name: str, where: str) -> Iterator[FieldError]:
    if len(name) > MAX_IDENTIFIER:
        yield too_long(where, MAX_IDENTIFIER)
    if not IDENTIFIER.fullmatch(name):
        yield invalid(where, name, IDENTIFIER_RULE)


def _driver(name: str, where: str) -> Iterator[FieldError]:
    if not name:
        yield required(where)
        return
    if len(name) > 63:
        yield too_long(where, 63)
    yield from problems(where, name, name_errors(name.lower(), "subdomain"))


def _pool_name(name: str, where: str) -> Iterator[FieldError]:
    if not name:
        yield required(where)
        return
    for part in name.split("/"):
        yield from problems(where, part, name_errors(part, "subdomain"))


def _named(one: Object, where: str) -> Iterator[FieldError]:
    yield from problems(f"{where}.name", one.get("name", ""), name_errors(one.get("name", ""), "label"))


def _request_names(devices: Object) -> set[str]:
    """The names that refer to requests."""
    requests = devices.get("requests") or ()
    alternatives = {f"{one['name']}/{each['name']}" for one in requests for each in one.get("firstAvailable") or ()}
    return {one["name"] for one in requests} | alternatives


def _references(references: Sequence[str], names: set[str], where: str) -> Iterator[FieldError]:
    for index, reference in enumerate(references):
        yield from _reference(reference, names, f"{where}[{index}]")


def _reference(reference: str, names: set[str], where: str) -> Iterator[FieldError]:
    if reference not in names:
        yield invalid(where, reference, _A_REQUEST)


def _device(result: Object) -> tuple[str, str, str, str]:
    return result.get("driver", ""), result.get("pool", ""), result.get("device", ""), result.get("shareID") or ""


def _list(items: Sequence[Object], most: int, rule: Rule, where: str) -> Iterator[FieldError]:
    """Validates each item, unless there are too many."""
    if len(items) > most:
        yield too_many(where, len(items), most)
        return
    for index, item in enumerate(items):
        yield from rule(item, f"{where}[{index}]")


def _set(items: Sequence[Object], most: int, rule: Rule, key: str, where: str) -> Iterator[FieldError]:
    """Validates a list whose items have distinct keys."""
    yield from _list(items, most, rule, where)
    seen: set[str] = set()
    for index, item in enumerate(items[:most]):
        if item.get(key, "") in seen:
            yield duplicate(f"{where}[{index}]", item[key])
        seen.add(item.get(key, ""))
