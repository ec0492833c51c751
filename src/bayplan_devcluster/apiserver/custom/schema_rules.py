"""Validates the schemas in CustomResourceDefinitions: they have to be structural.

Mirrors ValidateStructural of apiextensions-apiserver's pkg/apiserver/schema, and the rules for OpenAPI schemas of its
pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from bayplan.core.api.patterns import InvalidPattern, compile_pattern
from bayplan_devcluster.apiserver.custom.structural import prune
from bayplan_devcluster.apiserver.custom.values import Place, check_value
from bayplan_devcluster.apiserver.schema import Object

TYPES = ("array", "boolean", "integer", "number", "object", "string")
UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
ROOT_WITH_STATUS = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""The keywords that the root of a schema may have if there is a status subresource, by their names in Go."""
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_X = "x-kubernetes-"
_NOT_NESTED = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (f"{_X}preserve-unknown-fields", "must be false to be structural"),
    (f"{_X}embedded-resource", "must be false to be structural"),
    (f"{_X}int-or-string", "must be false to be structural"),
    (f"{_X}list-map-keys", "must be empty to be structural"),
    (f"{_X}list-type", "must be undefined to be structural"),
    (f"{_X}map-type", "must be undefined to be structural"),
    (f"{_X}validations", "must be empty to be structural"),
)


def check_schema(schema: Object, where: str, *, has_status: bool) -> Iterator[FieldError]:
    """Errors of an openAPIV3Schema, whose path is `where`."""
    if has_status:
        yield from _check_root_with_status(schema, where)
    if schema.get("nullable"):
        yield forbidden(f"{where}.nullable", "nullable cannot be true at the root")
    found = [*sorted(_check_level(schema, where, "root"), key=str), *_check_keywords(schema, where)]
    yield from found
    if not found:
        yield from _check_complete(schema, where)
        yield from _check_defaults(schema, where)


def _check_root_with_status(schema: Object, where: str) -> Iterator[FieldError]:
    if schema.get("type", "object") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid(f"{where}.type", schema["type"], detail)
    allowed = {name[0].lower() + name[1:] for name in ROOT_WITH_STATUS}
    allowed |= {f"{_X}preserve-unknown-fields", f"{_X}validations"}
    others = [key for key in schema if key not in allowed]
    if others:
        names = " ".join(ROOT_WITH_STATUS)
        detail = f"only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(where, sorted(others), detail)


