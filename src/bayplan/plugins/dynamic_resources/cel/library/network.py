"""Addresses and networks. Mirrors Kubernetes' pkg/cel/library/ip.go and cidr.go, and Go's net/netip."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from bayplan.plugins.dynamic_resources.cel.library.quantities import reads
from bayplan.plugins.dynamic_resources.cel.values import CIDR, IP, CelError

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_LOOPBACK4, _LINK_LOCAL4 = ip_network("127.0.0.0/8"), ip_network("169.254.0.0/16")
_LINK_LOCAL6, _LINK_LOCAL_GROUP4 = ip_network("fe80::/10"), ip_network("224.0.0.0/24")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _ip(text: str) -> IP:
    address = _address(text)
    quoted = _quoted(text)
    if address is None:
        raise CelError(f"IP Address {quoted} parse error during conversion from string: unable to parse IP")
    if isinstance(address, IPv6Address):
        if address.scope_id:
            raise CelError(f"IP address {quoted} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise CelError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
    return IP(address)


def _cidr(text: str) -> CIDR:
    what = "network address parse error during conversion from string"
    before, slash, bits = text.rpartition("/")
    address = _address(before)
    problem = ""
    if not slash:
        problem = "no '/'"
    elif address is None:
        problem = f"ParseAddr({_quoted(before)}): unable to parse IP"
    elif isinstance(address, IPv6Address) and address.scope_id:
        problem = "IPv6 zones cannot be present in a prefix"
    elif not _BITS.fullmatch(bits):
        problem = f"bad bits after slash: {_quoted(bits)}"
    elif int(bits) > address.max_prefixlen:
        problem = "prefix length out of range"
    if problem or address is None:
        raise CelError(f"{what}: {what}: netip.ParsePrefix({_quoted(text)}): {problem}")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f"{what}: IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return CIDR(address, int(bits))


def _start(address: IPv4Address | IPv6Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _contains_ip(network: CIDR, given: IP | str) -> bool:
    other = _ip(given) if isinstance(given, str) else given
    same = network.address.version == other.address.version
    return same and _start(network.address, network.bits) == _start(other.address, network.bits)


def _contains_cidr(network: CIDR, given: CIDR | str) -> bool:
    other = _cidr(given) if isinstance(given, str) else given
    return network.bits <= other.bits and _contains_ip(network, IP(other.address))


def _masked(network: CIDR) -> CIDR:
    kind = type(network.address)
    return CIDR(kind(_start(network.address, network.bits) << (kind(0).max_prefixlen - network.bits)), network.bits)


def _is_loopback(one: IP) -> bool:
    return one.address in _LOOPBACK4 or one.address == IPv6Address(1)


def _is_link_local_unicast(one: IP) -> bool:
    return one.address in _LINK_LOCAL4 or one.address in _LINK_LOCAL6


def _is_link_local_multicast(one: IP) -> bool:
    if isinstance(one.address, IPv4Address):
        return one.address in _LINK_LOCAL_GROUP4
    return (int(one.address) >> 112) & 0xFF0F == 0xFF02


def _is_global_unicast(one: IP) -> bool:
    address = one.address
    nowhere = address.is_unspecified or address == IPv4Address("255.255.255.255")
    return not (nowhere or address.is_multicast or _is_loopback(one) or _is_link_local_unicast(one))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip": lambda of: IP(of.address) if isinstance(of, CIDR) else _ip(of),
    "family": lambda one: one.address.version,
    "ip.isCanonical": lambda text: str(_ip(text).address) == text,
    "isUnspecified": lambda one: one.address.is_unspecified,
    "isLoopback": _is_loopback,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": _is_link_local_unicast,
    "isGlobalUnicast": _is_global_unicast,
    "isIP": lambda text: reads(_ip, text),
    "cidr": _cidr,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda network: network.bits,
    "masked": _masked,
    "isCIDR": lambda text: reads(_cidr, text),
}
