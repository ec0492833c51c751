"""Translates regular expressions of Go's regexp to Python's `re`."""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_TOKEN = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\(?P<escape>.)|\[:(?P<named>\w+):\]|(?P<plain>.)", re.DOTALL)


class InvalidPattern(ValueError):
    """A string that is not a regular expression, or one without an equivalent in Python."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, for `search`. Raises InvalidPattern."""
    translated: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(pattern):
        escape, named, plain = token["escape"], token["named"], token["plain"]
        if token["quoted"] is not None:
            translated.append(re.escape(token["quoted"]))
        elif escape is not None:
            translated.append(_escape(escape, token.group()))
        elif named is not None:
            if not in_class or named not in _CLASSES:
                raise InvalidPattern(f"invalid character class range: `{token.group()}`")
            translated.append(_CLASSES[named])
        else:
            translated.append(_plain(plain, in_class=in_class))
            in_class = (in_class or plain == "[") and plain != "]"
    try:
        return re.compile("".join(translated), re.ASCII)
    except re.error as error:
        raise InvalidPattern(str(error)) from error


def _escape(letter: str, whole: str) -> str:
    if letter in "pPCX":
        raise InvalidPattern(f"the embedded API server does not know `{whole}`")
    if letter == "Z" or letter.isdigit():
        raise InvalidPattern(f"invalid escape sequence: `{whole}`")
    return r"\Z" if letter == "z" else whole


def _plain(letter: str, *, in_class: bool) -> str:
    if in_class:
        return r"\[" if letter == "[" else letter
    return r"\Z" if letter == "$" else letter  # Python's own $ also matches before a last line break
