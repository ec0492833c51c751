"""Rules for ingresses, their classes, and network policies. Mirrors Kubernetes' pkg/apis/networking/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.addresses import (
    parse_address,
    parse_network,
    validate_address,
    validate_cidr,
    validate_host,
    validate_port_name,
    validate_port_number,
)
from bayplan.devcluster.apiserver.validation.meta import name_errors
from bayplan.devcluster.apiserver.validation.selectors import validate_label_selector

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
PROTOCOLS = ("TCP", "UDP", "SCTP")
_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_SUFFIXES = ("/..", "/.")
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


# Ingresses


def validate_ingress(ingress: Object) -> Iterator[FieldError]:
    """Rules for an ingress."""
    spec = ingress["spec"]
    rules = spec.get("rules") or []
    if not rules and "defaultBackend" not in spec:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if "defaultBackend" in spec:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for position, host in enumerate(tls.get("hosts") or ()):
            yield from validate_host(host, f"spec.tls[{index}].hosts[{position}]")
        if tls.get("secretName"):
            yield from _named(tls["secretName"], "subdomain", f"spec.tls[{index}].secretName")
    if "ingressClassName" in spec:
        yield from _named(spec["ingressClassName"], "subdomain", "spec.ingressClassName")


def validate_new_ingress(ingress: Object) -> Iterator[FieldError]:
    """Rules for an ingress that does not exist yet."""
    annotation = ingress["metadata"].get("annotations", {}).get(CLASS_ANNOTATION)
    if annotation is not None and ingress["spec"].get("ingressClassName", annotation) != annotation:
        detail = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{CLASS_ANNOTATION}", annotation, detail)


def validate_ingress_status(ingress: Object, _old: Object) -> Iterator[FieldError]:
    """Rules for the status of an ingress."""
    for index, point in enumerate(ingress.get("status", {}).get("loadBalancer", {}).get("ingress") or ()):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            yield from validate_address(point["ip"], f"{at}.ip")
        if point.get("hostname"):
            yield from _named(point["hostname"], "subdomain", f"{at}.hostname")
            yield from _no_address(point["hostname"], f"{at}.hostname")


def _named(name: str, rule: str, where: str) -> Iterator[FieldError]:
    for error in name_errors(name, rule):
        yield invalid(where, name, error)


def _no_address(host: str, where: str) -> Iterator[FieldError]:
    if parse_address(host) is not None:
        yield invalid(where, host, "must be a DNS name, not an IP address")


def _rule(rule: Object, where: str) -> Iterator[FieldError]:
    if rule.get("host"):
        yield from _no_address(rule["host"], f"{where}.host")
        yield from validate_host(rule["host"], f"{where}.host")
    if "http" not in rule:
        return
    paths = rule["http"].get("paths") or ()
    if not paths:
        yield required(f"{where}.http.paths")
    for index, path in enumerate(paths):
        yield from _path(path, f"{where}.http.paths[{index}]")


def _path(path: Object, where: str) -> Iterator[FieldError]:
    kind, text = path.get("pathType"), path.get("path", "")
    if kind is None:
        yield required(f"{where}.pathType", "pathType must be specified")
        return
    if kind not in PATH_TYPES:
        yield not_supported(f"{where}.pathType", kind, PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{where}.path", text, "must be an absolute path")
    if kind in {"Exact", "Prefix"}:
        for sequence in _SEQUENCES:
            if sequence in text:
                yield invalid(f"{where}.path", text, f"must not contain '{sequence}'")
        for suffix in _SUFFIXES:
            if text.endswith(suffix):
                yield invalid(f"{where}.path", text, f"cannot end with '{suffix}'")
    yield from _backend(path["backend"], f"{where}.backend")


def _backend(backend: Object, where: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(where, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(resource, f"{where}.resource")
    elif service is None:
        yield invalid(where, "", "resource or service backend is required")
    else:
        yield from _service(service, where)


def _service(service: Object, where: str) -> Iterator[FieldError]:
    if not service.get("name"):
        yield required(f"{where}.service.name")
    else:
        yield from _named(service["name"], "label", f"{where}.service.name")
    port = service.get("port", {})
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        yield invalid(where, "", "cannot set both port name & port number")
    elif name:
        yield from validate_port_name(name, f"{where}.service.port.name")
    elif number:
        yield from validate_port_number(number, f"{where}.service.port.number")
    else:
        yield required(where, "port name or number is required")


def _reference(reference: Object, where: str) -> Iterator[FieldError]:
    if reference.get("apiGroup") is not None:
        yield from _named(reference["apiGroup"], "subdomain", f"{where}.apiGroup")
    for field in ("kind", "name"):
        if not reference.get(field):
            yield required(f"{where}.{field}")
        else:
            yield from _named(reference[field], "path", f"{where}.{field}")


# Ingress classes


def validate_ingress_class(ingress_class: Object) -> Iterator[FieldError]:
    """Rules for an ingress class."""
    spec = ingress_class.get("spec", {})
    controller = spec.get("controller", "")
    if len(controller) > 250:
        yield too_long("spec.controller", 250)
    yield from _domain_prefixed_path(controller, "spec.controller")
    parameters = spec.get("parameters")
    if parameters is None:
        return
    where = "spec.parameters"
    yield from _reference(parameters, where)
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in {"Cluster", "Namespace"}:
        yield not_supported(f"{where}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace" and namespace is None:
        yield required(f"{where}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        yield from _named(namespace, "label", f"{where}.namespace")
    elif namespace is not None:
        yield forbidden(f"{where}.namespace", "`parameters.scope` is set to 'Cluster'")


def _domain_prefixed_path(text: str, where: str) -> Iterator[FieldError]:
    domain, _, path = text.partition("/")
    if not text:
        yield required(where)
    elif not domain or not path:
        yield invalid(where, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from _named(domain, "subdomain", where)
        if not re.fullmatch(_PATH, path):
            yield invalid(where, path, f"Invalid path (regex used for validation is '{_PATH}')")


def validate_ingress_class_update(ingress_class: Object, old: Object) -> Iterator[FieldError]:
    """The controller is immutable."""
    controller = ingress_class.get("spec", {}).get("controller", "")
    if controller != old.get("spec", {}).get("controller", ""):
        yield invalid("spec.controller", controller, "field is immutable")


# Network policies


def validate_network_policy(policy: Object) -> Iterator[FieldError]:
    """Rules for a network policy."""
    spec = policy["spec"]
    yield from validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, f"{at}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{at}.{peers}[{position}]")
    kinds = spec["policyTypes"]
    if len(kinds) > 2:
        yield invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in {"Ingress", "Egress"}:
            yield not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port(port: Object, where: str) -> Iterator[FieldError]:
    if port["protocol"] not in PROTOCOLS:
        yield not_supported(f"{where}.protocol", port["protocol"], PROTOCOLS)
    number, last = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        yield from validate_port_number(number, f"{where}.port")
        if last is not None:
            if last < number:
                yield invalid(f"{where}.endPort", number, "must be greater than or equal to `port`")
            yield from validate_port_number(last, f"{where}.endPort")
        return
    if last is not None:
        why = "`port` is not specified" if number is None else "`port` is non-numeric"
        yield invalid(f"{where}.endPort", last, f"may not be specified when {why}")
    if number is not None:
        yield from validate_port_name(number, f"{where}.port")


def _peer(peer: Object, where: str) -> Iterator[FieldError]:
    for field in ("podSelector", "namespaceSelector"):
        if field in peer:
            yield from validate_label_selector(peer[field], f"{where}.{field}")
    if "ipBlock" in peer:
        yield from _block(peer["ipBlock"], f"{where}.ipBlock")
    if not peer:
        yield required(where, "must specify a peer")
    elif "ipBlock" in peer and len(peer) > 1:
        yield forbidden(where, "may not specify both ipBlock and another peer")


def _block(block: Object, where: str) -> Iterator[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        yield required(f"{where}.cidr")
        return
    yield from validate_cidr(cidr, f"{where}.cidr")
    network = parse_network(cidr)
    if network is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        at = f"{where}.except[{index}]"
        yield from validate_cidr(text, at)
        part = parse_network(text)
        if part is not None and (part.network_address not in network or network.prefixlen >= part.prefixlen):
            yield invalid(at, text, "must be a strict subset of `cidr`")
