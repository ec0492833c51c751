"""Reads the protobuf bodies that Go clients send (kubectl create, kube-scheduler); answers are always JSON.

The numbers of the fields are in `field_numbers.txt`, one type a line: names in the order of their numbers from 1, `N:`
before a name that skips to N, `+Type` for a message whose fields are the enclosing object's own in JSON. Names and
numbers are those of Kubernetes' generated.proto; the types are the models'.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from bayplan.devcluster.apiserver.encoding import decode
from bayplan.devcluster.apiserver.schema import QUANTITY_MAPS, Model, Object, field_model, map_model
from bayplan.devcluster.apiserver.status import bad_request, unsupported_media_type

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"


def read_protobuf(model: Model, body: bytes) -> Object:
    """The object in a protobuf body, as its JSON would be decoded. Raises 400, or 415 for a type of unknown numbers.

    The envelope says kind and version, which the caller compares with what it expects.
    """
    if _name(model) not in _numbers():
        raise unsupported_media_type()
    if not body.startswith(MAGIC):
        raise bad_request("the body is no protobuf object: it does not begin with the magic number 6b 38 73 00")
    try:
        envelope = dict(_fields(body[len(MAGIC) :]))
        head = {number: _text(value) for number, value in _fields(envelope.get(1, b""))}
        if _text(envelope.get(4, b"")) == "application/json":
            document: Object = decode(envelope.get(2, b""))
        else:
            document = _message(model, envelope.get(2, b""))
    except (IndexError, ValueError, TypeError) as error:
        raise bad_request(f"the body is no protobuf object of type {model.__name__}: {error}") from error
    for number, name in ((1, "apiVersion"), (2, "kind")):
        if head.get(number):
            document[name] = head[number]
    return document


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of a message's fields: an int for a number, bytes for everything that has a length."""
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


@cache
def _numbers() -> dict[str, dict[int, str]]:
    table: dict[str, dict[int, str]] = {}
    text = files("bayplan.devcluster.apiserver").joinpath("field_numbers.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, _, fields = line.partition(":")
        number, numbers = 0, table.setdefault(name, {})
        for field in fields.split():
            skipped, colon, rest = field.partition(":")
            number = int(skipped) if colon else number + 1
            numbers[number] = rest if colon else field
    return table


def _name(model: Model) -> str:
    return f"{model.__module__.rpartition('.')[2]}.{model.__name__}"


def _message(model: Model, data: bytes, name: str = "") -> Object:
    """A message of a type; `name` is the message's where the model is the enclosing object's."""
    numbers = _numbers()[name or _name(model)]
    message: Object = {}
    for number, value in _fields(data):
        field = numbers.get(number)
        if field is None:
            continue
        if field.startswith("+"):
            message |= _message(model, value, field[1:])
            continue
        kind, repeated, read = _reader(model, field)
        if kind == "map":
            entry = dict(_fields(value))
            message.setdefault(field, {})[_text(entry.get(1, b""))] = read(entry.get(2, b""))
        elif repeated:
            message.setdefault(field, []).append(read(value))
        else:
            message[field] = read(value)
    return message


@cache
def _reader(model: Model, field: str) -> tuple[str, bool, Callable[[Any], Any]]:
    """("map" or "", whether the field repeats, how one value of it is read)."""
    names = dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))
    annotation = model.__annotations__[names[field]].removeprefix("Optional[")
    repeated = annotation.startswith("List[")
    plain = annotation.replace("List[", "").rstrip("]").rpartition(".")[2]
    if plain in {"dict", "Dict"} and field != "fieldsV1":
        return "map", False, _map_value(model, field)
    if plain in _SCALARS:
        return "", repeated, _SCALARS[plain]
    inner = field_model(model, field)
    if inner is None:
        return "", repeated, _json
    return "", repeated, lambda value: _message(inner, value)


def _map_value(model: Model, field: str) -> Callable[[Any], Any]:
    inner = map_model(model, field)
    if inner is not None:
        return lambda value: _message(inner, value)
    if field in QUANTITY_MAPS:
        return _quantity
    if (model.__name__, field) in {("Secret", "data"), ("ConfigMap", "binaryData")}:
        return lambda value: base64.b64encode(value).decode()
    if field == "extra":
        return lambda value: [_text(item) for _, item in _fields(value)]
    if field == "disruptedPods":
        return _time
    return _text


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
    """A value of no fixed shape, whose message carries its JSON."""
    raw = dict(_fields(value)).get(1, b"")
    return decode(raw) if raw else None


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _integer,
    "float": _integer,
    "bool": bool,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _time,
    "RawExtension": _json,
    "FieldsV1": _json,
    "BasicSchedulingPolicy": lambda _value: {},
}
