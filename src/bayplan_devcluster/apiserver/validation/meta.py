"""Validates metadata: names, labels, annotations, finalizers and owners.

Mirrors apimachinery's pkg/api/validation/objectmeta.go and pkg/util/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, required, too_long
from bayplan.core.api.labels import label_key_errors
from bayplan.core.api.names import name_errors
from bayplan.core.api.type_table import METADATA
from bayplan_devcluster.apiserver.validation.rules import IMMUTABLE, At, check, problems

STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
ANNOTATIONS_LIMIT = 256 * 1024
_CHECKED = ("labels", "annotations", "finalizers", "ownerReferences")
"""The fields of metadata that have rules."""


def validate_meta(name_rule: str, metadata: dict[str, Any]) -> Iterator[FieldError]:
    """Rules for the metadata of a new object."""
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    prefix = metadata.get("generateName", "")
    yield from problems("metadata.generateName", prefix, name_errors(_completed(prefix), name_rule) if prefix else ())
    yield from problems("metadata.name", name, name_errors(name, name_rule) if name else ())
    yield from check(METADATA, metadata, At("metadata"))


def _completed(prefix: str) -> str:
    """A name that begins with a prefix: only the end of the prefix may be a dash."""
    return f"{prefix[:-1]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def validate_deletion_fields(metadata: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    """An update can't begin a deletion."""
    for field in ("deletionGracePeriodSeconds", "deletionTimestamp"):
        if field in metadata and field not in was:
            yield invalid(f"metadata.{field}", metadata[field], IMMUTABLE)


def validate_meta_update(metadata: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    """Rules for the metadata of a changed object."""
    if any(
        metadata.get(field) != was.get(field) for field in ("labels", "annotations", "finalizers", "ownerReferences")
    ):
        yield from check(METADATA, metadata, At("metadata"))
    if "deletionTimestamp" in was:
        added = sorted(set(metadata.get("finalizers", ())) - set(was.get("finalizers", ())))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden("metadata.finalizers", f"{detail}[]string{{{shown}}}")


def checked_annotations(value: dict[str, str], at: At) -> Iterator[FieldError]:
    """Annotations."""
    for key in value:
        yield from problems(at.path, key, label_key_errors(key.lower()))
    if sum(len(key) + len(text) for key, text in value.items()) > ANNOTATIONS_LIMIT:
        yield too_long(at.path, ANNOTATIONS_LIMIT)


def finalizers(value: list[str], at: At) -> Iterator[FieldError]:
    """Finalizers."""
    for index, finalizer in enumerate(value):
        yield from problems(f"{at.path}[{index}]", finalizer, label_key_errors(finalizer))
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{at.path}[{index}]", finalizer, detail)
    if {"orphan", "foregroundDeletion"} <= set(value):
        yield invalid(at.path, value, "finalizer orphan and foregroundDeletion cannot be both set")


def owners(value: list[dict[str, Any]], at: At) -> Iterator[FieldError]:
    """Owner references: at most one is of a controller."""
    controllers = [owner for owner in value if owner.get("controller")]
    if len(controllers) > 1:
        names = " and ".join(f"{owner['kind']}/{owner['name']}" for owner in controllers)
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
        yield invalid(at.path, value, detail)
    for owner in value:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield invalid(f"{at.path}.{key}", owner.get(key, ""), "must not be empty")
