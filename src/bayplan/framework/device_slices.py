"""The resource slices that plugins see."""

from __future__ import annotations

from bayplan.api.kinds import DEVICE_TAINT_RULE, RESOURCE_SLICE
from bayplan.cluster.objects import ObjectStore
from bayplan.devices.slices import DeviceSlices
from bayplan.framework.handle import Handle
from bayplan.versions import FeatureGates


class _Tainted:
    """A view of the DeviceTaintRules: the slices with the taints that these add. Plugins and profiles share it."""

    def __init__(self, rules: ObjectStore) -> None:
        self._rules = rules
        self._slices: DeviceSlices | None = None

    def of(self, slices: ObjectStore) -> DeviceSlices:
        if self._slices is None:
            self._slices = DeviceSlices(slices, self._rules)
        return self._slices


def selectors_read_lists(gates: FeatureGates) -> bool:
    """Whether selectors read attributes with several values: with the gate, and those of stored objects since 1.37."""
    return gates.enabled("DRAListTypeAttributes") or gates.enabled("SelectorsReadLists")


def device_slices(handle: Handle, gates: FeatureGates) -> DeviceSlices:
    """The slices of the cluster, with the taints of DeviceTaintRules if these have an effect. Call it in `__init__`."""
    slices = handle.objects(RESOURCE_SLICE)
    if gates.enabled("DRADeviceTaintRules"):
        return handle.objects(DEVICE_TAINT_RULE).view(_Tainted).of(slices)
    return slices.view(DeviceSlices)
