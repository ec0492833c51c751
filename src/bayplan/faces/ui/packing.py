"""Changes as text that fits in an address and a cookie, and read from there, where anyone may have written it."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable

import msgspec

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.portable import PortableChange, portable

LONGEST_ENTRY = 5_000
"""The most characters of a packed change. A request line has room for 8,190 bytes."""
_INFLATED = 512 * 1024
"""The most bytes of JSON of a packed change."""

_decoder = msgspec.json.Decoder(PortableChange)


def pack(change: PortableChange) -> str:
    """Return a change as text."""
    return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(change), 9)).decode().rstrip("=")


def unpack(text: str) -> PortableChange:
    """Return the change that was packed. Raises QuestionError."""
    try:
        inflating = zlib.decompressobj()
        raw = inflating.decompress(base64.urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"), _INFLATED)
        if not inflating.eof:
            raise QuestionError("the change of the address is incomplete or too large")
        return _decoder.decode(raw)
    except (ValueError, binascii.Error, zlib.error, RecursionError, msgspec.MsgspecError):
        raise QuestionError("the change of the address can't be read") from None


def packed(insight: Insight, changes: Iterable[Change]) -> dict[str, str]:
    """Return changes of the cluster, packed, by their texts. Those that are too large are left out."""
    texts = {change.text: pack(portable(insight.world, insight.snapshot, change)) for change in changes}
    return {text: entry for text, entry in texts.items() if len(entry) <= LONGEST_ENTRY}
