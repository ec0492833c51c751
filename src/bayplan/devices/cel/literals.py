"""Literals: strings, bytes, numbers and booleans. Mirrors cel-go's parser/unescape.go.

cel-python's own literals drop line breaks in strings, lack two escapes and accept invalid ones.
"""

from __future__ import annotations

import re
from typing import Any

from celpy.celtypes import BoolType, BytesType, DoubleType, IntType, StringType, UintType

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))|\\"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MAX_DIGITS = 400


def value_of(token: Any) -> Any:
    """The value of a literal. Raises ValueError."""
    match token.type:
        case "STRING_LIT" | "MLSTRING_LIT":
            return StringType(_text_of(str(token)))
        case "BYTES_LIT":
            return BytesType(_bytes_of(str(token)[1:]))
        case "BOOL_LIT":
            return BoolType(str(token) == "true")
        case "NULL_LIT":
            return None
        case "FLOAT_LIT":
            if float(token) in {float("inf"), float("-inf")}:
                raise ValueError("invalid double literal")
            return DoubleType(str(token))
    kind, name = (UintType, "uint") if token.type == "UINT_LIT" else (IntType, "int")
    try:
        if len(token) > _MAX_DIGITS or (kind is UintType and token.startswith("-")):
            raise ValueError
        return kind(str(token).rstrip("uU"))
    except ValueError:
        raise ValueError(f"invalid {name} literal") from None


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
