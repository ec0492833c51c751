"""Rules of the conditions in the status of objects. Mirrors ValidateConditions of apimachinery's meta/v1/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError, duplicate, invalid, too_long
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At

_LONGEST_REASON = 1024
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    f"'{_REASON.pattern}')"
)


def distinct_type(condition: Object, at: At) -> Iterator[FieldError]:
    """No earlier condition of the object has the type."""
    kind = condition.get("type", "")
    if any(other.get("type", "") == kind for other in at.before):
        yield duplicate(f"{at.path}.type", kind)


def reason(value: str | None, at: At) -> Iterator[FieldError]:
    """The reason of a condition: words for programs, which is required."""
    if not value:
        yield field_errors.required(at.path)
        return
    if not _REASON.fullmatch(value):
        yield invalid(at.path, value, _REASON_RULE)
    if len(value) > _LONGEST_REASON:
        yield too_long(at.path, _LONGEST_REASON)


def longest(value: str, at: At) -> Iterator[FieldError]:
    """Text with at most as many characters as the arguments say."""
    if len(value) > int(at.arguments):
        yield too_long(at.path, int(at.arguments))
