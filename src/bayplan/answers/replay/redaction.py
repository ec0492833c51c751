"""Redacts recordings: names in all entries are replaced as in a redacted history, and texts are left out.

Equal names stay equal, with one key also in another recording, and decisions rest on little else. The order of names is
lost; replays say so if a decision differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from bayplan.answers.history.redacting import Redactor, key_of
from bayplan.answers.replay.redacted_configuration import redacted_configuration
from bayplan.answers.replay.redacted_memories import MEMORIES
from bayplan.core.api.kinds import POD, Kind, kind_of
from bayplan.core.api.objects import encode
from bayplan.running.provisioning.checkpoints import DeskNames, renamed
from bayplan.running.recording.entries import (
    Activated,
    Answered,
    AnyEntry,
    Began,
    Bound,
    Changed,
    Checkpoint,
    Compared,
    Evicted,
    GaveWay,
    Permitted,
    PlanMade,
    PodDecided,
    Popped,
    PreBound,
    RecordedEntry,
    RecordedMemory,
    RecordedObject,
    RecordedPlugin,
    RecordedStatus,
    RecordingEnded,
    Replied,
    RequestDue,
    RequestsOpened,
    Setting,
)
from bayplan.running.recording.summaries import LEFT_OUT, without_text

_SELECTING = frozenset({"deviceclasses", "resourceclaims", "resourceclaimtemplates"})
"""Kinds whose CEL expressions say which texts of devices can't be replaced."""
_ERRORS = frozenset({"ApiError", "TransportError", "TimeoutError"})
_REASONS = frozenset({"AlreadyExists", "Conflict", "Expired", "Forbidden", "Gone", "Invalid", "NotFound"})
"""Reasons of the API server's errors."""


