"""The objects of a snapshot that can be used: one that can't be decoded is left out, and costs nothing else.

So is one without a part that an API server always sets, such as the template of a workload: questions rely on it.

`Insight.problems` names those that were left out, one line each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec

from bayplan.answers.snapshots.reading import Documents
from bayplan.answers.snapshots.snapshot import Snapshot, frozen
from bayplan.core.api.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    STATEFUL_SET,
    Kind,
)
from bayplan.core.api.objects import decode

Key = tuple[Kind, str]
_TEMPLATE = ("spec", "template", "spec")
_PARTS: Mapping[Kind, tuple[str, ...]] = {
    **dict.fromkeys((DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, REPLICATION_CONTROLLER), _TEMPLATE),
    CRON_JOB: ("spec", "jobTemplate", *_TEMPLATE),
    PERSISTENT_VOLUME: ("spec",),
    PERSISTENT_VOLUME_CLAIM: ("spec",),
    RESOURCE_CLAIM: ("spec",),
    RESOURCE_CLAIM_TEMPLATE: ("spec", "spec"),
}
"""The way to a part that each object of a kind has, if it comes from an API server."""
_NONE: Mapping[str, bytes] = MappingProxyType({})


@dataclass(slots=True)
class UsableObjects:
    """Leaves out the objects that lack a part, and those that questions read as documents and aren't of their type.

    `watched`: the kinds that the world decodes itself. Each version of an object is looked at once, from one snapshot
    to the next. `problems`: one line for each object that was ever left out.
    """

    watched: Collection[Kind]
    problems: list[str] = field(default_factory=list)
    _known: Documents = field(default_factory=dict)
    _left_out: dict[Key, None] = field(default_factory=dict)

    def of(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot without its objects that can't be decoded."""
        for kind, objects in snapshot.documents.items():
            before = self._known.get(kind, _NONE)
            is_read = kind in _PARTS or (kind.model and kind not in self.watched)
            if is_read and objects is not before:
                self._look_at(kind, before, objects)
        self._known = snapshot.documents
        return without(snapshot, self._left_out)

    def _look_at(self, kind: Kind, before: Mapping[str, bytes], objects: Mapping[str, bytes]) -> None:
        for key, raw in objects.items():
            if before.get(key) is raw:
                continue
            self._left_out.pop((kind, key), None)
            reason = _lacking(raw, _PARTS.get(kind, ())) or self._odd(kind, key, raw)
            if reason:
                self.problems.append(f"{kind.kind} {key} is left out: {reason}")
                self._left_out[kind, key] = None

    def _odd(self, kind: Kind, key: str, raw: bytes) -> str:
        """Why an object can't be decoded; "" if it can, or if the world says so itself."""
        if kind in self.watched:
            return ""
        try:
            decode(kind.type, raw)
        except ValueError as error:
            return str(error).removeprefix(f"{kind.kind} {key}: ")
        return ""


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _lacking(raw: bytes, way: Sequence[str]) -> str:
    """Which part of an object is missing, or is another value than an object; "" if none is."""
    part = msgspec.Raw(raw)
    for depth, name in enumerate(way, start=1):
        part = _fields.decode(part).get(name, _NULL)
        if not bytes(part).startswith(b"{"):
            return f"{'.'.join(way[:depth])} is {'missing' if part == _NULL else 'no object'}"
    return ""


_NULL = msgspec.Raw(b"null")


def without(snapshot: Snapshot, left_out: Iterable[Key]) -> Snapshot:
    """Return a snapshot without some objects, which need not be in it; the same one if none of them is."""
    gone = [(kind, key) for kind, key in left_out if key in snapshot.of_kind(kind)]
    if not gone:
        return snapshot
    documents: dict[Kind, Mapping[str, bytes]] = dict(snapshot.documents)
    for kind in dict.fromkeys(kind for kind, _ in gone):
        keys = {key for of, key in gone if of is kind}
        documents[kind] = {key: raw for key, raw in documents[kind].items() if key not in keys}
    return replace(snapshot, documents=frozen(documents))
