"""Checks the version and kind of a document, and converts older versions to v1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.config import policies
from bayplan.core.config.converted import Converted
from bayplan.core.config.decoding import shown
from bayplan.core.config.documents import Document
from bayplan.core.config.errors import ConfigurationError
from bayplan.core.config.older_versions import OLDER_VERSIONS, to_v1
from bayplan.core.config.types import API_VERSION, KIND, POD_GROUP_POST_FILTER
from bayplan.core.config.wrapping import is_of_another_scheduler
from bayplan.core.versions import NEWEST, FeatureGates


def current_version(document: Document) -> Converted:
    """The document in v1. Raises ConfigurationError for another kind or an unsupported version."""
    version, kind = document.data.get("apiVersion"), document.data.get("kind")
    if kind == policies.POLICY:
        raise ConfigurationError([policies.policy_error(document.data)], document.source, document.line_of)
    if is_of_another_scheduler(document.data):
        problem = f"this is the configuration of Volcano's or of NVIDIA's KAI scheduler: expected a {KIND}"
        raise ConfigurationError([FieldError("actions", problem)], document.source, document.line_of)
    faults = [*_wrong("apiVersion", version, (API_VERSION, *OLDER_VERSIONS)), *_wrong("kind", kind, (KIND,))]
    if faults:
        raise ConfigurationError(document.in_order(faults), document.source, document.line_of)
    return Converted(document.data) if version == API_VERSION else to_v1(document.data)


def of_later_versions(data: Mapping[str, Any], gates: FeatureGates) -> Iterator[FieldError]:
    """Yield the fields in a document of v1 that only later versions of Kubernetes have."""
    if gates.enabled("WholePodGroups"):
        return
    profiles = data.get("profiles")
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        plugins = profile.get("plugins") if isinstance(profile, Mapping) else None
        if isinstance(plugins, Mapping) and POD_GROUP_POST_FILTER in plugins:
            where = f"profiles[{index}].plugins.{POD_GROUP_POST_FILTER}"
            yield FieldError(where, f"unknown field: Kubernetes {NEWEST} has it, and {gates.version} doesn't")


def _wrong(field: str, found: object, expected: tuple[str, ...]) -> list[FieldError]:
    if found in expected:
        return []
    if not found:
        return [field_errors.required(field, f"expected {field}: {expected[0]}")]
    if not isinstance(found, str):
        return [FieldError(field, f"expected a string, got {shown(found)}")]
    return [field_errors.not_supported(field, found, expected)]
