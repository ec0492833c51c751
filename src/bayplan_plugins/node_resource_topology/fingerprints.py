"""Fingerprints of sets of pods: whether a topology counts the pods that run on its node, and which zone has which.

The agent on a node writes a hash of the names of the pods that it counted. Mirrors the packages podfingerprint and
numaplacement of k8stopologyawareschedwg: XXH64 of each pod's namespace and name, sorted, and XXH64 of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

PREFIX = "pfp0v001"
PLACEMENT_PREFIX = "npv0v001::"
METADATA = "topology.node.k8s.io/numaplacement-metadata"
VECTOR = "topology.node.k8s.io/numaplacement-vector"

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE = 32
_DIGITS = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\']
_LAST = 64
"""The first digits end a number; the others go on."""
_DIGIT = {character: index for index, character in enumerate(_DIGITS)}
_GOING_ON = len(_DIGITS) - _LAST


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given as namespaces and names."""
    hashes = sorted(_of_pod(namespace, name) for namespace, name in pods)
    return f"{PREFIX}{xxh64(b''.join(each.to_bytes(8, 'little') for each in hashes)):016x}"


@lru_cache(maxsize=65536)
def _of_pod(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit xxHash of some bytes."""
    length, at = len(data), 0
    if length >= _STRIPE:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while at <= length - _STRIPE:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        total = sum(_rotated(each, by) for each, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for each in lanes:
            total = ((total ^ _round(0, each)) * _P1 + _P4) & _MASK
    else:
        total = (seed + _P5) & _MASK
    total = (total + length) & _MASK
    while at <= length - 8:
        total ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        total = (_rotated(total, 27) * _P1 + _P4) & _MASK
        at += 8
    if at <= length - 4:
        total ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK
        total = (_rotated(total, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        total ^= byte * _P5 & _MASK
        total = _rotated(total, 11) * _P1 & _MASK
    total = (total ^ total >> 33) * _P2 & _MASK
    total = (total ^ total >> 29) * _P3 & _MASK
    return total ^ total >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & _MASK


def zones_of(
    metadata: str, vectors: Mapping[int, str], containers: Iterable[tuple[str, str, str]]
) -> dict[tuple[str, str, str], int]:
    """Return the zone of each container, given as namespace, pod and name. Raises ValueError if they don't agree.

    `metadata`: the attribute of the topology. `vectors`: that of each zone, by the zone's number.
    """
    values = _metadata(metadata)
    by_hash = {xxh64("\0".join(each).encode()): each for each in containers}
    number, zones, busiest = (_number(values, name) for name in ("cc", "nn", "bn"))
    if values.get("ve") != "leb89" or not 0 <= busiest < zones or len(vectors) >= zones:
        raise ValueError(f"{METADATA} is {metadata!r}, which doesn't fit {len(vectors)} vectors")
    if number != len(by_hash):
        raise ValueError(f"{METADATA} counts {number} containers, but {len(by_hash)} hold resources of zones here")
    hashes, found = sorted(by_hash), {}
    for zone, vector in vectors.items():
        if not 0 <= zone < zones or zone == busiest:
            raise ValueError(f"{VECTOR} of zone {zone} was not expected")
        for offset in _offsets(vector):
            if offset >= len(hashes) or hashes[offset] in found:
                raise ValueError(f"{VECTOR} of zone {zone} is {vector!r}, which is corrupt")
            found[hashes[offset]] = zone
    return {by_hash[each]: found.get(each, busiest) for each in hashes}


def _metadata(text: str) -> Mapping[str, str]:
    if not text.startswith(PLACEMENT_PREFIX):
        raise ValueError(f"{METADATA} is {text!r}, expected {PLACEMENT_PREFIX}...")
    pairs = (part.partition("=") for part in text.removeprefix(PLACEMENT_PREFIX).split("::"))
    return {name: value for name, _, value in pairs}


def _number(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ValueError(f"{METADATA} has {name}={text}, expected a number")
    return int(text)


def _offsets(vector: str) -> Sequence[int]:
    """Return the numbers of a vector: each is the sum of all differences up to it."""
    offsets, total, before, number = [], 0, 0, 0
    for character in vector:
        if character not in _DIGIT:
            raise ValueError(f"{VECTOR} has {character!r}")
        digit = _DIGIT[character]
        if digit >= _LAST:
            before, number = before * _GOING_ON + digit - _LAST, number + 1
            if number > 8:
                raise ValueError(f"{VECTOR} has too large a number")
            continue
        total += digit if not number else _LAST + before * _LAST + digit
        offsets.append(total)
        before = number = 0
    if number:
        raise ValueError(f"{VECTOR} ends within a number")
    return offsets
