"""What `kubectl apply` makes of an object that exists. Mirrors kubectl's pkg/cmd/apply/patcher.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.core.api.kinds import Kind
from bayplan.core.api.patch import apply_strategic_patch
from bayplan.core.api.type_table import Field, member
from bayplan.core.api.well_known_labels import LAST_APPLIED

_UNKNOWN = Field("")
_RETAIN = "retainKeys"
"""The strategy of objects whose fields exclude each other: only one of them may be set."""
_OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def applied(kind: Kind, live: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object after a manifest is applied to it. Raises StatusError for a manifest that can't be merged.

    Fields of the configuration that was applied last and that the manifest lacks are removed, others stay.
    """
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _OF_THE_SERVER}
    patch = {**manifest, "metadata": metadata}
    patch.pop("status", None)
    last = _last_applied(live)
    return apply_strategic_patch(kind, dict(live), _with_removals(kind.model, last, patch, live))


def _last_applied(live: Mapping[str, Any]) -> dict[str, Any]:
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _with_removals(kind: str, last: Mapping[str, Any], patch: Mapping[str, Any], live: Any) -> dict[str, Any]:
    """The patch, which also removes what `last` has and the patch lacks, and what a union has otherwise in `live`."""
    found: dict[str, Any] = {}
    for key, value in patch.items():
        field, before = member(kind, key) or _UNKNOWN, last.get(key)
        now = live.get(key) if isinstance(live, Mapping) else None
        if isinstance(value, dict):
            inner = _with_removals(field.type, before if isinstance(before, dict) else {}, value, now)
            found[key] = _retaining(field, value, now, inner)
        elif isinstance(value, list) and field.patch.startswith("merge") and (isinstance(before, list) or now):
            found |= _list_with_removals(key, field, before if isinstance(before, list) else [], value, now)
        else:
            found[key] = value
    for key in last.keys() - patch.keys() - {"apiVersion", "kind", "metadata", "status"}:
        found[key] = None
    return found


def _retaining(field: Field, value: Mapping[str, Any], live: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """A patch of a union, such as a Deployment's strategy, which is replaced if it changes."""
    if _RETAIN not in field.patch or not isinstance(live, Mapping):
        return patch
    changes = any(live.get(name) != each for name, each in value.items())
    return {**patch, "$retainKeys": sorted(value)} if changes else patch


def _list_with_removals(key: str, field: Field, last: list[Any], items: list[Any], live: Any) -> dict[str, Any]:
    if not field.patch_key:
        gone = [item for item in last if item not in items]
        return {key: items, **({f"$deleteFromPrimitiveList/{key}": gone} if gone else {})}
    by_key, now = (
        {item.get(field.patch_key): item for item in known if isinstance(item, dict)}
        for known in (last, live if isinstance(live, list) else [])
    )
    kind, found = field.type.removeprefix("[]"), []
    for item in items:
        if not isinstance(item, dict):
            found.append(item)
            continue
        name = item.get(field.patch_key)
        before, is_now = by_key.pop(name, None) or {}, now.get(name)
        found.append(_retaining(field, item, is_now, _with_removals(kind, before, item, is_now)))
    return {key: found + [{"$patch": "delete", field.patch_key: gone} for gone in by_key]}