class RecordingRedactor:
    """Implements RecordingRedaction. The same key gives the same names, also those of `history.redacting`."""

    def __init__(self, key: bytes) -> None:
        self.left_out: list[str] = []
        self._objects = Redactor(key)
        self._names = self._objects.names
        self._kinds: dict[str, Kind] = {}
        self._desk_names = DeskNames(self._uid, self._node, self._key, self._own, without_text)

    def setting(self, setting: Setting) -> Setting:
        """The setting without addresses, folders, and the arguments of plugins of the user's."""
        configuration, without_arguments = redacted_configuration(setting.configuration, self._names)
        for name in without_arguments:
            self._leave_out(f"the arguments of plugin {name}")
        plugins = tuple(map(_plugin, setting.plugins))
        answers = tuple(self._names.new("provisioningclass", name) for name in setting.answers)
        return replace(setting, configuration=configuration, plugins=plugins, cluster="", answers=answers)

    def entries(self, entries: Iterable[RecordedEntry]) -> list[RecordedEntry]:
        """The entries with new names. Changes of kinds whose fields aren't known are left out."""
        entries = list(entries)
        for changed in _objects_of(entries):
            if changed.raw is not None and self._kind(changed.kind).plural in _SELECTING:
                self._raw(changed.kind, changed.key, changed.raw)
        redacted = [new for entry in entries if (new := self._entry(entry)) is not None]  # type: ignore[arg-type]
        for attribute in sorted(self._names.read_late):
            self._leave_out(f"texts of the device attribute {attribute}, which a selector read only later")
        return redacted

    def _entry(self, entry: AnyEntry) -> RecordedEntry | None:
        match entry:
            case Changed():
                return self._changed(entry)
            case Popped():
                return replace(entry, uid=self._uid(entry.uid))
            case PlanMade():
                preemptions = (
                    (self._uid(uid), self._node(node), self._uids(uids)) for uid, node, uids in entry.preemptions
                )
                return replace(
                    entry,
                    decisions=tuple(map(self._decided, entry.decisions)),
                    placed=self._uids(entry.placed),
                    preemptions=tuple(preemptions),
                )
            case Answered():
                return self._answered(entry)
            case Permitted() | PreBound() | Bound():
                return replace(entry, status=_status(entry.status))
            case Replied():
                return self._replied(entry)
            case Activated():
                return replace(entry, uids=self._uids(entry.uids))
            case Checkpoint():
                return self._checkpoint(entry)
            case Evicted():
                return replace(entry, preemptor=self._uid(entry.preemptor), victims=self._uids(entry.victims))
            case GaveWay() | Began() | Compared() | RecordingEnded() | RequestsOpened():
                return entry
            case RequestDue():
                return replace(entry, key=self._key("provisioningrequest", entry.key))
            case _:
                assert_never(entry)

    # Objects

    def _changed(self, entry: Changed) -> Changed | None:
        kind = self._kind(entry.kind)
        if entry.raw is None:
            gone = self._objects.removed(kind, entry.key)
            return None if gone is None else replace(entry, key=gone)
        found = self._raw(entry.kind, entry.key, entry.raw)
        return None if found is None else replace(entry, key=found[0], raw=found[1])

    def _raw(self, kind: str, key: str, raw: bytes) -> tuple[str, bytes] | None:
        """The new key and the new JSON of an object; None for one that is left out."""
        redacted = self._objects(self._kind(kind), key, msgspec.json.decode(raw))
        if redacted is None:
            self._leave_out(f"objects of the kind {kind}")
            return None
        return key_of(redacted), encode(redacted)

    def _kind(self, name: str) -> Kind:
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = kind_of(name)
        return kind

    def _replied(self, entry: Replied) -> Replied:
        error = None if entry.error is None else _error(*entry.error)
        if not entry.kind or entry.raw is None:
            return replace(entry, error=error)
        reply = msgspec.json.decode(entry.raw)
        listed = reply if isinstance(reply, list) else [reply]
        found = [self._raw(entry.kind, key_of(obj), encode(obj)) for obj in listed]
        raws = [b"{}" if each is None else each[1] for each in found]
        raw = msgspec.json.encode([msgspec.Raw(each) for each in raws]) if isinstance(reply, list) else raws[0]
        return replace(entry, raw=raw, error=error)

    def _checkpoint(self, entry: Checkpoint) -> Checkpoint:
        objects = (self._recorded_object(each) for each in entry.objects)
        return replace(
            entry,
            objects=tuple(each for each in objects if each is not None),
            rows=tuple(map(self._node, entry.rows)),
            placed=tuple(
                replace(each, key=self._pod(each.key), uid=self._uid(each.uid), node=self._node(each.node))
                for each in entry.placed
            ),
            queued=tuple(
                replace(each, key=self._pod(each.key), message=without_text(each.message)) for each in entry.queued
            ),
            nominated=tuple((self._pod(key), self._uid(uid), self._node(node)) for key, uid, node in entry.nominated),
            binding=tuple((task, self._uid(uid)) for task, uid in entry.binding),
            requests=renamed(entry.requests, self._desk_names),
            memories=tuple(self._memories(entry.memories)),
        )

    def _memories(self, memories: Iterable[RecordedMemory]) -> Iterator[RecordedMemory]:
        for each in memories:
            rule = MEMORIES.get(each.plugin)
            if rule is None:
                self._leave_out(f"what plugin {each.plugin} remembers at the start of a segment")
            else:
                yield replace(each, raw=encode(rule(msgspec.json.decode(each.raw), self._names)))

    def _recorded_object(self, each: RecordedObject) -> RecordedObject | None:
        found = self._raw(each.kind, each.key, each.raw)
        if found is None:
            return None
        assumed = None if each.assumed is None else self._raw(each.kind, each.key, each.assumed)
        return RecordedObject(each.kind, *found, None if assumed is None else assumed[1])

    # Decisions

    def _decided(self, each: PodDecided) -> PodDecided:
        return PodDecided(
            self._uid(each.uid),
            self._pod(each.key),
            self._node(each.node),
            each.outcome,
            without_text(each.message),
            None if each.nominated is None else self._node(each.nominated),
            self._uids(each.victims),
        )

    def _answered(self, entry: Answered) -> Answered:
        feasible, scores, candidates = entry.feasible, entry.scores, entry.candidates
        return replace(
            entry,
            feasible=None if feasible is None else tuple(map(self._node, feasible)),
            rejected={self._node(node): _status(status) for node, status in entry.rejected.items()},
            scores=None if scores is None else {self._node(node): score for node, score in scores.items()},
            candidates=None
            if candidates is None
            else tuple((self._node(node), self._uids(uids), violations) for node, uids, violations in candidates),
            error=None if entry.error is None else LEFT_OUT,
        )

    def _uid(self, uid: str) -> str:
        return self._names.new("uid", uid)

    def _uids(self, uids: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self._uid, uids))

    def _node(self, name: str) -> str:
        return self._names.new("node", name)

    def _key(self, domain: str, key: str) -> str:
        """`namespace/name`, with the new names."""
        namespace, slash, name = key.rpartition("/")
        return f"{self._names.new('namespace', namespace)}{slash}{self._names.new(domain, name)}"

    def _own(self, kind: str, raw: bytes) -> bytes:
        """The new JSON of an object that only the desk has."""
        found = self._raw(kind, key_of(msgspec.json.decode(raw)), raw)
        assert found is not None, f"there are no rules for {kind}"
        return found[1]

    def _pod(self, key: str) -> str:
        return self._objects.key(POD, key) or ""

    def _leave_out(self, what: str) -> None:
        if what not in self.left_out:
            self.left_out.append(what)


def _objects_of(entries: Iterable[RecordedEntry]) -> Iterable[Changed | RecordedObject]:
    for entry in entries:
        if isinstance(entry, Changed):
            yield entry
        elif isinstance(entry, Checkpoint):
            yield from entry.objects


def _status(status: RecordedStatus) -> RecordedStatus:
    code, reasons, plugin = status
    return code, tuple(map(without_text, reasons)), plugin


def _error(name: str, arguments: bytes) -> tuple[str, bytes]:
    known: Mapping[str, Any] = msgspec.json.decode(arguments)
    kept = {field: known[field] for field in ("status", "sent") if field in known}
    reason = known.get("reason", "")
    texts = {"text": LEFT_OUT, "reason": reason if reason in _REASONS else ""}
    return name if name in _ERRORS else "Exception", msgspec.json.encode({**texts, **kept})


def _plugin(plugin: RecordedPlugin) -> RecordedPlugin:
    """Without the folder of its file: a replay looks for it in the folder that it runs in."""
    return replace(plugin, reference=Path(plugin.reference).name)
