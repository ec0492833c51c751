"""Rules of services that concern several fields. Mirrors Kubernetes' pkg/apis/core/validation/validation.go; the rules
about the assignment of cluster IPs are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from bayplan.core.api.names import name_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, problems

AFFINITIES = ("ClientIP", "None")
LONGEST_AFFINITY = 86400
"""Seconds."""


def head(service: Object, _at: At) -> Iterator[FieldError]:
    """What a service of its type needs."""
    spec = service["spec"]
    kind, headless = spec["type"], spec.get("clusterIP") == "None"
    if not spec.get("ports") and kind != "ExternalName" and not headless:
        yield required("spec.ports")
    if headless and kind in {"LoadBalancer", "NodePort"}:
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        name = spec.get("externalName", "").removesuffix(".")
        if not name:
            yield required("spec.externalName")
        yield from problems("spec.externalName", name, name_errors(name, "subdomain") if name else ())


def port_name(port: Object, at: At) -> Iterator[FieldError]:
    """The name of a port, which one of several ports needs."""
    name = port.get("name", "")
    if not name and len(at.items) > 1:
        yield required(f"{at.path}.name")
    elif name:
        yield from problems(f"{at.path}.name", name, name_errors(name, "label"))
        if any(other.get("name") == name for other in at.before):
            yield duplicate(f"{at.path}.name", name)


def affinity(spec: Object, _at: At) -> Iterator[FieldError]:
    """The session affinity of a service."""
    kind, config = spec.get("sessionAffinity", "None"), spec.get("sessionAffinityConfig")
    if kind not in AFFINITIES:
        yield not_supported("spec.sessionAffinity", kind, AFFINITIES)
    elif kind == "None" and config is not None:
        yield forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None")
    elif kind == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= LONGEST_AFFINITY:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(where, seconds, f"must be greater than 0 and less than {LONGEST_AFFINITY}")


def collisions(spec: Object, _at: At) -> Iterator[FieldError]:
    """The ports of a service differ."""
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
