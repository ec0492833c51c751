"""Decoding and encoding of Kubernetes objects.

The fast path is one msgspec pass. A document that msgspec rejects is decoded again as Go clients do it: null and
missing fields become the field's empty value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
from lightkube.models.meta_v1 import ObjectMeta
from msgspec import inspect

from bayplan.core.api import field_types

T = TypeVar("T")

Document = dict[str, Any]
"""An object as decoded JSON."""

field_types.declare()


class UndecodableObject(ValueError):
    """A document that can't be decoded as the given type.

    `namespace` and `name` come from its metadata ("" if missing). `path` is the location of the error, such as
    `spec.containers[0].image` ("" for the whole document), and `reason` describes it.
    """

    def __init__(self, reason: str, *, path: str = "", kind: str = "", namespace: str = "", name: str = "") -> None:
        self.reason = reason
        self.path = path
        self.kind = kind
        self.namespace = namespace
        self.name = name
        full_name = f"{namespace}/{name}" if namespace else name
        where = f" at {path}" if path else ""
        super().__init__(f"{' '.join(filter(None, (kind or 'object', full_name)))}: {reason}{where}")


def decode(cls: type[T], raw: bytes) -> T:
    """Decode a JSON document. Unknown fields are ignored and `managedFields` is dropped.

    null becomes None in an optional field, and the empty list, map or value otherwise. Raises UndecodableObject.
    """
    try:
        obj: T = _decoder(cls).decode(raw)
        return _without_managed_fields(obj)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        try:
            document = msgspec.json.decode(raw)
            return convert(cls, document)
        except UndecodableObject:
            raise
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise _explain(cls, error, None) from None


def convert(cls: type[T], document: Mapping[str, Any]) -> T:
    """`decode` for a parsed document, for example from YAML. The document isn't modified."""
    if document is None:
        raise UndecodableObject("Expected `object`, got `null`", kind=cls.__name__)
    try:
        return _without_managed_fields(msgspec.convert(document, cls, dec_hook=_dec_hook))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return _without_managed_fields(msgspec.convert(_repair(_type_info(cls), document), cls, dec_hook=_dec_hook))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _explain(cls, error, document) from None


def encode(obj: Any) -> bytes:
    """The JSON of a typed object or a plain document, without the unset fields of typed objects."""
    return _encoder.encode(obj)


def bare(raw: bytes) -> bytes:
    """The JSON of an object without `kind`, `apiVersion` and `managedFields`. All other fields are unchanged.

    client-go's informers keep objects in this form, and kube-scheduler sends it to extenders. Raises
    msgspec.MsgspecError if `raw` isn't a JSON object.
    """
    fields = _fields.decode(raw)
    fields.pop("kind", None)
    fields.pop("apiVersion", None)
    if "metadata" in fields and b'"managedFields"' in raw:
        metadata = _fields.decode(fields["metadata"])
        metadata.pop("managedFields", None)
        fields["metadata"] = msgspec.Raw(_encoder.encode(metadata))
    return _encoder.encode(fields)


_encoder = msgspec.json.Encoder()
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _dec_hook(cls: type[Any], document: Any) -> Any:
    """Convert a document to a type that msgspec doesn't know: CustomObject."""
    if not isinstance(document, dict):
        raise msgspec.ValidationError(f"Expected `object`, got `{type(document).__name__}`")
    return cls(document)


_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(partial(msgspec.json.Decoder, dec_hook=_dec_hook))
_type_info: Callable[[Any], inspect.Type] = cache(inspect.type_info)


_NO_METADATA = object()


def _without_managed_fields(obj: T) -> T:
    if isinstance(obj, dict):
        if isinstance(metadata := obj.get("metadata"), dict) and "managedFields" in metadata:
            obj["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
        return obj
    metadata = getattr(obj, "metadata", _NO_METADATA)
    if metadata is None:  # Go's objects always have metadata
        obj.metadata = ObjectMeta()  # type: ignore[attr-defined] # has the field, as the line above saw
    elif getattr(metadata, "managedFields", None) is not None:
        metadata.managedFields = None
    return obj


def _repair(info: inspect.Type, value: Any) -> Any:
    """A copy of `value` in which null and missing required fields have the empty value of their type."""
    if isinstance(info, inspect.UnionType):
        if value is None or len(concrete := [t for t in info.types if not isinstance(t, inspect.NoneType)]) != 1:
            return value
        return _repair(concrete[0], value)
    if value is None:
        return _empty(info)
    if isinstance(info, inspect.StructType) and isinstance(value, Mapping):
        repaired = dict(value)
        for field in info.fields:
            if field.encode_name in repaired:
                repaired[field.encode_name] = _repair(field.type, repaired[field.encode_name])
            elif field.required:
                repaired[field.encode_name] = _empty(field.type)
        return repaired
    if isinstance(info, inspect.ListType) and isinstance(value, list):
        return [_repair(info.item_type, item) for item in value]
    if isinstance(info, inspect.DictType) and isinstance(value, Mapping):
        return {key: _repair(info.value_type, item) for key, item in value.items()}
    return value


def _empty(info: inspect.Type) -> Any:
    match info:
        case inspect.ListType():
            return []
        case inspect.DictType():
            return {}
        case inspect.StructType():
            return _repair(info, {})
        case inspect.StrType():
            return ""
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 0
        case _:
            return None


def _explain(cls: type[Any], error: Exception, document: Any) -> UndecodableObject:
    reason, _, path = str(error).partition(" - at `$")
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    identity = dict.fromkeys(("namespace", "name"), "")
    if isinstance(metadata, Mapping):
        identity |= {key: str(metadata[key]) for key in identity if metadata.get(key)}
    return UndecodableObject(
        "nested too deeply" if isinstance(error, RecursionError) else reason,
        path=path.removesuffix("`").removeprefix("."),
        kind=cls.__name__,
        **identity,
    )
