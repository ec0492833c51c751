"""Regular expressions in RE2 syntax, as in Go. Mirrors Kubernetes' pkg/cel/library/regex.go."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]  # what cel-python's own `matches` uses

from bayplan.devices.cel.values import CelError


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises CelError."""
    try:
        return re2.compile(str(pattern), _quiet())
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise CelError(f"error parsing regexp: {reason}") from None


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
