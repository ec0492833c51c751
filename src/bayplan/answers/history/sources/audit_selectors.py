"""Which objects a deletion of many has chosen, if the audit log has only its request."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.answers.history.documents import mapping
from bayplan.answers.history.sources.audit_files import AuditEvent
from bayplan.answers.history.sources.audit_objects import Document
from bayplan.core.api.labels import InvalidSelector, parse_field_selector, parse_label_selector

_SELECTED = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.schedulerName": ("spec", "schedulerName"),
    "status.phase": ("status", "phase"),
}
"""The fields by which deletions of many objects choose them -> where they are"""


def selected(event: AuditEvent, objects: Mapping[str, Document]) -> list[str] | None:
    """Return the keys of the known objects that a deletion chose; None if the log doesn't say how it chose.

    `objects`: those of the event's resource, by key.
    """
    if "items" in (event.response or {}):
        return []
    if not event.uri.partition("?")[0].endswith(f"/{event.resource}"):
        return None
    given = event.parameters
    try:
        labels = parse_label_selector(given.get("labelSelector", ""))
        fields = parse_field_selector(given.get("fieldSelector", ""), lambda field: field in _SELECTED)
    except InvalidSelector:
        return None
    return [
        key
        for key, obj in objects.items()
        if event.namespace in {"", str(obj["metadata"].get("namespace") or "")}
        and labels.matches(mapping(mapping(obj, "metadata"), "labels"))
        and fields.matches({field: str(mapping(obj, a).get(b) or "") for field, (a, b) in _SELECTED.items()})
    ]
