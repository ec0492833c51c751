"""Rules of the request policies of devices' capacity.

Mirrors validateRequestPolicy of Kubernetes' pkg/apis/resource/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from bayplan.core.api import quantity
from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, required, too_many
from bayplan.core.devices.limits import MAX_VALID_VALUES
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At

LIMITS = "CapacityPolicyValidation"
"""The change since which steps are positive, and ranges are computed in 64 bits."""
FRACTIONS_GATE = "DRAFractionalCapacityRange"
_MOST = 2**63 - 1
_MILLI = 10**6


def policies(device: Object, at: At) -> Iterator[FieldError]:
    """What the capacity of a device may be asked for, if several claims may share it."""
    for name, capacity in device.get("capacity", {}).items():
        policy, path = capacity.get("requestPolicy"), f"{at.path}.capacity[{name}].requestPolicy"
        if policy is None:
            continue
        if not device.get("allowMultipleAllocations"):
            yield forbidden(path, "allowMultipleAllocations must be true")
            continue
        listed, limited = policy.get("validValues"), policy.get("validRange")
        if listed and limited is not None:
            both = 'cannot specify "validValues" and "validRange" at the same time'
            yield forbidden(path, f"exactly one policy can be specified, {both}")
        elif listed or limited is not None:
            kind = "validValues" if listed else "validRange"
            if "default" not in policy:
                yield required(f"{path}.default", f"required when {kind} is defined")
            elif listed:
                yield from _values(policy["default"], capacity["value"], listed, f"{path}.{kind}", at.features)
            else:
                yield from _range(policy["default"], capacity["value"], limited, f"{path}.{kind}", at.features)


def _values(
    default: str, capacity: str, values: list[str], path: str, features: frozenset[str]
) -> Iterator[FieldError]:
    amounts = [quantity.parse(each) for each in values]
    for index, (before, amount) in enumerate(pairwise(amounts), start=1):
        if before > amount:
            yield invalid(f"{path}[{index}]", values[index], "values must be sorted in ascending order")
    too_long = len(values) > MAX_VALID_VALUES
    if too_long:
        yield too_many(path, len(values), MAX_VALID_VALUES)
    for index, amount in enumerate(() if too_long else amounts):
        if amount > quantity.parse(capacity):
            yield invalid(f"{path}[{index}]", values[index], f"option is larger than capacity value: {capacity}")
    keys = amounts if FRACTIONS_GATE in features else [quantity.value(each) for each in amounts]
    for index, key in enumerate(() if too_long else keys):
        if key in keys[:index]:
            yield duplicate(f"{path}[{index}]", values[index] if FRACTIONS_GATE in features else str(key))
    if too_long or quantity.parse(default) not in amounts:
        yield invalid(path, default, "default value is not valid according to the requestPolicy")


def _range(default: str, capacity: str, limits: Object, path: str, features: frozenset[str]) -> Iterator[FieldError]:
    if "min" not in limits:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    least, most = limits["min"], limits.get("max")
    total, wanted, lowest = quantity.parse(capacity), quantity.parse(default), quantity.parse(least)
    since_1_37 = LIMITS in features
    if lowest > total:
        yield invalid(f"{path}.min", least, f"min is larger than capacity value: {capacity}")
    if wanted < lowest:
        yield invalid(f"{path}.{'default' if since_1_37 else 'min'}", default, f"default is less than min: {least}")
    if most is not None:
        highest = quantity.parse(most)
        if lowest > highest:
            yield invalid(f"{path}.max", least, f"min is larger than max: {most}")
        if highest > total:
            yield invalid(f"{path}.max", most, f"max is larger than capacity value: {capacity}")
        if wanted > highest:
            yield invalid(f"{path}.{'default' if since_1_37 else 'max'}", default, f"default is more than max: {most}")
    if since_1_37:
        yield from _steps_since_1_37(default, capacity, limits, path, fine=FRACTIONS_GATE in features)
    elif "step" in limits:
        yield from _steps(default, capacity, limits, path, quantity.value)


def _steps_since_1_37(default: str, capacity: str, limits: Object, path: str, *, fine: bool) -> Iterator[FieldError]:
    """What `_steps` checks, if all amounts can be computed with. `fine`: fractions are, in thousandths."""
    given: dict[str, str] = {"default": default}
    given |= {field: limits[field] for field in ("min", "max", "step") if field in limits}
    fractions = fine and any(quantity.parse(each) % quantity.NANO for each in given.values())
    too_fine = {field: each for field, each in given.items() if fractions and quantity.parse(each) % _MILLI}
    for field, each in too_fine.items():
        yield invalid(f"{path}.{field}", each, "value cannot be represented as a milli value")
    if too_fine or "step" not in given:
        return
    if quantity.parse(given["step"]) <= 0:
        yield invalid(f"{path}.step", given["step"], "must be greater than zero")
        return
    beyond = {} if fractions else {field: each for field, each in given.items() if not _in_64_bits(each)}
    units = _thousandths if fractions else quantity.value
    yield from _steps(default, capacity, limits, path, None if beyond else units)
    for field, each in beyond.items():
        negative = quantity.parse(each) < 0
        detail = "must be greater than or equal to 0" if negative else f"must not be larger than {_MOST}"
        yield invalid(f"{path}.{field}", each, detail)


def _steps(
    default: str, capacity: str, limits: Object, path: str, units: Callable[[int], int] | None
) -> Iterator[FieldError]:
    """A step fits into the capacity, and the default and the maximum are steps from the minimum, counted in `units`."""
    step, least = limits["step"], limits["min"]
    added = quantity.parse(least) + quantity.parse(step)
    if added > quantity.parse(capacity):
        shown = quantity.format_quantity(added, binary=least[-1:] == "i")
        yield invalid(f"{path}.step", step, f"one step {shown} is larger than capacity value: {capacity}")
    for value in (default, limits.get("max")) if units is not None else ():
        if value is not None:
            assert units is not None
            by, lowest, amount = (units(quantity.parse(each)) for each in (step, least, value))
            if not by or (amount - lowest) % by:
                detail = f"value is not a multiple of a given step ({step}) from ({least})"
                yield invalid(f"{path}.step", value, detail)


def _in_64_bits(text: str) -> bool:
    return 0 <= quantity.parse(text) <= _MOST * quantity.NANO


def _thousandths(nanos: int) -> int:
    return nanos // _MILLI
