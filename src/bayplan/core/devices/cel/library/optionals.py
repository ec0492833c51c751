"""Optional values. Mirrors cel-go's cel/library.go and common/types/optional.go.

`or` and `orValue` aren't functions, because they evaluate their argument only if they need it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from bayplan.core.devices.cel.values import ABSENT, CelError, Optional, type_name

_PLAIN = (int, float, str, bytes, list, dict, timedelta, type(None))


def _of_non_zero(value: Any) -> Optional:
    """The value as an optional; absent if the value is zero, empty or null."""
    zero = not value if isinstance(value, _PLAIN) else isinstance(value, datetime) and value.year == 1
    return ABSENT if zero else Optional(True, value)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


def _unwrap(values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, Optional):
            raise CelError(f"value of type {type_name(value)} is not optional")
    return [value.value for value in values if value.present]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "optional.of": lambda value: Optional(True, value),
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.none": lambda: ABSENT,
    "value": _value,
    "hasValue": lambda optional: optional.present,
    "first": lambda values: Optional(True, values[0]) if values else ABSENT,
    "last": lambda values: Optional(True, values[-1]) if values else ABSENT,
    "optional.unwrap": _unwrap,
    "unwrapOpt": _unwrap,
}
