"""Rules for IP addresses, CIDRs, ports and host names.

Mirrors apimachinery's pkg/util/validation and ValidateEndpointIP of Kubernetes' pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from bayplan.api.field_errors import FieldError, invalid
from bayplan.devcluster.apiserver.validation.meta import name_errors

PORT_RULE = "must be between 1 and 65535, inclusive"
WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '{WILDCARD}')"
)
_WILDCARD = re.compile(WILDCARD)
_ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Returns an IP address, None if the text is not one."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def parse_network(text: str) -> IPv4Network | IPv6Network | None:
    """Returns the network of a CIDR, None if the text is not one."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def validate_address(text: str, where: str) -> Iterator[FieldError]:
    """Rules for an IP address."""
    if parse_address(text) is None:
        yield invalid(where, text, _ADDRESS_RULE)


def validate_cidr(text: str, where: str) -> Iterator[FieldError]:
    """Rules for a CIDR."""
    if parse_network(text) is None:
        yield invalid(where, text, _CIDR_RULE)


def validate_endpoint_address(text: str, where: str) -> Iterator[FieldError]:
    """Rules for the address of an endpoint, in addition to those for an address."""
    address = parse_address(text)
    if address is None:
        yield invalid(where, text, "must be a valid IP address")
        return
    if address.is_unspecified:
        yield invalid(where, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        yield invalid(where, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield invalid(where, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if (address.version == 4 and text.startswith("224.0.0.")) or text.lower().startswith("ff02:"):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield invalid(where, text, detail)


def validate_port_number(port: int, where: str) -> Iterator[FieldError]:
    """Rules for the number of a port."""
    if not 1 <= port <= 65535:
        yield invalid(where, port, PORT_RULE)


def validate_port_name(name: str, where: str) -> Iterator[FieldError]:
    """Rules for the name of a port."""
    if len(name) > 15:
        yield invalid(where, name, "must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield invalid(where, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        yield invalid(where, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield invalid(where, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        yield invalid(where, name, "must not begin or end with a hyphen")


def validate_host(host: str, where: str) -> Iterator[FieldError]:
    """Rules for a host name, which may begin with a wildcard."""
    if "*" not in host:
        for error in name_errors(host, "subdomain"):
            yield invalid(where, host, error)
        return
    if len(host) > 253:
        yield invalid(where, host, "must be no more than 253 characters")
    if not _WILDCARD.fullmatch(host):
        yield invalid(where, host, WILDCARD_RULE)
