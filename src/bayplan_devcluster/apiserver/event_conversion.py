"""Converts events: they are stored as core/v1 and served as events.k8s.io/v1 too.

Mirrors Kubernetes' pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from bayplan_devcluster.apiserver.schema import Object

RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
"""The fields of events.k8s.io/v1 that core/v1 names differently, and those names."""

_FROM_CORE = {core: new for new, core in RENAMED.items()}


def to_core(event: Object) -> Object:
    """Converts an event of events.k8s.io/v1 to core/v1."""
    core = {RENAMED.get(key, key): value for key, value in event.items()}
    core.setdefault("reportingComponent", "")
    core.setdefault("reportingInstance", "")
    return core


def from_core(event: Object) -> Object:
    """Converts an event of core/v1 to events.k8s.io/v1."""
    renamed = {_FROM_CORE.get(key, key): value for key, value in event.items()}
    return {
        key: value for key, value in renamed.items() if value or key not in {"reportingController", "reportingInstance"}
    }
