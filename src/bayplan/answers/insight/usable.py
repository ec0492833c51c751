"""The objects of a snapshot that can be used: one that can't be decoded is left out, and costs nothing else.

So is a workload without a spec, which no API server has: questions read workloads as documents.

`Insight.problems` names those that were left out, one line each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec

from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.snapshots.reading import Documents
from bayplan.answers.snapshots.snapshot import Snapshot, frozen
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.objects import decode

Key = tuple[Kind, str]
_NONE: Mapping[str, bytes] = MappingProxyType({})


@dataclass(slots=True)
class UsableObjects:
    """Leaves out the objects that questions read as documents and that aren't of their type.

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
            is_read = kind in WORKLOADS or (kind.model and kind is not POD and kind not in self.watched)
            if is_read and objects is not before:
                self._look_at(kind, before, objects)
        self._known = snapshot.documents
        return without(snapshot, self._left_out)

    def _look_at(self, kind: Kind, before: Mapping[str, bytes], objects: Mapping[str, bytes]) -> None:
        for key, raw in objects.items():
            if before.get(key) is raw:
                continue
            self._left_out.pop((kind, key), None)
            reason = "spec is missing" if kind in WORKLOADS and _lacks_spec(raw) else self._odd(kind, key, raw)
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


class _Workload(msgspec.Struct):
    spec: msgspec.Raw = msgspec.Raw(b"null")


_workload = msgspec.json.Decoder(_Workload)


def _lacks_spec(raw: bytes) -> bool:
    return bytes(_workload.decode(raw).spec) == b"null"


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
