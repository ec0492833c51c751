"""Consumable capacity: how much of a device's capacity a request consumes. Mirrors consumable_capacity.go.

Amounts are nano-units by the name of the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.core.api import quantity
from bayplan.core.api.quantity import LARGEST, NANO
from bayplan.core.plugins.dynamic_resources.rules import SearchRules

Amounts = Mapping[str, int]
_MILLI = NANO // 1000
_UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class UncountableAmount(ValueError):
    """A request for an amount that can't be computed with, or that is negative. No device can satisfy it."""


def fits(
    requested: Mapping[str, Any],
    capacity: Mapping[str, Any],
    consumed: Amounts,
    allocating: Amounts,
    rules: SearchRules,
) -> bool:
    """Whether a request complies with the request policies and fits into the remaining capacity.

    `consumed` is the consumption of existing allocations, `allocating` that of this search. Raises UncountableAmount
    if the rules limit amounts.
    """
    if any(name not in capacity for name in requested):
        return False
    if rules.limits_amounts:
        _check(consumptions(requested, capacity, rules))
    for name, spec in capacity.items():
        amount = consumption(requested.get(name), spec, rules)
        if _violates(amount, spec.get("requestPolicy"), rules):
            return False
        if consumed.get(name, 0) + amount + allocating.get(name, 0) > _parse(spec["value"]):
            return False
    return True


def _check(amounts: Amounts) -> None:
    for name, amount in amounts.items():
        if amount < 0:
            raise UncountableAmount(f'capacity "{name}": capacity value is negative')


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


def consumptions(requested: Mapping[str, Any], capacity: Mapping[str, Any], rules: SearchRules) -> dict[str, int]:
    """A request's consumption of each capacity of a device. Raises UncountableAmount."""
    found = {}
    for name, spec in capacity.items():
        try:
            found[name] = consumption(requested.get(name), spec, rules)
        except UncountableAmount as error:
            raise UncountableAmount(f'capacity "{name}": {error}') from None
    return found


def consumption(requested: Any, spec: Mapping[str, Any], rules: SearchRules) -> int:
    """A request's consumption of one capacity. Raises UncountableAmount.

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
        return _round_up(amount, str(requested), valid, rules)
    values = policy.get("validValues")
    if values is not None:
        return next((each for each in map(_parse, values) if amount <= each), amount)
    return amount


def _round_up(amount: int, text: str, valid: Mapping[str, Any], rules: SearchRules) -> int:
    least = _parse(valid["min"])
    if amount < least:
        return least
    unit = _unit(valid, rules)
    step = _in_units(_parse(valid["step"]), unit) if valid.get("step") is not None else 0
    if not step:
        return amount
    if rules.limits_amounts:
        if unit == _MILLI and not _is_milli(amount):
            raise UncountableAmount(f"{_UNREPRESENTABLE}: request {text} is not a representable milli value")
        if amount > LARGEST * NANO:
            raise UncountableAmount(f"{_UNREPRESENTABLE}: request {text} exceeds MaxInt64")
    low = _in_units(least, unit)
    steps = -(-(_in_units(amount, unit) - low) // step)
    if rules.limits_amounts and low >= 0 and low + step * steps > LARGEST:
        most = "the milli-value range" if unit == _MILLI else "MaxInt64"
        raise UncountableAmount(f"{_UNREPRESENTABLE}: rounding request {text} up to the next step passes {most}")
    return (low + step * steps) * unit


def _violates(amount: int, policy: Mapping[str, Any] | None, rules: SearchRules) -> bool:
    if not policy:
        return False
    default = policy.get("default")
    if default is not None and amount == _parse(default):
        return False
    valid, values = policy.get("validRange"), policy.get("validValues")
    if valid:
        if valid.get("max") is not None and amount > _parse(valid["max"]):
            return True
        unit = _unit(valid, rules)
        step = _in_units(_parse(valid["step"]), unit) if valid.get("step") is not None else 0
        if not step:
            return False
        if unit == _MILLI and not _is_milli(amount):
            return True
        return (_in_units(amount, unit) - _in_units(_parse(valid["min"]), unit)) % step != 0
    if values:
        return amount not in map(_parse, values)
    return False


def _unit(valid: Mapping[str, Any], rules: SearchRules) -> int:
    """What a range is computed in: thousandths if its numbers have no finer fractions, otherwise whole units."""
    if not rules.fractions:
        return NANO
    given = [_parse(valid[each]) for each in ("min", "max", "step") if valid.get(each) is not None]
    steps = valid.get("step") is None or _parse(valid["step"]) >= _MILLI
    return _MILLI if steps and all(map(_is_milli, given)) else NANO


def _is_milli(amount: int) -> bool:
    """Whether an amount is a number of thousandths, of 64 bits."""
    return amount % _MILLI == 0 and amount // _MILLI <= LARGEST


def _in_units(amount: int, unit: int) -> int:
    return quantity.milli_value(amount) if unit == _MILLI else quantity.value(amount)


def _parse(amount: Any) -> int:
    return quantity.parse(str(amount))
