"""The four ways to describe a change: JSON patch, JSON merge patch, strategic merge patch, and server-side apply.

Mirrors apimachinery's pkg/util/strategicpatch/patch.go. Functions return new values and leave their arguments alone.
"""

from __future__ import annotations

import json
from typing import Any

import jsonpatch

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.schema import Model, Object, field_model, metadata_model, model_of
from bayplan.devcluster.apiserver.status import StatusError, bad_request, internal

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

MERGE_KEYS: dict[tuple[str, str], str] = {
    ("CSINodeSpec", "drivers"): "name",
    ("Container", "env"): "name",
    ("Container", "ports"): "containerPort",
    ("Container", "volumeDevices"): "devicePath",
    ("Container", "volumeMounts"): "mountPath",
    ("ContainerStatus", "allocatedResourcesStatus"): "name",
    ("ContainerStatus", "volumeMounts"): "mountPath",
    ("DaemonSetStatus", "conditions"): "type",
    ("DeploymentStatus", "conditions"): "type",
    ("EphemeralContainer", "env"): "name",
    ("EphemeralContainer", "ports"): "containerPort",
    ("EphemeralContainer", "volumeDevices"): "devicePath",
    ("EphemeralContainer", "volumeMounts"): "mountPath",
    ("JobStatus", "conditions"): "type",
    ("NamespaceStatus", "conditions"): "type",
    ("NodeSpec", "podCIDRs"): "",
    ("NodeStatus", "addresses"): "type",
    ("NodeStatus", "conditions"): "type",
    ("ObjectMeta", "finalizers"): "",
    ("ObjectMeta", "ownerReferences"): "uid",
    ("PersistentVolumeClaimStatus", "conditions"): "type",
    ("PodDisruptionBudgetStatus", "conditions"): "type",
    ("PodGroupSpec", "resourceClaims"): "name",
    ("PodGroupStatus", "conditions"): "type",
    ("PodGroupStatus", "resourceClaimStatuses"): "name",
    ("PodGroupTemplate", "resourceClaims"): "name",
    ("PodSpec", "containers"): "name",
    ("PodSpec", "ephemeralContainers"): "name",
    ("PodSpec", "hostAliases"): "ip",
    ("PodSpec", "imagePullSecrets"): "name",
    ("PodSpec", "initContainers"): "name",
    ("PodSpec", "resourceClaims"): "name",
    ("PodSpec", "schedulingGates"): "name",
    ("PodSpec", "topologySpreadConstraints"): "topologyKey",
    ("PodSpec", "volumes"): "name",
    ("PodStatus", "conditions"): "type",
    ("PodStatus", "hostIPs"): "ip",
    ("PodStatus", "podIPs"): "ip",
    ("PodStatus", "resourceClaimStatuses"): "name",
    ("ReplicaSetStatus", "conditions"): "type",
    ("ReplicationControllerStatus", "conditions"): "type",
    ("ResourceClaimStatus", "reservedFor"): "uid",
    ("ServiceAccount", "secrets"): "name",
    ("ServiceSpec", "ports"): "port",
    ("ServiceStatus", "conditions"): "type",
    ("StatefulSetStatus", "conditions"): "type",
}
"""Lists that are merged element by element, by type and field, and what their elements are told apart by; "" for
lists of plain values. All other lists are replaced.
"""

REPLACED = frozenset({("PodDisruptionBudgetSpec", "selector")})
"""Objects that a patch replaces as a whole."""

RETAIN_KEYS = frozenset({
    ("DeploymentSpec", "strategy"), ("PodSpec", "resourceClaims"), ("PodSpec", "volumes"),
    ("PodStatus", "resourceClaimStatuses"),
})  # fmt: skip
"""Fields whose patches name, in `$retainKeys`, all keys that may stay."""


def apply_json_patch(obj: Object, operations: Any) -> Object:
    """RFC 6902. Raises 400 for a patch that is none, 422 for one that does not apply."""
    try:
        patch = jsonpatch.JsonPatch(operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, AttributeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    try:
        result: Object = patch.apply(obj)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message, {}) from error
    return result


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), change)
    return merged


