"""The resource slices that plugins see."""

from __future__ import annotations

from bayplan.core.api.kinds import DEVICE_TAINT_RULE, RESOURCE_SLICE
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.devices.slices import DeviceSlices
from bayplan.core.framework.handle import Handle
from bayplan.core.versions import FeatureGates


class _Tainted:
    """A view of the DeviceTaintRules: the slices with the taints that these add. Plugins and profiles share it."""

    def __init__(self, rules: ObjectStore) -> None:
        self._rules = rules
        self._slices: dict[bool, DeviceSlices] = {}

    def of(self, slices: ObjectStore, *, without_selector: bool) -> DeviceSlices:
        if without_selector not in self._slices:
            made = DeviceSlices(slices, self._rules, without_selector=without_selector)
            self._slices[without_selector] = made
        return self._slices[without_selector]


def selectors_read_lists(gates: FeatureGates) -> bool:
    """Whether selectors read attributes with several values: with the gate, and those of stored objects since 1.37."""
    return gates.enabled("DRAListTypeAttributes") or gates.enabled("SelectorsReadLists")


def device_slices(handle: Handle, gates: FeatureGates) -> DeviceSlices:
    """The slices of the cluster, with the taints of DeviceTaintRules if these have an effect. Call it in `__init__`."""
    slices = handle.objects(RESOURCE_SLICE)
    if gates.enabled("DRADeviceTaintRules"):
        tainted = handle.objects(DEVICE_TAINT_RULE).view(_Tainted)
        return tainted.of(slices, without_selector=not gates.enabled("TaintRulesWithoutSelector"))
    return slices.view(DeviceSlices)
