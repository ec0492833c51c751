"""Validates metadata: names, labels, annotations, finalizers and owners.

Mirrors apimachinery's pkg/api/validation/objectmeta.go and pkg/util/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from bayplan.api.field_errors import FieldError, forbidden, invalid, required, too_long
from bayplan.api.labels import SUBDOMAIN, SUBDOMAIN_RULE, label_key_errors, label_value_errors
from bayplan.devcluster.apiserver.validation.checks import problems

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
ANNOTATIONS_LIMIT = 256 * 1024
_CHECKED = ("labels", "annotations", "finalizers", "ownerReferences")
"""The fields of metadata that have rules."""


@lru_cache(maxsize=8192)
def name_errors(name: str, rule: str) -> tuple[str, ...]:
    """Errors of a name under a rule: `subdomain`, `label`, `label1035` or `path`."""
    match rule:
        case "label" if "." in name:
            return ("must not contain dots",)
        case "label":
            return _named(name, _LABEL, 63, LABEL_RULE)
        case "label1035":
            return _named(name, _LABEL_1035, 63, LABEL_1035_RULE)
        case "path":
            if name in {".", ".."}:
                return (f"may not be '{name}'",)
            return tuple(f"may not contain '{character}'" for character in "/%" if character in name)
        case _:
            return _named(name, SUBDOMAIN, 253, SUBDOMAIN_RULE)


def _named(name: str, pattern: re.Pattern[str], limit: int, rule: str) -> tuple[str, ...]:
    long = (f"must be no more than {limit} bytes",) if len(name) > limit else ()
    return long if pattern.fullmatch(name) else (*long, rule)


def validate_meta(name_rule: str, metadata: dict[str, Any]) -> Iterator[FieldError]:
    """Rules for the metadata of a new object."""
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    prefix = metadata.get("generateName", "")
    yield from problems("metadata.generateName", prefix, name_errors(_completed(prefix), name_rule) if prefix else ())
    yield from problems("metadata.name", name, name_errors(name, name_rule) if name else ())
    yield from validate_meta_details(metadata, "metadata")


def _completed(prefix: str) -> str:
    """A name that begins with a prefix: only the end of the prefix may be a dash."""
    return f"{prefix[:-1]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def validate_deletion_fields(metadata: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    """An update can't begin a deletion."""
    for field in ("deletionGracePeriodSeconds", "deletionTimestamp"):
        if field in metadata and field not in was:
            yield invalid(f"metadata.{field}", metadata[field], "field is immutable")


def validate_meta_update(metadata: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    """Rules for the metadata of a changed object."""
    if any(
        metadata.get(field) != was.get(field) for field in ("labels", "annotations", "finalizers", "ownerReferences")
    ):
        yield from validate_meta_details(metadata, "metadata")
    if "deletionTimestamp" in was:
        added = sorted(set(metadata.get("finalizers", ())) - set(was.get("finalizers", ())))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden("metadata.finalizers", f"{detail}[]string{{{shown}}}")


def validate_labels_and_annotations(metadata: dict[str, Any], where: str) -> Iterator[FieldError]:
    """Rules for the labels and annotations of an object or a pod template."""
    yield from validate_labels(metadata.get("labels"), f"{where}.labels")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from problems(f"{where}.annotations", key, label_key_errors(key.lower()))
    if annotations and sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield too_long(f"{where}.annotations", ANNOTATIONS_LIMIT)


def validate_meta_details(metadata: dict[str, Any], where: str) -> Iterator[FieldError]:
    """Rules for labels, annotations, finalizers and owners of an object or a claim template."""
    yield from validate_labels_and_annotations(metadata, where)
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        yield from problems(f"{where}.finalizers[{index}]", finalizer, label_key_errors(finalizer))
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{where}.finalizers[{index}]", finalizer, detail)
    if {"orphan", "foregroundDeletion"} <= set(metadata.get("finalizers") or ()):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid(f"{where}.finalizers", metadata["finalizers"], detail)
    controllers = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if len(controllers) > 1:
        names = " and ".join(f"{owner['kind']}/{owner['name']}" for owner in controllers)
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
        yield invalid(f"{where}.ownerReferences", metadata["ownerReferences"], detail)
    for owner in metadata.get("ownerReferences") or ():
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield invalid(f"{where}.ownerReferences.{key}", owner.get(key, ""), "must not be empty")


def validate_labels(labels: dict[str, str] | None, where: str) -> Iterator[FieldError]:
    """Rules for labels of an object or a selector."""
    for key, value in (labels or {}).items():
        yield from problems(where, key, label_key_errors(key))
        yield from problems(where, value, label_value_errors(value))
