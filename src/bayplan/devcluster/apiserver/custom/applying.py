"""Server-side apply of custom resources: what a configuration says, merged by the list types of the schema.

As for the built-in kinds, no ownership of fields is kept. Mirrors structured-merge-diff's typed merge.
"""

from __future__ import annotations

from typing import Any

from bayplan.devcluster.apiserver.custom.structures import identity
from bayplan.devcluster.apiserver.patch import merge_metadata
from bayplan.devcluster.apiserver.schema import Object


def apply(schema: Object, obj: Object, configuration: Object) -> Object:
    """The object with the configuration merged into it."""
    plain = {key: value for key, value in configuration.items() if key != "metadata"}
    merged: Object = _merge(schema, obj, plain)
    metadata = configuration.get("metadata") or {}
    if isinstance(metadata, dict):  # anything else is refused when the result is read
        metadata = merge_metadata(obj.get("metadata") or {}, metadata)
    return {**merged, "metadata": metadata}


def _merge(schema: Object, value: Any, change: Any) -> Any:
    if isinstance(change, dict) and isinstance(value, dict) and schema.get("x-kubernetes-map-type") != "atomic":
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        merged = dict(value)
        for key, item in change.items():
            inner = properties.get(key, additional)
            if item is None:
                merged.pop(key, None)
            else:
                merged[key] = _merge(inner if isinstance(inner, dict) else {}, merged.get(key), item)
        return merged
    if isinstance(change, list) and isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type", "atomic")
        if kind == "set":
            return value + [item for item in change if item not in value]
        if kind == "map":
            return _merge_elements(schema, value, change)
    return change


def _merge_elements(schema: Object, value: list[Any], change: list[Any]) -> list[Any]:
    merged = list(value)
    for item in change:
        same = identity(schema, item)
        place = next((index for index, one in enumerate(merged) if identity(schema, one) == same), None)
        if place is None:
            merged.append(item)
        else:
            merged[place] = _merge(schema.get("items", {}), merged[place], item)
    return merged
