"""Rules for Endpoints and EndpointSlices. Mirrors Kubernetes' pkg/apis/{core,discovery}/validation."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from bayplan.api.labels import label_key_errors
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.addresses import (
    parse_address,
    validate_address,
    validate_endpoint_address,
    validate_port_number,
)
from bayplan.devcluster.apiserver.validation.meta import name_errors

PROTOCOLS = ("SCTP", "TCP", "UDP")
ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_VERSIONS = {"IPv4": 4, "IPv6": 6}


def validate_endpoints(endpoints: Object) -> Iterator[FieldError]:
    """Rules for Endpoints."""
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        at = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(at, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(field) or ()):
                yield from _address(address, f"{at}.{field}[{position}]")
        ports = subset.get("ports") or ()
        for position, port in enumerate(ports):
            yield from _port(port, f"{at}.ports[{position}]", needs_name=len(ports) > 1)


def _address(address: Object, where: str) -> Iterator[FieldError]:
    text = address.get("ip", "")
    yield from validate_address(text, f"{where}.ip")
    for field, rule in (("hostname", "label"), ("nodeName", "subdomain")):
        if address.get(field):
            yield from _named(address[field], rule, f"{where}.{field}")
    yield from validate_endpoint_address(text, f"{where}.ip")


def _named(name: str, rule: str, where: str) -> Iterator[FieldError]:
    for error in name_errors(name, rule):
        yield invalid(where, name, error)


def _port(port: Object, where: str, *, needs_name: bool) -> Iterator[FieldError]:
    if port.get("name"):
        yield from _named(port["name"], "label", f"{where}.name")
    elif needs_name:
        yield required(f"{where}.name")
    yield from validate_port_number(port.get("port", 0), f"{where}.port")
    yield from _protocol(port, where)


def _protocol(port: Object, where: str) -> Iterator[FieldError]:
    if port["protocol"] not in PROTOCOLS:
        yield not_supported(f"{where}.protocol", port["protocol"], PROTOCOLS)
    if "appProtocol" in port:
        for error in label_key_errors(port["appProtocol"]):
            yield invalid(f"{where}.appProtocol", port["appProtocol"], error)


def validate_endpoint_slice(endpoint_slice: Object) -> Iterator[FieldError]:
    """Rules for an EndpointSlice."""
    kind = endpoint_slice.get("addressType", "")
    if not kind:
        yield required("addressType")
    elif kind not in ADDRESS_TYPES:
        yield not_supported("addressType", kind, ADDRESS_TYPES)
    names: set[str] = set()
    for index, port in enumerate(endpoint_slice.get("ports") or ()):
        at, name = f"ports[{index}]", port["name"]
        if name:
            yield from _named(name, "label", f"{at}.name")
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        yield from _protocol(port, at)
    endpoints = endpoint_slice.get("endpoints") or ()
    if len(endpoints) > 1000:
        yield too_many("endpoints", len(endpoints), 1000)
        return
    for index, endpoint in enumerate(endpoints):
        yield from _endpoint(endpoint, kind, f"endpoints[{index}]")


def _endpoint(endpoint: Object, kind: str, where: str) -> Iterator[FieldError]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield required(f"{where}.addresses", "must contain at least 1 address")
    elif len(addresses) > 100:
        yield too_many(f"{where}.addresses", len(addresses), 100)
    for index, text in enumerate(addresses):
        at = f"{where}.addresses[{index}]"
        if kind in _VERSIONS:
            yield from _slice_address(text, kind, f"{where}.addresses", at)
        elif kind == "FQDN":
            yield from _named(text, "subdomain", at)
    for field, rule in (("nodeName", "subdomain"), ("hostname", "label")):
        if field in endpoint:
            yield from _named(endpoint[field], rule, f"{where}.{field}")


def _slice_address(text: str, kind: str, listed: str, where: str) -> Iterator[FieldError]:
    address = parse_address(text)
    if address is None:
        yield from validate_address(text, where)
        return
    if address.version != _VERSIONS[kind]:
        yield invalid(listed, text, f"must be an {kind} address")
    yield from validate_endpoint_address(text, where)


def validate_endpoint_slice_update(endpoint_slice: Object, old: Object) -> Iterator[FieldError]:
    """The type of the addresses is immutable."""
    kind = endpoint_slice.get("addressType", "")
    if kind != old.get("addressType", ""):
        yield invalid("addressType", kind, "field is immutable")
