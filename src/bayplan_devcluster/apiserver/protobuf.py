"""Decodes the protobuf bodies that Go clients send (kubectl create, kube-scheduler). Replies are always JSON.

Field numbers come from the table of types, so there is no generated code.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from bayplan.core.api.status import bad_request
from bayplan.core.api.type_table import table
from bayplan_devcluster.apiserver.encoding import decode
from bayplan_devcluster.apiserver.schema import Object

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"


def read_protobuf(kind: str, body: bytes) -> Object:
    """The object in a protobuf body, in the form of decoded JSON. `kind`: its type in the table of types.

    The caller has to check `apiVersion` and `kind`, which are those of the body. Raises 400.
    """
    if not body.startswith(MAGIC):
        raise bad_request("the body is no protobuf object: it does not begin with the magic number 6b 38 73 00")
    try:
        envelope = dict(_fields(body[len(MAGIC) :]))
        head = {number: _text(value) for number, value in _fields(envelope.get(1, b""))}
        if _text(envelope.get(4, b"")) == "application/json":
            document: Object = decode(envelope.get(2, b""))
        else:
            document = _message(kind, envelope.get(2, b""))
    except (IndexError, ValueError, TypeError) as error:
        raise bad_request(f"the body is no protobuf object of type {kind.rpartition('.')[2]}: {error}") from error
    for number, name in ((1, "apiVersion"), (2, "kind")):
        if head.get(number):
            document[name] = head[number]
    return document


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message as (number, value); values with a length are bytes, and others ints."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("truncated")
            yield number, data[position : position + length]
            position += length
        elif wire in {1, 5}:
            size = 8 if wire == 1 else 4
            yield number, int.from_bytes(data[position : position + size], "little")
            position += size
        else:
            raise ValueError(f"unknown wire type {wire}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _message(kind: str, data: bytes) -> Object:
    """Decodes a message of a type of the table."""
    readers = _readers(kind)
    message: Object = {}
    for number, value in _fields(data):
        if number not in readers:
            continue
        name, form, read = readers[number]
        if form == "+":
            message |= read(value)
        elif form == "{}":
            entry = dict(_fields(value))
            message.setdefault(name, {})[_text(entry.get(1, b""))] = read(entry.get(2, b""))
        elif form == "[]":
            message.setdefault(name, []).append(read(value))
        else:
            message[name] = read(value)
    return message


@cache
def _readers(kind: str) -> dict[int, tuple[str, str, Callable[[Any], Any]]]:
    """By field number: the name, the form (`[]`, `{}`, `+` for an embedded message, ""), and the decoder of a value."""
    readers = {}
    for name, field in table()[kind].items():
        form = "+" if name.startswith("+") else field.type[:2] if field.type.startswith(("[]", "{}")) else ""
        readers[field.number] = (name, form, _reader(field.type.removeprefix(form)))
    return readers


def _reader(kind: str) -> Callable[[Any], Any]:
    if kind == "[]string":  # the values of a map are messages with a list
        return lambda value: [_text(item) for _, item in _fields(value)]
    return _LEAVES.get(kind) or (lambda value: _message(kind, value))


def _text(value: bytes) -> str:
    return value.decode()


def _integer(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _quantity(value: bytes) -> str:
    return _text(dict(_fields(value)).get(1, b"")) or "0"


def _int_or_string(value: bytes) -> int | str:
    fields = dict(_fields(value))
    return _text(fields.get(3, b"")) if fields.get(1) else _integer(fields.get(2, 0))


def _time(value: bytes) -> str | None:
    fields = dict(_fields(value))
    if 1 not in fields:
        return None
    moment = datetime.fromtimestamp(0, UTC) + timedelta(
        seconds=_integer(fields[1]), microseconds=fields.get(2, 0) // 1000
    )
    return moment.isoformat()


def _json(value: bytes) -> Any:
    """A value without a schema, which is JSON in a message."""
    raw = dict(_fields(value)).get(1, b"")
    return decode(raw) if raw else None


def _double(value: int) -> float:
    found: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    return found


def _schema(value: bytes) -> Object:
    return _message("apiextensions_v1.JSONSchemaProps", value)


def _schema_or_list(value: bytes, item: Callable[[bytes], Any]) -> Any:
    items = [item(one) for number, one in _fields(value) if number == 2]
    return items or _schema(dict(_fields(value)).get(1, b""))


def _schema_or_bool(value: bytes) -> Any:
    fields = dict(_fields(value))
    return _schema(fields[2]) if 2 in fields else bool(fields.get(1))


_LEAVES: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "bool": bool,
    "int32": _integer,
    "int64": _integer,
    "float64": _double,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _time,
    "any": _json,
    "object": _json,
    "JSONSchemaPropsOrArray": lambda value: _schema_or_list(value, _schema),
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": lambda value: _schema_or_list(value, _text),
}
