"""JSON patch, JSON merge patch and strategic merge patch. Server-side apply is the API server's.

Mirrors apimachinery's pkg/util/strategicpatch/patch.go. Functions return new values and don't change their arguments.
"""

from __future__ import annotations

import json
from typing import Any

import jsonpatch

from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import Document
from bayplan.core.api.status import StatusError, bad_request, internal
from bayplan.core.api.type_table import Field, member

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def apply_json_patch(obj: Document, operations: Any) -> Document:
    """Applies a patch of RFC 6902. Raises 400 for an invalid patch, 422 for one that does not apply."""
    try:
        patch = jsonpatch.JsonPatch(operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, AttributeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    try:
        result: Document = patch.apply(obj)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message, {}) from error
    return result


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """Applies a patch of RFC 7386: null removes, objects are merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), change)
    return merged


def apply_strategic_patch(kind: Kind, obj: Document, patch: Any) -> Document:
    """Applies a merge patch that merges lists by the merge keys of the API, with directives such as `$patch`."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a strategic merge patch is an object")
    return _merge_map(obj, patch, kind.model)


_ORDER, _REMOVED = "$setElementOrder/", "$deleteFromPrimitiveList/"
_UNKNOWN = Field("")


def _merge_map(value: Any, patch: Document, kind: str) -> Document:
    """Merges a patch into an object of type `kind`."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: item for key, item in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"unrecognized type of patch directive: {directive}")
    merged = dict(value) if isinstance(value, dict) else {}
    if (kept := patch.get("$retainKeys")) is not None:
        merged = {key: item for key, item in merged.items() if key in kept}
    for key, removed in patch.items():
        if key.startswith(_REMOVED):
            name = key[len(_REMOVED) :]
            merged[name] = [item for item in merged.get(name, ()) if item not in removed]
    for key, change in patch.items():
        if key.startswith(_ORDER):
            name = key[len(_ORDER) :]
            if name not in patch and isinstance(merged.get(name), list):
                field = member(kind, name) or _UNKNOWN
                merged[name] = _ordered(merged[name], change, field.patch_key)
        elif not key.startswith("$"):
            if change is None:
                merged.pop(key, None)
            else:
                field = member(kind, key) or _UNKNOWN
                merged[key] = _merge(merged.get(key), change, field, patch.get(_ORDER + key))
    return merged


def _merge(value: Any, change: Any, field: Field, order: Any) -> Any:
    if isinstance(change, dict):
        return _merge_map({} if field.patch == "replace" else value, change, field.type)
    if isinstance(change, list) and field.patch.startswith("merge"):
        current = value if isinstance(value, list) else []
        if not field.patch_key:
            return _merge_values(current, change, order)
        return _merge_objects(current, change, field.patch_key, field.type.removeprefix("[]"), order)
    if isinstance(change, list):
        return [_without_directives(item) for item in change]
    return change


def _without_directives(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "$patch"} if isinstance(item, dict) else item


def _merge_values(current: list[Any], change: list[Any], order: Any) -> list[Any]:
    merged = current + [item for item in change if item not in current]
    return _ordered(merged, order, "") if order else merged


def _merge_objects(current: list[Any], change: list[Any], key: str, kind: str, order: Any) -> list[Any]:
    """Merges elements with the same key. Those in the patch take its order; the others keep their places."""
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in change):
        return [item for item in change if item.get("$patch") != "replace"]
    elements = {_identity(item, key): item for item in current}
    patched: dict[Any, Any] = {}
    for item in change:
        if not isinstance(item, dict) or key not in item:
            raise internal(f"map: {json.dumps(item)} does not contain declared merge key: {key}")
        identity = _identity(item, key)
        if item.get("$patch") == "delete":
            elements.pop(identity, None)
        else:
            patched[identity] = _merge_map(patched.get(identity, elements.get(identity)), item, kind)
    if order:
        merged = [patched.get(identity, item) for identity, item in elements.items()]
        merged += [item for identity, item in patched.items() if identity not in elements]
        return _ordered(merged, order, key)
    places = {_identity(item, key): place for place, item in enumerate(current)}
    return _interleave([item for identity, item in elements.items() if identity not in patched], patched, places, key)


def _interleave(kept: list[Any], patched: dict[Any, Any], places: dict[Any, int], key: str) -> list[Any]:
    """Inserts each kept element before the first patched element that followed it in the object."""
    merged: list[Any] = []
    waiting = list(patched.items())
    for item in kept:
        place = places[_identity(item, key)]
        while waiting and not place < places.get(waiting[0][0], -1):
            merged.append(waiting.pop(0)[1])
        merged.append(item)
    return merged + [item for _, item in waiting]


def _ordered(items: list[Any], order: Any, key: str) -> list[Any]:
    """Sorts the items named in `order`; each other item keeps its place relative to them."""
    wanted = {_identity(item, key): place for place, item in enumerate(order)}
    named = sorted(
        (item for item in items if _identity(item, key) in wanted), key=lambda item: wanted[_identity(item, key)]
    )
    places = {_identity(item, key): place for place, item in enumerate(items)}
    others = [item for item in items if _identity(item, key) not in wanted]
    return _interleave(others, {_identity(item, key): item for item in named}, places, key)


def _identity(item: Any, key: str) -> Any:
    found = item.get(key) if key and isinstance(item, dict) else item
    return found if isinstance(found, (str, int, float, bool, type(None))) else json.dumps(found, sort_keys=True)
