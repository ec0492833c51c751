"""ReportedObjects: the objects that were reported to a recorded scheduler, handled as it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.core.api.kinds import NODE, POD, Kind, kind_of
from bayplan.core.api.objects import UndecodableObject, decode
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.core.executor.handlers import Handlers, Receiver, SentNode
from bayplan.running.recording.entries import Changed
from bayplan.running.recording.frames import RecordingError


class ReportedObjects:
    """Decodes reported objects, and gives them to the handlers of their kinds. `watched`: the kinds plugins read.

    Attributes:
        kinds: those that the scheduler watched by their names, nodes and pods included.
    """

    def __init__(self, receiver: Receiver, watched: Iterable[Kind]) -> None:
        self.kinds = {kind.kind: kind for kind in (*watched, NODE, POD)}
        self._atomic = receiver.gates.enabled("AtomicResizes")
        self._pods = PodDecoder()
        self._handlers = Handlers(receiver)

    def take(self, entry: Changed) -> None:
        """Handle a reported change. Raises RecordingError for one of an unknown kind."""
        kind = self.kinds.get(entry.kind) or _kind(entry.kind)
        handler = self._handlers.of(kind)
        if entry.raw is None:
            handler.removed(entry.key)
            return
        try:
            handler.put(entry.key, self.decode(kind, entry.raw))
        except UndecodableObject:
            return  # another version of Bayplan could decode it: the next decision that differs says so

    def decode(self, kind: Kind, raw: bytes) -> Any:
        """Decode an object as the scheduler did. Raises UndecodableObject."""
        if kind is POD:
            pod = self._pods.decode(raw)
            return pod.with_atomic_resizes() if self._atomic else pod
        return SentNode.read(raw) if kind is NODE else decode(kind.type, raw)


def _kind(name: str) -> Kind:
    try:
        return kind_of(name)
    except ValueError as error:
        raise RecordingError(f"the recording has an object of an odd kind: {error}") from None
