"""What many rules have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bayplan.api.field_errors import FieldError, invalid, not_supported

IMMUTABLE = "field is immutable"


def problems(path: str, value: Any, details: Iterable[str]) -> Iterable[FieldError]:
    """The errors of a value, one for each detail."""
    return [invalid(path, value, detail) for detail in details]


def one_of(path: str, value: Any, supported: Sequence[str]) -> Iterable[FieldError]:
    """The value has to be one of the supported ones."""
    return () if value in supported else (not_supported(path, value, supported),)


def unchanged(path: str, new: Any, old: Any) -> Iterable[FieldError]:
    """The value must not change."""
    return () if new == old else (invalid(path, new, IMMUTABLE),)
