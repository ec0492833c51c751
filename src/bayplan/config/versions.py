"""What a document says it is: a KubeSchedulerConfiguration of v1, or of a version that is made into v1 first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.api import field_errors
from bayplan.api.field_errors import FieldError
from bayplan.config.documents import Document
from bayplan.config.errors import ConfigurationError, lineage
from bayplan.config.types import API_VERSION, KIND


@dataclass(slots=True)
class Converted:
    """A document as v1 has it. `moved`: the paths of v1 that were elsewhere in the document, which people look at."""

    data: Mapping[str, Any]
    notes: list[FieldError] = field(default_factory=list)
    faults: list[FieldError] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def as_written(self, note: FieldError) -> FieldError:
        """A fault of the v1 document where its reason stands in the document that was read."""
        for path in lineage(note.path):
            if path in self.moved:
                return FieldError(self.moved[path] + note.path[len(path) :], note.message)
        return note


def current_version(document: Document) -> Converted:
    """The document in v1. Raises ConfigurationError for one that is something else."""
    version, kind = document.data.get("apiVersion"), document.data.get("kind")
    faults = [
        field_errors.required(name, f"expected {expected}")
        if not found
        else field_errors.not_supported(name, found, (expected,))
        for name, found, expected in (("apiVersion", version, API_VERSION), ("kind", kind, KIND))
        if found != expected
    ]
    if faults:
        raise ConfigurationError(document.in_order(faults), document.source, document.line_of)
    return Converted(document.data)
