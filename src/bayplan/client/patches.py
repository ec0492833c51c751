"""Merge patches, and the part of strategic merging that tests of schedulers need: lists of things that have a name."""

from __future__ import annotations

from typing import Any

LIST_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "ownerReferences": "uid",
}
"""By field: what tells the items of a list apart. Items of other lists are replaced together."""


def merge(old: Any, patch: Any, *, by_key: bool) -> Any:
    """`old` with `patch` merged in (RFC 7386); with `by_key`, lists in LIST_KEYS are merged item by item."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif by_key and field in LIST_KEYS and isinstance(value, list):
            merged[field] = _merge_lists(merged.get(field) or [], value, LIST_KEYS[field])
        else:
            merged[field] = merge(merged.get(field), value, by_key=by_key)
    return merged


def _merge_lists(old: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = {item.get(key): item for item in old}
    for item in patch:
        if item.get("$patch") == "delete":
            merged.pop(item.get(key), None)
        else:
            merged[item.get(key)] = merge(merged.get(item.get(key)), item, by_key=True)
    return list(merged.values())
