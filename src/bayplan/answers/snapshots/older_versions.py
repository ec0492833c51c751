"""Older API versions of objects that are read in a newer one: those of resource.k8s.io, PodGroups, and Kueue's.

v1beta2 of resource.k8s.io (Kubernetes 1.33) has the fields of v1 (1.34). v1beta1 (1.32) has other requests and devices,
which are converted. Mirrors pkg/apis/resource/v1beta1/conversion.go. Others keep their form: see `api.pod_groups` and
`api.kueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from bayplan.core.api import kueue, older_versions
from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE, Kind
from bayplan.core.api.objects import encode

_KINDS = (DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE)
_SAME, _DIFFERENT = "v1beta2", "v1beta1"

OLDER: Mapping[Kind, tuple[Kind, ...]] = {
    **{kind: tuple(replace(kind, version=version) for version in (_SAME, _DIFFERENT)) for kind in _KINDS},
    **older_versions.OLDER,
    **kueue.OLDER_KINDS,
}
"""kind -> the same kind in older versions, the newest one first"""

_NAMES = {(kind.group, kind.plural): name for kind, name in kueue.NAMES.items()}


def _name_of(kind: Kind) -> str:
    return kind.kind if kind.model else _NAMES.get((kind.group, kind.plural), "PodGroup")


NEWER: Mapping[tuple[str, str], tuple[Kind, Kind]] = {
    (older.api_version, _name_of(older)): (older, kind) for kind, versions in OLDER.items() for older in versions
}
"""(`apiVersion`, `kind`) of an older version -> the kind in that version, and in the one that plugins read"""


def updated(older: Kind, raw: bytes) -> bytes:
    """An object's JSON in the version that plugins read. Raises msgspec.MsgspecError if it is no JSON object."""
    convert = _CONVERSIONS.get(older.kind) if older.version == _DIFFERENT else None
    if convert is None and older.model:
        return raw
    document = msgspec.json.decode(raw, type=dict[str, Any])
    if convert is None:
        return encode({"apiVersion": older.api_version, "kind": _name_of(older), **document})
    if isinstance(document.get("spec"), dict):
        document["spec"] = convert(document["spec"])
    return encode(document)


def _claim(spec: dict[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    if not isinstance(devices, dict):
        return spec
    return spec | {"devices": devices | {"requests": _each(devices.get("requests"), _request)}}


def _template(spec: dict[str, Any]) -> dict[str, Any]:
    return spec | {"spec": _claim(spec["spec"])} if isinstance(spec.get("spec"), dict) else spec


def _slice(spec: dict[str, Any]) -> dict[str, Any]:
    return spec | {"devices": _each(spec.get("devices"), _device)}


def _request(request: dict[str, Any]) -> dict[str, Any]:
    """Move the fields of a request to `exactly`, unless it has alternatives."""
    if request.get("firstAvailable"):
        return request
    exactly = {field: value for field, value in request.items() if field not in {"name", "firstAvailable"}}
    return {"name": request.get("name"), "exactly": exactly}


def _device(device: dict[str, Any]) -> dict[str, Any]:
    """Move the fields of a device from `basic` to the device."""
    return {"name": device.get("name"), **(device.get("basic") or {})}


def _each(items: Any, convert: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Any]:
    return [convert(item) if isinstance(item, dict) else item for item in items or ()]


_CONVERSIONS = {RESOURCE_CLAIM.kind: _claim, RESOURCE_CLAIM_TEMPLATE.kind: _template, RESOURCE_SLICE.kind: _slice}
