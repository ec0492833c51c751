"""What a NodeResourceTopology says: the policy of the kubelet's Topology Manager, and what each zone has left.

Mirrors nodeconfig/topologymanager.go and pluginhelpers.go. Amounts are in millicores of cpu, else in whole units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from bayplan.plugin import InvalidQuantity, parse_amounts

TOPOLOGIES = "noderesourcetopologies.v1alpha2.topology.node.k8s.io"
Amounts = Mapping[str, int]
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A larger amount is refused, so that sums and scores stay within 64 bits."""

DEFAULT_MAX_ZONES, LARGEST_MAX_ZONES, LARGEST_NUMBER = 8, 1024, 63
FINGERPRINT, FINGERPRINT_METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
FINGERPRINT_ANNOTATION = "topology.node.k8s.io/fingerprint"
_SINGLE = "single-numa-node"
_POLICIES = {"none", "best-effort", "restricted", _SINGLE}
_OLD_POLICIES = {"SingleNUMANode": _SINGLE, "BestEffort": "best-effort", "Restricted": "restricted"}
_LARGEST = 2**53
_MILLI, _UNIT = 10**6, 10**9


class _Named(msgspec.Struct):
    name: str
    value: str | int


class _Resource(msgspec.Struct):
    name: str
    available: str | int | float
    allocatable: str | int | float = 0


class _Zone(msgspec.Struct):
    name: str
    type: str = ""
    resources: list[_Resource] = []
    costs: list[_Named] = []
    attributes: list[_Named] = []


class _Document(msgspec.Struct):
    zones: list[_Zone] = []
    attributes: list[_Named] = []
    topologyPolicies: list[str] = []


@dataclass(frozen=True, slots=True)
class Zone:
    """A NUMA node. `costs`: the distances to zones, by their numbers."""

    number: int
    available: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    costs: Mapping[int, int] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """The topology of a node. `zones` are sorted by number. `problem`: why it can't be used; "" if it can.

    `ignored`: zones whose names aren't those of NUMA nodes. `document`: the object.
    """

    policy: str = "none"
    pod_scope: bool = False
    max_zones: int = DEFAULT_MAX_ZONES
    zones: tuple[Zone, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    problem: str = ""
    ignored: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def single(self) -> bool:
        """Whether the kubelet refuses pods that don't fit into one zone."""
        return self.policy == _SINGLE

    @property
    def settings(self) -> tuple[str, bool, int]:
        """The settings of the Topology Manager."""
        return self.policy, self.pod_scope, self.max_zones

    @property
    def resources(self) -> frozenset[str]:
        """The resources that any zone lists."""
        return frozenset(name for zone in self.zones for name in zone.available)


def read(topology: Mapping[str, Any]) -> Topology:
    """Return what a NodeResourceTopology says. One that can't be used has a `problem`."""
    try:
        document = msgspec.convert(topology, _Document)
        annotations = (topology.get("metadata") or {}).get("annotations") or {}
        attributes = _values(document.attributes)
        fingerprint = attributes.get(FINGERPRINT) or str(annotations.get(FINGERPRINT_ANNOTATION, ""))
        zones, ignored = _zones(document.zones)
    except (msgspec.ValidationError, InvalidQuantity, ValueError, AttributeError) as error:
        return Topology(problem=str(error))
    if not zones:
        lacking = f"no zone is a NUMA node{': ' + ', '.join(ignored) if ignored else ''}; expected one such as node-0"
        return Topology(problem=lacking, ignored=ignored)
    settings = _settings(document.topologyPolicies, {each.name: str(each.value) for each in document.attributes})
    return Topology(*settings, zones, attributes, fingerprint, ignored=ignored, document=topology)


def counted(resources: Mapping[str, Any]) -> dict[str, int]:
    """Return the amounts of a resource list, rounded up. Raises InvalidQuantity."""
    return {name: _amount(str(amount), _MILLI if name == "cpu" else _UNIT) for name, amount in resources.items()}


@lru_cache(maxsize=4096)
def _amount(text: str, unit: int) -> int:
    return -(-parse_amounts({"": text})[""] // unit)


def number_of(name: str) -> int | None:
    """Return the number of a zone that is named as `node-0`; None for another name, or one that is too large."""
    digits = name.removeprefix("node-")
    if digits == name or not digits.isascii() or not digits.isdecimal() or len(digits) > 4:
        return None
    return number if (number := int(digits)) <= LARGEST_NUMBER else None


def _zones(found: Iterable[_Zone]) -> tuple[tuple[Zone, ...], tuple[str, ...]]:
    zones: dict[int, Zone] = {}
    ignored = []
    for each in found:
        if each.type != "Node":
            continue
        number = number_of(each.name)
        if number is None:
            ignored.append(each.name)
            continue
        if number in zones:
            raise ValueError(f"two zones have the name {each.name}")
        available = counted({resource.name: resource.available for resource in each.resources})
        allocatable = counted({resource.name: resource.allocatable for resource in each.resources})
        for name, amount in available.items():
            if not 0 <= amount <= _LARGEST:
                listed = next(resource.available for resource in each.resources if resource.name == name)
                raise ValueError(f"zone {each.name} has {listed} of {name} available, expected an amount from 0")
        costs = {of: int(cost.value) for cost in each.costs if (of := number_of(cost.name)) is not None}
        if any(not 0 <= cost <= _LARGEST for cost in costs.values()):
            raise ValueError(f"zone {each.name} has a negative or too large cost")
        zones[number] = Zone(number, available, allocatable, costs, _values(each.attributes))
    return tuple(zones[number] for number in sorted(zones)), tuple(ignored)


def _values(attributes: Iterable[_Named]) -> dict[str, str]:
    """Return attributes by name. The first one of a name counts."""
    return {each.name: str(each.value) for each in reversed(list(attributes))}


def _settings(old: list[str], attributes: Mapping[str, str]) -> tuple[str, bool, int]:
    policy, pod_scope, most = "none", False, DEFAULT_MAX_ZONES
    for suffix in ("PodLevel", "ContainerLevel"):
        if old and old[0].endswith(suffix) and (known := _OLD_POLICIES.get(old[0].removesuffix(suffix))):
            policy, pod_scope = known, suffix == "PodLevel"
    scope = attributes.get("topologyManagerScope")
    if scope in {"pod", "container"}:
        pod_scope = scope == "pod"
    if attributes.get("topologyManagerPolicy") in _POLICIES:
        policy = attributes["topologyManagerPolicy"]
    stated = attributes.get("topologyManagerMaxNUMANodes", "")
    if stated.isascii() and stated.isdecimal() and len(stated) < 10 and int(stated) > 1:
        most = min(int(stated), LARGEST_MAX_ZONES)
    return policy, pod_scope, most
