"""Rules of events. Mirrors Kubernetes' pkg/apis/core/validation/events.go."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api.field_errors import FieldError, invalid, required
from bayplan.core.api.labels import label_key_errors
from bayplan_devcluster.apiserver.event_conversion import to_core
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import IMMUTABLE, At, problems


def core_event(event: Object, _at: At) -> Iterator[FieldError]:
    """Rules of core/v1, which apply only to events that have an event time."""
    return _validate(event, "reportingComponent")


def event(new: Object, _at: At) -> Iterator[FieldError]:
    """Rules of events.k8s.io/v1 for new events."""
    core = to_core(new)
    yield from _validate(core, "reportingController")
    yield from _series(new, {})
    if not core.get("eventTime"):
        yield required("eventTime")
    if core.get("type") not in {"Normal", "Warning"}:
        yield invalid("type", "", f"has invalid value: {core.get('type', '')}")
    for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if core.get(field):
            yield invalid(field, "", "needs to be unset")


_MISMATCH = "does not match event.namespace"


def _validate(event: Object, controller_field: str) -> Iterator[FieldError]:
    namespace = event["metadata"].get("namespace", "")
    about = event.get("involvedObject", {}).get("namespace", "")
    if not event.get("eventTime"):
        if (about != namespace) if about else (namespace != "default"):
            yield invalid("involvedObject.namespace", about, _MISMATCH)
        return
    if not about and namespace not in {"default", "kube-system"}:
        yield invalid("involvedObject.namespace", about, _MISMATCH)
    controller = event.get("reportingComponent", "")
    if not controller:
        yield required(controller_field)
    yield from problems(controller_field, controller, label_key_errors(controller))
    for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        value = event.get(field, "")
        if not value:
            yield required(field)
        if len(value) > limit:
            yield invalid(field, "", f"can have at most {limit} characters")
    if len(event.get("message", "")) > 1024:
        yield invalid("message", "", "can have at most 1024 characters")


def _series(event: Object, old: Object) -> Iterator[FieldError]:
    """Rules for a new or changed series."""
    series = event.get("series")
    if series is None or series == old.get("series"):
        return
    if series.get("count", 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def event_update(new: Object, at: At) -> Iterator[FieldError]:
    """Rules of events.k8s.io/v1 for updates, which may change only the series and the metadata."""
    yield from _series(new, at.old)
    new_core, old_core = to_core(new), to_core(at.old)
    fields = ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type")
    for field in (*fields, "eventTime", "action", "related", "reportingComponent", "reportingInstance"):
        if new_core.get(field) != old_core.get(field):
            name = "reportingController" if field == "reportingComponent" else field
            yield invalid(name, new_core.get(field), IMMUTABLE)
