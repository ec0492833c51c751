"""JSON as bytes: the form in which objects are stored and sent."""

from __future__ import annotations

import msgspec

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
"""Encodes a JSON value as compact bytes."""

decode = _decoder.decode
"""Decodes bytes to plain dicts and lists. Raises msgspec.DecodeError."""
