"""Binding conditions: conditions that allocated devices must meet before the pod is bound.

Mirrors isClaimReadyForBinding and isClaimTimeout of dynamicresources.go.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from lightkube.models.meta_v1 import Condition
from lightkube.models.resource_v1 import DeviceRequestAllocationResult, ResourceClaim

from bayplan.core.devices.claims import allocation_of, results_of


def binding_failure(claim: ResourceClaim) -> str:
    """The message for a device with a binding failure condition; "" if there is none."""
    for result in results_of(allocation_of(claim)):
        if not result.bindingConditions:
            continue
        conditions = _conditions(claim, result)
        if conditions is None:
            return ""
        for name in result.bindingFailureConditions or ():
            condition = conditions.get(name)
            if condition is not None and condition.status == "True":
                what = f"reason={condition.reason}, message={_quoted(condition.message)}"
                name_of_claim = claim.metadata.name if claim.metadata is not None else ""
                return f"device binding failed: claim={name_of_claim}, {what}"
        if not _all_true(conditions, result):
            return ""
    return ""


def ready_for_binding(claim: ResourceClaim) -> bool:
    """Whether the claim is allocated and its devices meet all binding conditions."""
    allocation = allocation_of(claim)
    if allocation is None:
        return False
    for result in results_of(allocation):
        if result.bindingConditions:
            conditions = _conditions(claim, result)
            if conditions is None or not _all_true(conditions, result):
                return False
    return True


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether any device of the claim has binding conditions."""
    return any(result.bindingConditions for result in results_of(allocation_of(claim)))


def binding_timed_out(claim: ResourceClaim, seconds: float, now: datetime) -> bool:
    """Whether the devices don't meet their binding conditions `seconds` after the allocation."""
    allocation = allocation_of(claim)
    if allocation is None or allocation.allocationTimestamp is None or ready_for_binding(claim):
        return False
    if all(result.bindingConditions is None for result in results_of(allocation)):
        return False
    return allocation.allocationTimestamp + timedelta(seconds=seconds) < now


def _conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, Condition] | None:
    for device in (claim.status.devices if claim.status is not None else None) or ():
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {condition.type: condition for condition in device.conditions or ()}
    return None


def _all_true(conditions: dict[str, Condition], result: DeviceRequestAllocationResult) -> bool:
    return all(name in conditions and conditions[name].status == "True" for name in result.bindingConditions or ())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
