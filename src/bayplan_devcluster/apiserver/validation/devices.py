"""Rules of resource claims, device classes and resource slices that concern several fields.

Mirrors Kubernetes' pkg/apis/resource/validation/validation.go. The details of errors in CEL expressions differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, not_supported, required, too_long
from bayplan.core.api.names import name_errors
from bayplan.core.api.requests import is_extended
from bayplan.core.devices.limits import MAX_EXPRESSION_LENGTH
from bayplan.core.devices.requests import ALL, EXACT_COUNT
from bayplan.foundations.lazy import on_use
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.attributes import LISTS_GATE
from bayplan_devcluster.apiserver.validation.rules import At, check, driver, problems, unchanged

with on_use():
    from bayplan.core.devices.cel import selectors


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
_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def claim_status(claim: Object, at: At) -> Iterator[FieldError]:
    """The allocation and the reservations of a claim."""
    old = at.old
    status, was = claim.get("status", {}), old.get("status", {})
    reserved, allocation = status.get("reservedFor", ()), status.get("allocation")
    yield from check("reservations", status)
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
        yield from unchanged(allocation, At("status.allocation", old=was["allocation"]))
    elif allocation is not None:
        requests = claim["spec"].get("devices", {}).get("requests")
        yield from check("resource_v1.AllocationResult", {**allocation, "requests": requests}, At("status.allocation"))


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


def extended_name(name: str, at: At) -> Iterator[FieldError]:
    """The name of an extended resource."""
    if not is_extended(name) or name_errors(name.partition("/")[0], "subdomain"):
        yield invalid(at.path, name, "must be a valid extended resource name")


def offers(spec: Object, at: At) -> Iterator[FieldError]:
    """The devices of a slice, or its counters."""
    if "sharedCounters" in spec and "devices" in spec:
        yield invalid(at.path, "", "only one of `sharedCounters` or `devices` is allowed")
    devices = spec.get("devices", ())
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    yield from check("special_offers" if special else "offers", spec, at)
    if not spec.get("perDeviceNodeSelection"):
        for index, device in enumerate(devices):
            if any(device.get(field) is not None for field in ("nodeName", "nodeSelector", "allNodes")):
                detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
                yield invalid(f"{at.path}.devices[{index}]", None, f"{detail}to true in the ResourceSlice spec")


def constraint(one: Object, at: At) -> Iterator[FieldError]:
    """What a constraint matches: one attribute."""
    fields = ("matchAttribute", "distinctAttribute")
    for field in fields[: 1 if "matchAttribute" in one else 2]:
        if field in one:
            yield from full_name(one[field], f"{at.path}.{field}")
    if not any(field in one for field in fields):
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        yield required(at.path, detail)


def one_way(request: Object, at: At) -> Iterator[FieldError]:
    """A request is for devices of one class, or has alternatives."""
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield invalid(at.path, None, detail)
    elif exactly is not None or alternatives:
        yield from check("ways", request, at)
    else:
        yield required(at.path, "exactly one of `exactly` or `firstAvailable` is required")


def count(exact: Object, at: At) -> Iterator[FieldError]:
    """How many devices a request is for."""
    mode, number = exact.get("allocationMode"), exact.get("count", 0)
    if mode == ALL and number:
        yield invalid(f"{at.path}.count", number, "must not be specified when allocationMode is 'All'")
    elif mode == EXACT_COUNT and number <= 0:
        yield invalid(f"{at.path}.count", number, "must be greater than zero")
    elif mode not in {ALL, EXACT_COUNT}:
        yield not_supported(f"{at.path}.allocationMode", mode, (ALL, EXACT_COUNT))


def selector(selector: Object, at: At) -> Iterator[FieldError]:
    """A CEL expression that selects devices."""
    where = f"{at.path}.cel.expression"
    if selector.get("cel") is None:
        yield required(f"{at.path}.cel")
    elif not selector["cel"].get("expression"):
        yield invalid(where, "", EMPTY_EXPRESSION)
    elif len(selector["cel"]["expression"]) > MAX_EXPRESSION_LENGTH:
        yield too_long(where, MAX_EXPRESSION_LENGTH)
    elif problem := _compile_error(selector["cel"]["expression"], lists=LISTS_GATE in at.features):
        yield invalid(where, selector["cel"]["expression"], problem)


@lru_cache(maxsize=256)
def _compile_error(expression: str, *, lists: bool) -> str:
    """The error of a new CEL expression, "" if it is valid. `lists` is that of Selector."""
    try:
        selectors.Selector(expression, lists=lists, stored=False)
    except selectors.CompileError as error:
        return f"compilation failed: {error}"
    return ""


def given(value: Any, at: At) -> Iterator[FieldError]:
    """A value that may be empty, but not missing."""
    if value is None:
        yield required(at.path)


def place(spec: Object, _at: At) -> Iterator[FieldError]:
    """The fields that say which nodes the devices of a slice are on: exactly one is set."""
    given = [field for field in _PLACES if spec.get(field) is not None]
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            yield invalid(f"spec.{field}", spec[field], "must be either unset or set to true")
            given.remove(field)
    if spec.get("nodeName") is not None:
        yield from problems("spec.nodeName", spec["nodeName"], name_errors(spec["nodeName"], "subdomain"))
    if spec.get("nodeSelector") is not None:
        yield from check("core_v1.NodeSelector", spec["nodeSelector"], At("spec.nodeSelector"))
        if len(spec["nodeSelector"].get("nodeSelectorTerms") or ()) != 1:
            terms = spec["nodeSelector"].get("nodeSelectorTerms") or ()
            yield invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    ways = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        yield required("spec", ways)
    elif len(given) > 1:
        shown = ", ".join(f"`{field}`" for field in given)
        yield invalid("spec", f"{{{shown}}}", f"{ways}, but multiple fields are set")


def full_name(name: str, where: str) -> Iterator[FieldError]:
    """Rules for the name of an attribute with its domain."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield invalid(where, "", "the domain must not be empty")
    elif slash and "/" not in domain:
        yield from driver(domain, At(where))
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


def pool_name(name: str | None, at: At) -> Iterator[FieldError]:
    """The name of a pool of devices."""
    if not name:
        yield required(at.path)
        return
    for part in name.split("/"):
        yield from problems(at.path, part, name_errors(part, "subdomain"))


def _request_names(devices: Object) -> set[str]:
    """The names that refer to requests."""
    requests = devices.get("requests") or ()
    alternatives = {f"{one['name']}/{each['name']}" for one in requests for each in one.get("firstAvailable") or ()}
    return {one["name"] for one in requests} | alternatives


def reference(name: str | None, at: At) -> Iterator[FieldError]:
    """The name of a request of the claim."""
    if (name or "") not in _request_names(at.above[1]):
        yield invalid(at.path, name or "", _A_REQUEST)


def _device(result: Object) -> tuple[str, str, str, str]:
    return result.get("driver", ""), result.get("pool", ""), result.get("device", ""), result.get("shareID") or ""
