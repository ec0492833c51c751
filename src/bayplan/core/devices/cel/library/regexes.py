"""Regular expressions in RE2 syntax, as in Go. Mirrors Kubernetes' pkg/cel/library/regex.go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.api.patterns import InvalidPattern, compile_pattern
from bayplan.core.devices.cel.values import CelError


def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises CelError."""
    try:
        return compile_pattern(str(pattern))
    except InvalidPattern as error:
        raise CelError(str(error)) from None


def _legal(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except CelError as error:
        raise CelError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    match = _legal(pattern).search(str(text))
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    for match in _legal(pattern).finditer(str(text)):
        if 0 <= limit <= len(found):
            break
        found.append(match[0])
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matches": lambda text, pattern: compiled(pattern).search(str(text)) is not None,
    "find": _find,
    "findAll": _find_all,
}
