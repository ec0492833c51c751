"""Which NoExecute taints allocated devices have, and how long claims tolerate them, without effects.

Mirrors pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from lightkube.models.resource_v1 import DeviceRequestAllocationResult, DeviceTaint, DeviceTaintRule, ResourceSlice

from bayplan.core.api.tolerations import NO_EXECUTE
from bayplan.core.devices.requests import tolerates
from bayplan.core.devices.slices import DeviceId, TaintRule


def evicting_rules(rules: Iterable[DeviceTaintRule]) -> list[TaintRule]:
    """Return the rules that add a NoExecute taint to devices."""
    selecting = (rule for rule in rules if rule.spec.deviceSelector is not None)
    return [TaintRule.of(rule) for rule in selecting if rule.spec.taint.effect == NO_EXECUTE]


def evicting_taints(
    result: DeviceRequestAllocationResult,
    slices: Sequence[ResourceSlice],
    rules: Iterable[TaintRule],
    timed: Callable[[DeviceTaint, ResourceSlice], DeviceTaint],
) -> Iterator[tuple[DeviceTaint, str]]:
    """Yield the NoExecute taints of an allocated device, with the name of the rule that adds each; "" for its own ones.

    `slices`: those of the device's pool. `timed` gives a taint of a slice the time since when it counts.
    """
    newest = max((each.spec.pool.generation or 0 for each in slices), default=0)
    for each in slices:
        if (each.spec.pool.generation or 0) == newest:
            for spec in each.spec.devices or ():
                for taint in (spec.taints or ()) if spec.name == result.device else ():
                    if taint.effect == NO_EXECUTE:
                        yield timed(taint, each), ""
    device = DeviceId(result.driver, result.pool, result.device)
    for rule in rules:
        if rule.matches(device):
            yield rule.taint, rule.name


def end_of_toleration(result: DeviceRequestAllocationResult, taint: DeviceTaint) -> datetime | None:
    """Return until when a claim tolerates a taint: from when the pod is evicted; None for ever."""
    added: datetime | None = taint.timeAdded
    tolerations = [each for each in result.tolerations or () if each.effect == NO_EXECUTE and tolerates(each, taint)]
    if added is None or any(each.tolerationSeconds is None for each in tolerations):
        return None
    return added + timedelta(seconds=min((max(each.tolerationSeconds or 0, 0) for each in tolerations), default=0))
