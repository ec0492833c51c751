"""Validates services. Mirrors Kubernetes' pkg/apis/core/validation/validation.go; the rules that concern the assignment
of cluster IPs are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from bayplan.api.labels import label_key_errors
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import one_of, problems
from bayplan.devcluster.apiserver.validation.containers import PROTOCOLS
from bayplan.devcluster.apiserver.validation.meta import name_errors, validate_labels
from bayplan.devcluster.apiserver.validation.ports import validate_port_name, validate_port_number

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
AFFINITIES = ("ClientIP", "None")
LONGEST_AFFINITY = 86400
"""Seconds."""


def validate_service(service: Object) -> Iterator[FieldError]:
    """Rules for a service."""
    spec = service["spec"]
    ports, kind, headless = spec.get("ports", ()), spec["type"], spec.get("clusterIP") == "None"
    if not ports and kind != "ExternalName" and not headless:
        yield required("spec.ports")
    if headless and kind in {"LoadBalancer", "NodePort"}:
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        name = spec.get("externalName", "").removesuffix(".")
        if not name:
            yield required("spec.externalName")
        yield from problems("spec.externalName", name, name_errors(name, "subdomain") if name else ())
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, f"spec.ports[{index}]", names, named=len(ports) > 1)
    yield from validate_labels(spec.get("selector"), "spec.selector")
    yield from _affinity(spec)
    yield from one_of("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy", FAMILY_POLICIES[0]), FAMILY_POLICIES)
    distribution = spec.get("trafficDistribution", DISTRIBUTIONS[0])
    yield from one_of("spec.trafficDistribution", distribution, DISTRIBUTIONS)
    yield from one_of("spec.type", kind, TYPES)
    yield from _collisions(spec)


def _port(port: Object, where: str, names: set[str], *, named: bool) -> Iterator[FieldError]:
    name = port.get("name", "")
    if named and not name:
        yield required(f"{where}.name")
    elif name:
        yield from problems(f"{where}.name", name, name_errors(name, "label"))
        if name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
    yield from validate_port_number(port.get("port", 0), f"{where}.port")
    yield from one_of(f"{where}.protocol", port["protocol"], PROTOCOLS)
    target = port.get("targetPort", 0)
    if isinstance(target, int):
        yield from validate_port_number(target, f"{where}.targetPort")
    else:
        yield from validate_port_name(target, f"{where}.targetPort")
    for error in label_key_errors(port["appProtocol"]) if "appProtocol" in port else ():
        yield invalid(f"{where}.appProtocol", port["appProtocol"], error)


def _affinity(spec: Object) -> Iterator[FieldError]:
    affinity, config = spec.get("sessionAffinity", "None"), spec.get("sessionAffinityConfig")
    if affinity not in AFFINITIES:
        yield not_supported("spec.sessionAffinity", affinity, AFFINITIES)
    elif affinity == "None" and config is not None:
        yield forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None")
    elif affinity == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= LONGEST_AFFINITY:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(where, seconds, f"must be greater than 0 and less than {LONGEST_AFFINITY}")


def _collisions(spec: Object) -> Iterator[FieldError]:
    ports: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports", ())):
        at, node_port = f"spec.ports[{index}]", port.get("nodePort", 0)
        if node_port and spec["type"] == "ClusterIP":
            yield forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if node_port and (port["protocol"], node_port) in node_ports:
            yield duplicate(f"{at}.nodePort", node_port)
        node_ports.add((port["protocol"], node_port))
        key = (port["protocol"], port.get("port", 0))
        if key in ports:
            yield duplicate(at, {"protocol": key[0], "port": key[1]})
        ports.add(key)
