"""IP addresses and CIDRs, as Python's ipaddress objects. Mirrors Kubernetes' pkg/cel/library/ip.go and cidr.go."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network
from typing import Any

from bayplan.core.devices.cel.library.quantities import reads
from bayplan.core.devices.cel.values import CelError

_PREFIX = re.compile(r"[^/]*/(0|[1-9][0-9]{0,2})", re.ASCII)
_LINK_LOCAL_GROUP = ip_network("224.0.0.0/24")
_BROADCAST = IPv4Address("255.255.255.255")


def _ip(text: str) -> Any:
    try:
        return _checked(ip_address(str(text)), "IP address", text)
    except ValueError as error:
        if isinstance(error, CelError):
            raise
        raise CelError(f'IP Address "{text}" parse error during conversion from string: unable to parse IP') from None


def _cidr(text: str) -> Any:
    parsing = "network address parse error during conversion from string"
    try:
        if not _PREFIX.fullmatch(text):
            wrong = "bad bits after slash" if "/" in text else "no '/'"
            raise CelError(f'{parsing}: netip.ParsePrefix("{text}"): {wrong}: "{text.partition("/")[2]}"')
        return _checked(ip_interface(str(text)), "CIDR", text)
    except ValueError as error:
        if isinstance(error, CelError):
            raise
        raise CelError(f'{parsing}: netip.ParsePrefix("{text}"): {error}') from None


def _checked(address: Any, what: str, text: str) -> Any:
    if isinstance(address, IPv6Address):
        if address.scope_id:
            raise CelError(f'{what} "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _contains_ip(network: Any, given: Any) -> bool:
    return (_ip(given) if isinstance(given, str) else given) in network.network


def _contains_cidr(network: Any, given: Any) -> bool:
    other = _cidr(given) if isinstance(given, str) else given
    return network.network.prefixlen <= other.network.prefixlen and other.ip in network.network


def _is_link_local_multicast(one: Any) -> bool:
    return one in _LINK_LOCAL_GROUP if one.version == 4 else (int(one) >> 112) & 0xFF0F == 0xFF02


def _is_global_unicast(one: Any) -> bool:
    nowhere = one.is_unspecified or one == _BROADCAST
    return not (nowhere or one.is_multicast or one.is_loopback or one.is_link_local)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip": lambda of: _ip(of) if isinstance(of, str) else of.ip,
    "family": lambda one: one.version,
    "ip.isCanonical": lambda text: str(_ip(text)) == text,
    "isUnspecified": lambda one: one.is_unspecified,
    "isLoopback": lambda one: one.is_loopback,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda one: one.is_link_local,
    "isGlobalUnicast": _is_global_unicast,
    "isIP": lambda text: reads(_ip, text),
    "cidr": _cidr,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda network: network.network.prefixlen,
    "masked": lambda network: ip_interface(network.network),
    "isCIDR": lambda text: reads(_cidr, text),
}
