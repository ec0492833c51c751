"""Converts the extenders of a Policy. Their fields differ in two names and in the form of durations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.config.types import Extender, ExtenderTLSConfig

_RENAMED = {"enableHttps": "enableHTTPS"}


def convert_extenders(extenders: Any, notes: list[str]) -> list[dict[str, Any]]:
    """The extenders as KubeSchedulerConfiguration has them. Notes the fields that it doesn't have."""
    if not isinstance(extenders, list):
        return []
    return [_converted(extender, notes) for extender in extenders if isinstance(extender, Mapping)]


def _converted(extender: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    named = f"extender {extender.get('urlPrefix', '')}".rstrip()
    renamed = {_RENAMED.get(str(name), str(name)): value for name, value in extender.items()}
    converted = _known(renamed, Extender.__struct_fields__, named, notes)
    timeout = converted.get("httpTimeout")
    if isinstance(timeout, int) and abs(timeout) < 2**63:
        converted["httpTimeout"] = f"{timeout / 1e9:g}s"
    tls = converted.get("tlsConfig")
    if isinstance(tls, Mapping):
        converted["tlsConfig"] = _known(tls, ExtenderTLSConfig.__struct_fields__, f"{named}: tlsConfig", notes)
    return converted


def _known(value: Mapping[str, Any], fields: tuple[str, ...], named: str, notes: list[str]) -> dict[str, Any]:
    notes += [f"{named}: {name}: no equivalent" for name in value if name not in fields and name != "apiVersion"]
    return {name: item for name, item in value.items() if name in fields}
