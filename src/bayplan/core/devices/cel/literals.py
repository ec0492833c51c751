"""Literals: strings, bytes, numbers and booleans. Mirrors cel-go's parser/unescape.go."""

from __future__ import annotations

import re
from typing import Any

from bayplan.core.devices.cel.values import LARGEST_INT, LARGEST_UINT, LEAST_INT, Uint

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))|\\"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MAX_DIGITS = 400


def value_of(token: Any) -> Any:
    """The value of a literal. Raises ValueError."""
    match token.type:
        case "STRING_LIT" | "MLSTRING_LIT":
            return _text_of(str(token))
        case "BYTES_LIT":
            return _bytes_of(str(token)[1:])
        case "BOOL_LIT":
            return str(token) == "true"
        case "NULL_LIT":
            return None
        case "FLOAT_LIT":
            if float(token) in {float("inf"), float("-inf")}:
                raise ValueError("invalid double literal")
            return float(token)
    return _whole(str(token).rstrip("uU"), unsigned=token.type == "UINT_LIT")


def _whole(digits: str, *, unsigned: bool) -> int:
    least, largest = (0, LARGEST_UINT) if unsigned else (LEAST_INT, LARGEST_INT)
    number = None if len(digits) > _MAX_DIGITS else int(digits, 16 if "x" in digits else 10)
    if number is None or not least <= number <= largest or (unsigned and digits.startswith("-")):
        raise ValueError(f"invalid {'uint' if unsigned else 'int'} literal")
    return Uint(number) if unsigned else number


def _text_of(written: str) -> str:
    raw, content = _content(written)
    return content if raw else _ESCAPE.sub(_unescaped, content)


def _unescaped(match: re.Match[str]) -> str:
    simple, byte, short, long, octal = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if match[0] == "\\":
        raise ValueError("unable to unescape string")
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _bytes_of(written: str) -> bytes:
    raw, content = _content(written)
    if raw:
        return content.encode()
    found, position = bytearray(), 0
    for match in _ESCAPE.finditer(content):
        found += content[position : match.start()].encode()
        position = match.end()
        if match[3] or match[4]:
            raise ValueError("unable to unescape string")
        found += _unescaped(match).encode("latin-1" if match[2] or match[5] else "utf-8")
    return bytes(found + content[position:].encode())


def _content(written: str) -> tuple[bool, str]:
    raw = written[0] in "rR"
    quoted = written[raw:].replace("\r\n", "\n").replace("\r", "\n")
    long = len(quoted) >= 6 and quoted[:3] in {'"""', "'''"}
    return raw, quoted[3:-3] if long else quoted[1:-1]
