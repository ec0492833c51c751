"""JSON as bytes: the form in which objects are stored and sent."""

from __future__ import annotations

import msgspec

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
"""Returns a JSON value as compact bytes."""

decode = _decoder.decode
"""Returns bytes as plain dicts and lists. Raises msgspec.DecodeError."""
