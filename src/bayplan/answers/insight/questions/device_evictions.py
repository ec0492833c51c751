"""Which pods the taints of their devices evict, at once or later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from lightkube.models.resource_v1 import DeviceTaint, ResourceSlice
from msgspec.structs import replace

from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.claims import claims_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DEVICE_TAINT_RULE, RESOURCE_SLICE
from bayplan.core.api.objects import decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import allocation_of, results_of
from bayplan.core.devices.slices import PoolId
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.core.devices import device_taints


class DeviceEviction(NamedTuple):
    """A taint of a device, which evicts a pod that has the device, and when."""

    device: str
    taint: DeviceTaint
    at: datetime


class DeviceEvictions:
    """The device taints of a snapshot that evict pods. Claims are as `world` has them."""

    def __init__(self, world: World, snapshot: Snapshot) -> None:
        self._world = world
        decoded = (decode(RESOURCE_SLICE.type, raw) for raw in snapshot.of_kind(RESOURCE_SLICE).values())
        self._slices = grouped((PoolId(each.spec.driver, each.spec.pool.name), each) for each in decoded)
        rules = (decode(DEVICE_TAINT_RULE.type, raw) for raw in snapshot.of_kind(DEVICE_TAINT_RULE).values())
        self._rules = device_taints.evicting_rules(rules) if world.gates.enabled("DRADeviceTaintRules") else []
        self._rules = [rule._replace(taint=self._timed(rule.taint)) for rule in self._rules]

    def of(self, pod: PodInfo) -> Iterator[DeviceEviction]:
        """Yield the taints of the pod's devices that its claims don't tolerate for ever."""
        for claim in claims_of(self._world, pod):
            for result in results_of(allocation_of(claim)):
                slices = self._slices.get(PoolId(result.driver, result.pool), [])
                for taint, _ in device_taints.evicting_taints(result, slices, self._rules, self._timed):
                    end = device_taints.end_of_toleration(result, taint)
                    if end is not None:
                        yield DeviceEviction(f"{result.driver}/{result.pool}/{result.device}", taint, end)

    def concern(self, pod: PodInfo) -> bool:
        """Whether a device of the pod has a taint that evicts it, at once or later."""
        return any(True for _ in self.of(pod))

    def _timed(self, taint: DeviceTaint, _: ResourceSlice | None = None) -> DeviceTaint:
        return taint if taint.timeAdded is not None else replace(taint, timeAdded=self._world.handle.time)