def _check_level(schema: Object, where: str, level: str) -> Iterator[FieldError]:
    """The invariants of a structural schema; `level` is `root`, `item` or `field`."""
    kind = schema.get("type", "")
    if kind == "array" and "items" not in schema:
        yield required(f"{where}.items", "must be specified")
    if isinstance(schema.get("items"), dict):
        yield from _check_level(schema["items"], f"{where}.items", "item")
    for name, inner in schema.get("properties", {}).items():
        yield from _check_level(inner, f"{where}.properties[{name}]", "field")
    additional = schema.get("additionalProperties")
    if additional is not None:
        if level == "root":
            yield forbidden(f"{where}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _check_level(additional, f"{where}.additionalProperties", "field")
    yield from _check_extensions(schema, where)
    yield from _check_validations(schema, where, int_or_string=True)
    yield from _check_kind_of_level(schema, where, level)
    if level == "root" or schema.get(f"{_X}embedded-resource"):
        yield from _check_resource(schema, where, level)


def _check_kind_of_level(schema: Object, where: str, level: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    free = schema.get(f"{_X}int-or-string") or schema.get(f"{_X}preserve-unknown-fields")
    if schema.get(f"{_X}embedded-resource") and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{where}.type", kind, detail) if kind else required(f"{where}.type", detail)
    elif not kind and not free:
        places = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
        yield required(f"{where}.type", f"must not be empty {places[level]}")
    if level == "root" and kind not in {"", "object"}:
        yield invalid(f"{where}.type", kind, "must be object at the root")


def _check_resource(schema: Object, where: str, level: str) -> Iterator[FieldError]:
    """Rules for the fields that every resource has."""
    properties = schema.get("properties", {})
    for field in ("kind", "apiVersion"):
        if field in properties and properties[field].get("type") != "string":
            at = f"{where}.properties[{field}].type"
            yield invalid(at, properties[field].get("type", ""), "must be string")
    if "metadata" in properties:
        metadata, at = properties["metadata"], f"{where}.properties[metadata]"
        if metadata.get("type") != "object":
            yield invalid(f"{at}.type", metadata.get("type", ""), "must be object")
        allowed = {"type", "description", "properties", "default"}
        if level == "root" and (
            not metadata.keys() <= allowed or not metadata.get("properties", {}).keys() <= {"name", "generateName"}
        ):
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(at, detail)
    embedded = schema.get(f"{_X}embedded-resource")
    if embedded and "additionalProperties" in schema:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{where}.additionalProperties", detail)
    if embedded and not properties and not schema.get(f"{_X}preserve-unknown-fields"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{where}.properties", detail)


def _check_extensions(schema: Object, where: str) -> Iterator[FieldError]:
    if schema.get(f"{_X}int-or-string"):
        for name in ("preserve-unknown-fields", "embedded-resource"):
            if schema.get(_X + name):
                yield invalid(f"{where}.{_X}{name}", True, "must be false if x-kubernetes-int-or-string is true")


def _check_validations(schema: Object, where: str, *, int_or_string: bool) -> Iterator[FieldError]:
    for junctor in _JUNCTORS:
        for index, inner in enumerate(schema.get(junctor, ())):
            if int_or_string and _is_int_or_string(schema, junctor, index):
                continue
            yield from _check_nested(inner, f"{where}.{junctor}[{index}]")
    if "not" in schema:
        yield from _check_nested(schema["not"], f"{where}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except InvalidPattern as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{where}.pattern", pattern, detail)


def _is_int_or_string(schema: Object, junctor: str, index: int) -> bool:
    """Whether a schema is at one of the two places below a junctor that may have a type."""
    if junctor == "anyOf":
        return bool(schema["anyOf"] == INT_OR_STRING)
    return junctor == "allOf" and index == 0 and bool(schema["allOf"][0].get("anyOf") == INT_OR_STRING)


def _check_nested(schema: Object, where: str) -> Iterator[FieldError]:
    yield from _check_validations(schema, where, int_or_string=False)
    if isinstance(schema.get("items"), dict):
        yield from _check_nested(schema["items"], f"{where}.items")
    for name, inner in schema.get("properties", {}).items():
        yield from _check_nested(inner, f"{where}.properties[{name}]")
    for keyword, detail in _NOT_NESTED:
        if schema.get(keyword) not in (None, False, "", []):
            yield forbidden(f"{where}.{keyword}", detail)
    if "metadata" in schema.get("properties", {}):
        yield forbidden(f"{where}.properties[metadata]", "must not be specified in a nested context")


def _check_keywords(schema: Object, where: str) -> Iterator[FieldError]:
    """Rejects keywords that are not supported anywhere in a schema."""
    kind = schema.get("type", "")
    if kind == "null":
        yield forbidden(f"{where}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in TYPES:
        yield not_supported(f"{where}.type", kind, TYPES)
    for keyword in UNSUPPORTED:
        if keyword in schema:
            yield forbidden(f"{where}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{where}.uniqueItems", detail)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{where}.items", "items must be a schema object and not an array")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{where}.additionalProperties", detail)
    if schema.get(f"{_X}preserve-unknown-fields") is False:
        yield invalid(f"{where}.{_X}preserve-unknown-fields", False, "must be true or undefined")
    yield from _check_list_and_map_types(schema, where)
    for inner, at in _children(schema, where):
        yield from _check_keywords(inner, at)


def _children(schema: Object, where: str) -> Iterator[tuple[Object, str]]:
    for name, inner in schema.get("properties", {}).items():
        yield inner, f"{where}.properties[{name}]"
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword], f"{where}.{keyword}"
    for junctor in _JUNCTORS:
        for index, inner in enumerate(schema.get(junctor, ())):
            yield inner, f"{where}.{junctor}[{index}]"


def _check_list_and_map_types(schema: Object, where: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    for keyword, wanted, supported in (
        (f"{_X}map-type", "object", ("atomic", "granular")),
        (f"{_X}list-type", "array", ("atomic", "set", "map")),
    ):
        found = schema.get(keyword)
        if found is None:
            continue
        if kind != wanted:
            detail = f"must be {wanted} if {keyword} is specified"
            yield invalid(f"{where}.type", kind, detail) if kind else required(f"{where}.type", detail)
        if found not in supported:
            yield not_supported(f"{where}.{keyword}", found, supported)
    keys, list_type = schema.get(f"{_X}list-map-keys") or [], schema.get(f"{_X}list-type")
    if keys and list_type != "map":
        detail, at = "must be map if x-kubernetes-list-map-keys is non-empty", f"{where}.{_X}list-type"
        yield invalid(at, list_type, detail) if list_type else required(at, detail)
    if list_type == "map":
        yield from _check_list_map(schema, where, keys)


def _check_list_map(schema: Object, where: str, keys: list[str]) -> Iterator[FieldError]:
    at = f"{where}.{_X}list-map-keys"
    if not keys:
        yield required(at, "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items")
    if not isinstance(items, dict):
        yield required(f"{where}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{where}.items.type", items.get("type", ""), detail)
        return
    for key in keys:
        inner = items.get("properties", {}).get(key)
        field = f"{where}.items.properties[{key}]"
        if inner is None:
            yield invalid(at, keys, "entries must all be names of item properties")
            continue
        if inner.get("type") in {"array", "object"}:
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{field}.type", inner["type"], detail)
        if key not in items.get("required", ()) and "default" not in inner:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield required(f"{field}.default", detail)
        if inner.get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{field}.nullable", detail)
    if len(set(keys)) < len(keys):
        yield invalid(at, keys, "must not contain duplicate entries")


def _check_complete(schema: Object, where: str) -> Iterator[FieldError]:
    """Fields in a junctor (allOf, anyOf, oneOf, not) have to be specified outside of it too."""
    for junctor in (*_JUNCTORS, "not"):
        nested = schema.get(junctor, [])
        for index, inner in enumerate([nested] if isinstance(nested, dict) else nested):
            at = f"{where}.{junctor}" if junctor == "not" else f"{where}.{junctor}[{index}]"
            yield from _check_specified(schema, inner, where, at)
    for inner, at in _children(schema, where):
        if ".properties[" in at[len(where) :] or at.endswith((".items", ".additionalProperties")):
            yield from _check_complete(inner, at)


def _check_specified(schema: Object, nested: Object, where: str, at: str) -> Iterator[FieldError]:
    free = schema.get(f"{_X}preserve-unknown-fields") or "additionalProperties" in schema
    for name, inner in nested.get("properties", {}).items():
        specified = schema.get("properties", {}).get(name)
        if specified is not None:
            yield from _check_specified(specified, inner, f"{where}.properties[{name}]", f"{at}.properties[{name}]")
        elif not free:
            yield required(f"{where}.properties[{name}]", f"because it is defined in {at}.properties[{name}]")
    if "items" in nested:
        if isinstance(schema.get("items"), dict):
            yield from _check_specified(schema["items"], nested["items"], f"{where}.items", f"{at}.items")
        elif not free:
            yield required(f"{where}.items", f"because it is defined in {at}.items")
    for junctor in _JUNCTORS:
        for index, inner in enumerate(nested.get(junctor, ())):
            yield from _check_specified(schema, inner, where, f"{at}.{junctor}[{index}]")


def _check_defaults(schema: Object, where: str) -> Iterator[FieldError]:
    """Defaults have to be valid under their schema, without unknown fields."""
    if "default" in schema:
        given: Any = schema["default"]
        unknown: list[str] = []
        prune(schema, given, "", unknown)
        if unknown:
            yield invalid(f"{where}.default", given, "must not have unknown fields")
        yield from check_value(schema, given, Place("", f"{where}.default"))
    for inner, at in _children(schema, where):
        yield from _check_defaults(inner, at)
