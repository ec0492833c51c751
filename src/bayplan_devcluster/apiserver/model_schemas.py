"""The OpenAPI schemas of the built-in types, from the table of types.

kubectl reads them for `explain` and for its checks, so names and descriptions are Kubernetes'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from bayplan.core.api.models import model_named
from bayplan.core.api.type_table import Field, fields_of
from bayplan_devcluster.apiserver.schema import Object

_HOMES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
V2, V3 = "#/definitions/", "#/components/schemas/"
"""The prefixes of references to schemas in OpenAPI v2 and v3."""
_ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}
_LEAVES: dict[str, Object] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "object": {"type": "object"},
    "any": _ANYTHING,
    "JSONSchemaPropsOrArray": _ANYTHING,
    "JSONSchemaPropsOrBool": _ANYTHING,
    "JSONSchemaPropsOrStringArray": _ANYTHING,
}
_QUANTITY = "A quantity: a number with an optional suffix, as in 500m or 1.5Gi."
_NAMED_LEAVES: dict[str, tuple[str, Object]] = {
    "Quantity": ("api.resource.Quantity", {"type": "string", "description": _QUANTITY}),
    "IntOrString": ("util.intstr.IntOrString", {"type": "string", "format": "int-or-string"}),
    "Time": ("apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": ("apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
}
"""The leaves whose schemas have names, below `io.k8s.apimachinery.pkg`."""
_ONE_OF = {"Quantity": ("string", "number"), "IntOrString": ("integer", "string")}
"""The leaves that v3 describes by several types; `kubectl explain` shows their names."""


def schema_name(kind: str) -> str:
    """Returns the name of a type's schema, such as `io.k8s.api.core.v1.Pod`."""
    module, _, name = kind.rpartition(".")
    group, _, version = module.rpartition("_")
    return f"{_HOMES.get(group, f'io.k8s.api.{group}')}.{version}.{name}"


def add_type(schemas: Object, kind: str, style: str) -> str:
    """Adds the schemas of a type and of the types that it refers to, if missing; returns the name of the type's."""
    name = schema_name(kind)
    if name in schemas:
        return name
    properties: Object = {}
    schema: Object = {"type": "object", "description": describe(kind), "properties": properties}
    schemas[name] = schema
    for key, field in fields_of(kind).items():
        description = describe(kind, key) + _possible_values(field)
        properties[key] = {"description": description, **_field_schema(schemas, field, style)}
        properties[key] |= {extension: value for extension, value in _extensions(field) if value}
    if required := [key for key, field in fields_of(kind).items() if field.required]:
        schema["required"] = required
    return name


def _field_schema(schemas: Object, field: Field, style: str) -> Object:
    schema = _value_schema(schemas, field.type, style)
    if field.enum:
        schema.get("items", schema)["enum"] = list(field.enum)
    return schema


def _possible_values(field: Field) -> str:
    """The paragraph on its values that Kubernetes adds to the description of a string, but not of a list."""
    if not field.enum or field.type.startswith("[]"):
        return ""
    values = (f' - `"{value}"` {meaning}'.rstrip() for value, meaning in field.enum.items())
    return "\n".join(["\n\nPossible enum values:", *values])


def _extensions(field: Field) -> Iterator[tuple[str, Any]]:
    """Yields Kubernetes' extensions of a field's schema, including empty ones."""
    yield "x-kubernetes-patch-strategy", field.patch
    yield "x-kubernetes-patch-merge-key", field.patch_key
    yield "x-kubernetes-list-type" if field.type.startswith("[]") else "x-kubernetes-map-type", field.merge
    yield "x-kubernetes-list-map-keys", list(field.keys)


def _value_schema(schemas: Object, kind: str, style: str) -> Object:
    if kind.startswith("[]"):
        return {"type": "array", "items": _value_schema(schemas, kind[2:], style)}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _value_schema(schemas, kind[2:], style)}
    if kind in _NAMED_LEAVES:
        return _named_leaf(schemas, kind, style)
    return dict(_LEAVES[kind]) if kind in _LEAVES else reference(schemas, kind, style)


def _named_leaf(schemas: Object, kind: str, style: str) -> Object:
    name, schema = _NAMED_LEAVES[kind]
    name = f"io.k8s.apimachinery.pkg.{name}"
    if style == V3 and kind in _ONE_OF:
        plain = {key: value for key, value in schema.items() if key != "type"}
        schema = {**plain, "oneOf": [{"type": each} for each in _ONE_OF[kind]]}
    schemas[name] = schema
    target = {"$ref": style + name}
    return {"allOf": [target]} if style == V3 else target


def reference(schemas: Object, kind: str, style: str) -> Object:
    """Adds the schema of a type, and returns a reference to it, with the default {} where the schema accepts that."""
    plain = {"$ref": style + add_type(schemas, kind, style)}
    if style != V3:
        return plain
    empty = not any(field.required for field in fields_of(kind).values())
    return {"allOf": [plain], **({"default": {}} if empty else {})}


_PARAMETER = re.compile(r"\s*\* \*\*(\w+)\*\* ``[^`]*`` - ?(.*)")
_WIDTH = 78
"""The docstrings are wrapped at this width, without blank lines between paragraphs."""


def describe(kind: str, field: str = "") -> str:
    """The description of a field, or of the type without one; "" if there is none. Types are those of the table."""
    return _descriptions(kind).get(field, "")


@cache
def _descriptions(kind: str) -> dict[str, str]:
    """The descriptions by field, and that of the type under ""."""
    model = model_named(kind)
    if model is None:
        return {}
    text, _, parameters = (model.__doc__ or "").partition("**parameters**")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    described = {"": lines}
    names: dict[str, str] = {}
    if parameters:
        names.update(zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True))
    for line in parameters.splitlines():
        match = _PARAMETER.match(line)
        if match is not None:
            lines = described.setdefault(names[match[1]], [match[2]])
        elif line.strip():
            lines.append(line.strip())
    return {field: _paragraphs(lines) for field, lines in described.items()}


def _paragraphs(lines: list[str]) -> str:
    """Joins wrapped lines. A paragraph ends where the next word would have fitted in the line."""
    text = ""
    for number, line in enumerate(lines):
        following = lines[number + 1].split(" ", 1)[0] if number + 1 < len(lines) else ""
        text += line
        if following:
            fitted = number > 0 and line.endswith(".") and len(line) + 1 + len(following) <= _WIDTH
            text += "\n\n" if fitted else " "
    return text
