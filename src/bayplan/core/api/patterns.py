"""Regular expressions of Go's `regexp`, whose syntax RE2 has as well."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no types

_GO_MESSAGES = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
}
"""The messages of Go for those of RE2 that differ."""
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class InvalidPattern(ValueError):
    """A string that is not a regular expression. The message is Go's."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The pattern, with the methods of Python's patterns. Raises InvalidPattern.

    Its `search` takes time that is linear in the length of the text.
    """
    if r"\C" in _ESCAPE.findall(pattern):  # a byte: RE2 has it, Go has not
        raise InvalidPattern(r"error parsing regexp: invalid escape sequence: `\C`")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error.args[0])
        raise InvalidPattern(f"error parsing regexp: {_in_go(text)}") from None


def _in_go(message: str) -> str:
    problem, _, where = message.partition(": ")
    if message == "trailing \\":
        return "trailing backslash at end of expression: ``"
    return f"{_GO_MESSAGES.get(problem, problem)}: `{where}`"
