"""Validation errors of single fields, with Kubernetes' messages.

Mirrors apimachinery's pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldError:
    """The error of a field. `path` is its location, such as `profiles[0].schedulerName`; "" for the whole document.

    `reason` is the machine-readable cause that an API server reports with the message.
    """

    path: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def below(self, parent: str) -> FieldError:
        """The same error with a path relative to a document that contains this one at `parent`."""
        return FieldError(join(parent, self.path), self.message, self.reason)

    def cause(self) -> dict[str, str]:
        """The error as a StatusCause of an API server's response."""
        return {"reason": self.reason, "message": self.message, "field": self.path}


def join(parent: str, child: str) -> str:
    """The path of a child. `child` can be an index such as `[0]`."""
    return f"{parent}.{child}" if parent and child and not child.startswith("[") else parent + child


def required(path: str, detail: str = "") -> FieldError:
    """A required field is missing."""
    return FieldError(path, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value breaks a rule."""
    return FieldError(path, f"Invalid value: {quoted(value)}: {detail}")


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value has a type that the field doesn't accept."""
    return FieldError(path, f"Invalid value: {quoted(value)}: {detail}", "FieldValueTypeInvalid")


def not_supported(path: str, value: Any, supported: Sequence[Any]) -> FieldError:
    """A value is outside an enumeration."""
    values = ", ".join(map(quoted, supported))
    return FieldError(path, f"Unsupported value: {quoted(value)}: supported values: {values}", "FieldValueNotSupported")


def forbidden(path: str, detail: str) -> FieldError:
    """A field may not be set, or not be changed."""
    return FieldError(path, f"Forbidden: {detail}", "FieldValueForbidden")


def duplicate(path: str, value: Any) -> FieldError:
    """A value that must be unique in its list isn't."""
    return FieldError(path, f"Duplicate value: {quoted(value)}", "FieldValueDuplicate")


def too_long(path: str, limit: int) -> FieldError:
    """A text is longer than `limit` bytes."""
    return FieldError(path, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")


def too_many(path: str, given: int, limit: int) -> FieldError:
    """A list has more than `limit` items."""
    return FieldError(path, f"Too many: {given}: must have at most {limit} items", "FieldValueTooMany")


def not_found(path: str, value: Any) -> FieldError:
    """A value refers to something that doesn't exist."""
    return FieldError(path, f"Not found: {quoted(value)}", "FieldValueNotFound")


def quoted(value: Any) -> str:
    """A value as messages show it: texts in double quotes, everything else as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
