"""Consumable capacity: how much of a device's capacity a request consumes. Mirrors consumable_capacity.go.

Amounts are nano-units by the name of the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api import quantity
from bayplan.api.quantity import NANO

Amounts = Mapping[str, int]


def fits(requested: Mapping[str, Any], capacity: Mapping[str, Any], consumed: Amounts, allocating: Amounts) -> bool:
    """Whether a request complies with the request policies and fits into the remaining capacity.

    `consumed` is the consumption of existing allocations, `allocating` that of this search.
    """
    if any(name not in capacity for name in requested):
        return False
    for name, spec in capacity.items():
        amount = consumption(requested.get(name), spec)
        if _violates(amount, spec.get("requestPolicy")):
            return False
        if consumed.get(name, 0) + amount + allocating.get(name, 0) > _parse(spec["value"]):
            return False
    return True


def never_negative(capacity: Mapping[str, Any]) -> bool:
    """Whether no request for amounts of at least 0 consumes a negative amount."""
    for spec in capacity.values():
        policy = spec.get("requestPolicy") or {}
        least = (policy.get("validRange") or {}).get("min")
        if any(str(each).startswith("-") for each in (spec["value"], policy.get("default"), least)):
            return False
        if any(str(each).startswith("-") for each in policy.get("validValues") or ()):
            return False
    return True


def consumptions(requested: Mapping[str, Any], capacity: Mapping[str, Any]) -> dict[str, int]:
    """A request's consumption of each capacity of a device."""
    return {name: consumption(requested.get(name), spec) for name, spec in capacity.items()}


def consumption(requested: Any, spec: Mapping[str, Any]) -> int:
    """A request's consumption of one capacity.

    That is the requested amount, rounded up according to the policy. Without one, it is the default or everything.
    """
    policy = spec.get("requestPolicy")
    if requested is None:
        default = policy.get("default") if policy else None
        return _parse(spec["value"] if default is None else default)
    amount = _parse(requested)
    if not policy:
        return amount
    valid = policy.get("validRange")
    if valid and valid.get("min") is not None:
        return _round_up(amount, valid)
    values = policy.get("validValues")
    if values is not None:
        return next((each for each in map(_parse, values) if amount <= each), amount)
    return amount


def _round_up(amount: int, valid: Mapping[str, Any]) -> int:
    least = _parse(valid["min"])
    if amount < least:
        return least
    step = quantity.value(_parse(valid["step"])) if valid.get("step") is not None else 0
    if not step:
        return amount
    low = quantity.value(least)
    steps = -(-(quantity.value(amount) - low) // step)
    return (low + step * steps) * NANO


def _violates(amount: int, policy: Mapping[str, Any] | None) -> bool:
    if not policy:
        return False
    default = policy.get("default")
    if default is not None and amount == _parse(default):
        return False
    valid, values = policy.get("validRange"), policy.get("validValues")
    if valid:
        if valid.get("max") is not None and amount > _parse(valid["max"]):
            return True
        step = quantity.value(_parse(valid["step"])) if valid.get("step") is not None else 0
        return bool(step) and (quantity.value(amount) - quantity.value(_parse(valid["min"]))) % step != 0
    if values:
        return amount not in map(_parse, values)
    return False


def _parse(amount: Any) -> int:
    return quantity.parse(str(amount))
