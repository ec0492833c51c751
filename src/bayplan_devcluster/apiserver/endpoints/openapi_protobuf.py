"""Encodes OpenAPI v2 documents in protobuf, which kubectl asks for.

Mirrors OpenAPIv2.proto of github.com/google/gnostic-models, where extensions and other values without a schema are YAML
text. Here that text is JSON, a subset of YAML.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from bayplan_devcluster.apiserver.encoding import encode
from bayplan_devcluster.apiserver.schema import Object

ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""What clients put into the Accept header."""
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Encoder = Callable[[Any], bytes]
"""Encodes a value, without its tag and its length."""


def encode_swagger(document: Object) -> bytes:
    """Returns an OpenAPI v2 document as a `Document` message."""
    return _document(document)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _delimited(number: int, data: bytes) -> bytes:
    """A field whose value has a length."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(value: str) -> bytes:
    return value.encode()


def _any(value: Any) -> bytes:
    return _delimited(2, encode(value))


def _one(number: int, encoder: Encoder) -> Encoder:
    """A field with one value."""
    return lambda value: _delimited(number, encoder(value))


def _each(number: int, encoder: Encoder) -> Encoder:
    """A field that is repeated for each element of a list."""
    return lambda values: b"".join(_delimited(number, encoder(value)) for value in values)


def _named(number: int, encoder: Encoder) -> Encoder:
    """A field that is repeated for each item of a mapping, as a message of its name and its value."""
    entry = _message({"name": _one(1, _text), "value": _one(2, encoder)})
    return lambda values: b"".join(
        _delimited(number, entry({"name": name, "value": value})) for name, value in values.items()
    )


def _whole(number: int) -> Encoder:
    return lambda value: _varint(number << 3) + _varint(value)


def _double(number: int) -> Encoder:
    return lambda value: _varint(number << 3 | 1) + struct.pack("<d", value)


def _message(fields: Mapping[str, Encoder], extensions: int = 0) -> Encoder:
    """A message with these fields. `extensions`: the number of the field for keys with `x-`; others are left out."""
    extended = _named(extensions, _any) if extensions else None

    def message(value: Object) -> bytes:
        parts = [fields[key](item) for key, item in value.items() if key in fields]
        if extended is not None:
            parts.append(extended({key: item for key, item in value.items() if key.startswith("x-")}))
        return b"".join(parts)

    return message


def _schema(value: Object) -> bytes:
    return _schema_message(value)


def _schema_or_bool(value: Any) -> bytes:
    return _whole(2)(value) if isinstance(value, bool) else _delimited(1, _schema(value))


def _type(value: str | list[str]) -> bytes:
    return _each(1, _text)([value] if isinstance(value, str) else value)


_schema_message = _message(
    {
        "$ref": _one(1, _text),
        "format": _one(2, _text),
        "title": _one(3, _text),
        "description": _one(4, _text),
        "default": _one(5, _any),
        "multipleOf": _double(6),
        "maximum": _double(7),
        "exclusiveMaximum": _whole(8),
        "minimum": _double(9),
        "exclusiveMinimum": _whole(10),
        "maxLength": _whole(11),
        "minLength": _whole(12),
        "pattern": _one(13, _text),
        "maxItems": _whole(14),
        "minItems": _whole(15),
        "uniqueItems": _whole(16),
        "maxProperties": _whole(17),
        "minProperties": _whole(18),
        "required": _each(19, _text),
        "enum": _each(20, _any),
        "additionalProperties": _one(21, _schema_or_bool),
        "type": _one(22, _type),
        "items": _one(23, _one(1, _schema)),
        "allOf": _each(24, _schema),
        "properties": _one(25, _named(1, _schema)),
    },
    extensions=31,
)
_query_parameter = _message(
    {
        "in": _one(2, _text),
        "description": _one(3, _text),
        "name": _one(4, _text),
        "type": _one(6, _text),
        "uniqueItems": _whole(20),
    }
)
_response = _message({"description": _one(1, _text)})
_operation = _message(
    {
        "parameters": _each(8, _one(1, _one(2, _one(3, _query_parameter)))),
        "responses": _one(9, _named(1, _one(1, _response))),
    },
    extensions=13,
)
_path_item = _message(
    {
        "get": _one(2, _operation),
        "put": _one(3, _operation),
        "post": _one(4, _operation),
        "delete": _one(5, _operation),
        "patch": _one(8, _operation),
    },
    extensions=10,
)
_document = _message(
    {
        "swagger": _one(1, _text),
        "info": _one(2, _message({"title": _one(1, _text), "version": _one(2, _text)})),
        "paths": _one(8, _named(2, _path_item)),
        "definitions": _one(9, _named(1, _schema)),
    }
)
