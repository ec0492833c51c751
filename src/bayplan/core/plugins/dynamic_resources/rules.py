"""Which rules a search for devices follows: those of a version of kube-scheduler, with some feature gates.

The search asks this value, and never a version or a gate, so that both can be compared in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bayplan.core.versions import FeatureGates


class CompatibilityGroups(Enum):
    """What the compatibilityGroups of devices mean."""

    UNKNOWN = 0
    """Nothing: 1.36 doesn't have them."""
    AVOIDED = 1
    """Devices with groups are left out, and those that share counters with an allocated one."""
    COMPARED = 2
    """Devices that share counters must have a group in common."""

    @classmethod
    def of(cls, *, compares: bool, knows: bool) -> CompatibilityGroups:
        """The meaning by whether the gate is on, and whether the version has the field."""
        return cls.COMPARED if compares else cls.AVOIDED if knows else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class SearchRules:
    """The rules of a search. The default values are those of 1.36."""

    names_devices: bool = False
    """Messages about a failed expression name the device."""
    lists: bool = False
    """Constraints compare the lists of values that attributes may have."""
    gives_back: bool = False
    """A rejected candidate gives back the counters that it has consumed."""
    tells_drivers_apart: bool = False
    """Pools with the same name, of several drivers, have counters of their own."""
    places_counters: bool = False
    """Slices with counters are for some nodes, as slices with devices are. Other nodes see them with their devices."""
    counts_shares: bool = False
    """A device that a claim has a share of, without consumed capacity, has consumed its counters."""
    distinct_devices: bool = False
    """distinctAttribute applies to all devices of a request, not only to its last one."""
    all_or_nothing: bool = False
    """A request for all devices fails if a device has too little capacity left."""
    limits_amounts: bool = False
    """Requests for amounts that can't be computed with, or are negative, are errors."""
    fractions: bool = False
    """The ranges of request policies may have fractions, to the thousandth."""
    sums_up_configuration: bool = False
    """A configuration for all requests of a claim appears once, and without the names of the requests."""
    derives: bool | None = None
    """Whether requests may derive attributes; None if they have no such field."""
    groups: CompatibilityGroups = CompatibilityGroups.UNKNOWN

    @classmethod
    def of(cls, gates: FeatureGates) -> SearchRules:
        """The rules of a version with its gates."""
        knows = gates.enabled("DeviceFieldsOfDisabledGates")
        compares, derives = gates.enabled("DRADeviceCompatibilityGroups"), gates.enabled("DRADerivedAttributes")
        return cls(
            names_devices=gates.enabled("CelMessages"),
            lists=gates.enabled("DRAListTypeAttributes") and gates.enabled("ConstraintsOnLists"),
            gives_back=gates.enabled("CountersOfRejectedCandidates"),
            tells_drivers_apart=gates.enabled("CountersOfPoolsWithTheSameName"),
            places_counters=gates.enabled("CounterSlicesOfOtherNodes"),
            counts_shares=gates.enabled("ShareWithoutConsumedCapacity"),
            distinct_devices=gates.enabled("DistinctDevicesOfARequest"),
            all_or_nothing=gates.enabled("AllDevicesWithCapacity"),
            limits_amounts=gates.enabled("LimitsOfCapacityRequests"),
            fractions=gates.enabled("DRAFractionalCapacityRange"),
            sums_up_configuration=gates.enabled("ConfigurationOfAllRequests"),
            derives=derives if derives or knows else None,
            groups=CompatibilityGroups.of(compares=compares, knows=knows),
        )


RULES_OF_1_36 = SearchRules()
