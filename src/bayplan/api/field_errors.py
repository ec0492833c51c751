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
    """The error of a field. `path` is its location, such as `profiles[0].schedulerName`; "" for the whole document."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def below(self, parent: str) -> FieldError:
        """The same error with a path relative to a document that contains this one at `parent`."""
        return FieldError(join(parent, self.path), self.message)


def join(parent: str, child: str) -> str:
    """The path of a child. `child` can be an index such as `[0]`."""
    return f"{parent}.{child}" if parent and child and not child.startswith("[") else parent + child


def required(path: str, detail: str = "") -> FieldError:
    """A required field is missing."""
    return FieldError(path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value violates a rule."""
    return FieldError(path, f"Invalid value: {_shown(value)}: {detail}")


def not_supported(path: str, value: str, supported: Sequence[str]) -> FieldError:
    """A value isn't one of the supported ones."""
    return FieldError(
        path, f"Unsupported value: {_shown(value)}: supported values: {', '.join(map(_shown, supported))}"
    )


def forbidden(path: str, detail: str) -> FieldError:
    """A field must not be set here."""
    return FieldError(path, f"Forbidden: {detail}")


def duplicate(path: str, value: Any) -> FieldError:
    """A value occurs more than once in a list of unique values."""
    return FieldError(path, f"Duplicate value: {_shown(value)}")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
