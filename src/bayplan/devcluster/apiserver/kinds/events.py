"""The schema of events.k8s.io/v1, whose events are stored as core/v1."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.devcluster.apiserver.event_conversion import from_core, to_core
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.storage.object_schema import TypedSchema


@dataclass(frozen=True, slots=True)
class EventSchema(TypedSchema):
    """The schema of a kind of event that is converted when it is stored."""

    converts: bool = True

    def from_storage(self, obj: Object) -> Object:
        """See ObjectSchema."""
        return from_core(obj)

    def to_storage(self, obj: Object) -> Object:
        """See ObjectSchema."""
        return to_core(obj)
