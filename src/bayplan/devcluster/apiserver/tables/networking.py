"""The rows of the kinds of networking and discovery."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Column, Table, age, selector_text

DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
SHOWN = 3
"""How many addresses, ports or hosts a cell lists."""
ADDRESS_WIDTH = 16


def _endpoints(endpoints: Object, now: datetime) -> list[Any]:
    found: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        for port in ports:
            found += [f"{f'[{ip}]' if ':' in ip else ip}:{port['port']}" for ip in addresses]
    return [endpoints["metadata"]["name"], _listed(found, "<none>"), age(endpoints, now)]


def _listed(texts: Sequence[str], empty: str) -> str:
    more = f" + {len(texts) - SHOWN} more..." if len(texts) > SHOWN else ""
    return f"{','.join(texts[:SHOWN])}{more}" or empty


def _endpoint_slice(endpoint_slice: Object, now: datetime) -> list[Any]:
    ports = [str(port.get("port") or port.get("name", "")) for port in endpoint_slice.get("ports") or ()]
    addresses = [
        address for endpoint in endpoint_slice.get("endpoints") or () for address in endpoint.get("addresses") or ()
    ]
    return [
        endpoint_slice["metadata"]["name"],
        endpoint_slice["addressType"],
        _listed(ports, "<unset>"),
        _listed(addresses, "<unset>"),
        age(endpoint_slice, now),
    ]


def _ingress(ingress: Object, now: datetime) -> list[Any]:
    spec = ingress["spec"]
    rules = spec.get("rules") or ()
    hosts = [rule["host"] for rule in rules[:SHOWN] if rule.get("host")]
    more = f" + {len(rules) - SHOWN} more..." if hosts and len(rules) > SHOWN else ""
    points = ingress.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    address = ",".join(sorted({point.get("ip") or point.get("hostname", "") for point in points} - {""}))
    return [
        ingress["metadata"]["name"],
        spec.get("ingressClassName", "<none>"),
        f"{','.join(hosts)}{more}" or "*",
        address if len(address) <= ADDRESS_WIDTH else f"{address[: ADDRESS_WIDTH - 3]}...",
        "80, 443" if spec.get("tls") else "80",
        age(ingress, now),
    ]


def _ingress_class(ingress_class: Object, now: datetime) -> list[Any]:
    metadata, spec = ingress_class["metadata"], ingress_class.get("spec", {})
    default = metadata.get("annotations", {}).get(DEFAULT_CLASS) == "true"
    parameters = spec.get("parameters")
    reference = "<none>"
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        reference = f"{parameters['kind']}{group}/{parameters['name']}"
    name = f"{metadata['name']} (default)" if default else metadata["name"]
    return [name, spec.get("controller", ""), reference, age(ingress_class, now)]


def _network_policy(policy: Object, now: datetime) -> list[Any]:
    return [policy["metadata"]["name"], selector_text(policy["spec"].get("podSelector")), age(policy, now)]


TABLES: dict[kinds.Kind, Table] = {
    kinds.ENDPOINTS: ((NAME, Column("Endpoints", "core_v1.Endpoints.subsets"), AGE), _endpoints),
    kinds.ENDPOINT_SLICE: (
        (
            NAME,
            Column("AddressType", "discovery_v1.EndpointSlice.addressType"),
            Column("Ports", "discovery_v1.EndpointSlice.ports"),
            Column("Endpoints", "discovery_v1.EndpointSlice.endpoints"),
            AGE,
        ),
        _endpoint_slice,
    ),
    kinds.INGRESS: (
        (
            NAME,
            Column("Class", "The name of the IngressClass resource that should be used for additional configuration"),
            Column("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
            Column("Address", "Address is a list containing ingress points for the load-balancer"),
            Column("Ports", "Ports of TLS configurations that open"),
            AGE,
        ),
        _ingress,
    ),
    kinds.INGRESS_CLASS: (
        (
            NAME,
            Column("Controller", "Controller that is responsible for handling this class"),
            Column("Parameters", "A reference to a resource with additional parameters"),
            AGE,
        ),
        _ingress_class,
    ),
    kinds.NETWORK_POLICY: (
        (NAME, Column("Pod-Selector", "networking_v1.NetworkPolicySpec.podSelector"), AGE),
        _network_policy,
    ),
}
