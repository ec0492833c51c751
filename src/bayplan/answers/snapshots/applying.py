"""What `kubectl apply` makes of an object that exists. Mirrors kubectl's pkg/cmd/apply/patcher.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.core.api.kinds import Kind
from bayplan.core.api.patch import apply_strategic_patch
from bayplan.core.api.type_table import Field, member

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_UNKNOWN = Field("")
_OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def applied(kind: Kind, live: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object after a manifest is applied to it. Raises StatusError for a manifest that can't be merged.

    Fields of the configuration that was applied last and that the manifest lacks are removed, others stay.
    """
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _OF_THE_SERVER}
    patch = {**manifest, "metadata": metadata}
    patch.pop("status", None)
    last = _last_applied(live)
    return apply_strategic_patch(kind, dict(live), _with_removals(kind.model, last, patch))


def _last_applied(live: Mapping[str, Any]) -> dict[str, Any]:
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _with_removals(kind: str, last: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The patch, which also removes what `last` has and the patch lacks."""
    found: dict[str, Any] = {}
    for key, value in patch.items():
        field, before = member(kind, key) or _UNKNOWN, last.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            found[key] = _with_removals(field.type, before, value)
        elif isinstance(value, list) and isinstance(before, list) and field.patch.startswith("merge"):
            found |= _list_with_removals(key, field, before, value)
        else:
            found[key] = value
    for key in last.keys() - patch.keys() - {"apiVersion", "kind", "metadata", "status"}:
        found[key] = None
    return found


def _list_with_removals(key: str, field: Field, last: list[Any], items: list[Any]) -> dict[str, Any]:
    if not field.patch_key:
        gone = [item for item in last if item not in items]
        return {key: items, **({f"$deleteFromPrimitiveList/{key}": gone} if gone else {})}
    by_key = {item.get(field.patch_key): item for item in last if isinstance(item, dict)}
    kind, found = field.type.removeprefix("[]"), []
    for item in items:
        before = by_key.pop(item.get(field.patch_key), None) if isinstance(item, dict) else None
        found.append(item if before is None else _with_removals(kind, before, item))
    return {key: found + [{"$patch": "delete", field.patch_key: gone} for gone in by_key]}