def apply_strategic_patch(kind: Kind, obj: Object, patch: Any) -> Object:
    """A merge patch in which the lists of `MERGE_KEYS` merge by element, with the directives that begin with `$`."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a strategic merge patch is an object")
    return _merge_map(obj, patch, model_of(kind))


_ORDER, _REMOVED = "$setElementOrder/", "$deleteFromPrimitiveList/"


def _merge_map(value: Any, patch: Object, model: Model | None) -> Object:
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
            field = key[len(_REMOVED) :]
            merged[field] = [item for item in merged.get(field, ()) if item not in removed]
    for key, change in patch.items():
        if key.startswith(_ORDER):
            field = key[len(_ORDER) :]
            if field not in patch and isinstance(merged.get(field), list):
                merged[field] = _ordered(merged[field], change, MERGE_KEYS.get(_slot(model, field), ""))
        elif not key.startswith("$"):
            if change is None:
                merged.pop(key, None)
            else:
                merged[key] = _merge(merged.get(key), change, model, key, patch.get(_ORDER + key))
    return merged


def _slot(model: Model | None, field: str) -> tuple[str, str]:
    return (model.__name__ if model is not None else "", field)


def _merge(value: Any, change: Any, model: Model | None, field: str, order: Any) -> Any:
    slot = _slot(model, field)
    inner = field_model(model, field) if model is not None else None
    if isinstance(change, dict):
        return _merge_map({} if slot in REPLACED else value, change, inner)
    if isinstance(change, list) and slot in MERGE_KEYS:
        key = MERGE_KEYS[slot]
        current = value if isinstance(value, list) else []
        return _merge_objects(current, change, key, inner, order) if key else _merge_values(current, change, order)
    if isinstance(change, list):
        return [_without_directives(item) for item in change]
    return change


def _without_directives(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "$patch"} if isinstance(item, dict) else item


def _merge_values(current: list[Any], change: list[Any], order: Any) -> list[Any]:
    merged = current + [item for item in change if item not in current]
    return _ordered(merged, order, "") if order else merged


def _merge_objects(current: list[Any], change: list[Any], key: str, model: Model | None, order: Any) -> list[Any]:
    """Merges elements with the same key; those of the patch take their order from it, the rest keeps its place."""
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
            patched[identity] = _merge_map(patched.get(identity, elements.get(identity)), item, model)
    if order:
        merged = [patched.get(identity, item) for identity, item in elements.items()]
        merged += [item for identity, item in patched.items() if identity not in elements]
        return _ordered(merged, order, key)
    places = {_identity(item, key): place for place, item in enumerate(current)}
    return _interleave([item for identity, item in elements.items() if identity not in patched], patched, places, key)


def _interleave(kept: list[Any], patched: dict[Any, Any], places: dict[Any, int], key: str) -> list[Any]:
    """Inserts elements that only the object has before the first element of the patch that stood behind them."""
    merged: list[Any] = []
    waiting = list(patched.items())
    for item in kept:
        place = places[_identity(item, key)]
        while waiting and not place < places.get(waiting[0][0], -1):
            merged.append(waiting.pop(0)[1])
        merged.append(item)
    return merged + [item for _, item in waiting]


def _ordered(items: list[Any], order: Any, key: str) -> list[Any]:
    """The items that `order` names in its order; each other one stays behind the item that it stood behind."""
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


def merge_metadata(metadata: Object, change: Object) -> Object:
    """An object's metadata with a change merged into it by merge keys."""
    return _merge_map(metadata, change, metadata_model())


def apply_configuration(kind: Kind, obj: Object, configuration: Object) -> Object:
    """Server-side apply as far as this server has it: the configuration is merged into the object by merge keys.

    No ownership of fields is kept: nothing conflicts, and a field that a later configuration leaves out stays.
    """
    return _merge_map(obj, configuration, model_of(kind))
