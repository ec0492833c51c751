"""Makes a history from a recording of kwok: `kwokctl snapshot record`, or `kwokctl snapshot export --record`.

It is a stream of YAML documents: the objects at the start, then a ResourcePatch for each change, with its time since
the start. Times in it are usually relative to the start, too, so that no date is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple

from bayplan.answers.history.following import date_of
from bayplan.answers.history.format import HistoryError, HistoryManifest
from bayplan.answers.history.sources.problems import BAD_PATCH, Problems
from bayplan.answers.history.sources.trace import BEGIN
from bayplan.answers.history.sources.versions import KEPT, VersionedObjects, kept_kind
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import Kind
from bayplan.core.api.patch import apply_strategic_patch
from bayplan.core.api.status import StatusError
from bayplan.core.api.times import rfc3339
from bayplan.foundations.bounded_files import GZIP, Allowance, UnusableFileError, inflating, read_rest
from bayplan.foundations.manifest_files import ManifestError, yaml_documents

_GROUPS = ("action.kwok.x-k8s.io/", "kwok.x-k8s.io/internal")
"""How the `apiVersion` of a ResourcePatch begins: that of today, and that of kwok 0.5."""
_YAML = re.compile(rb"\s*(---|#|apiVersion:|kind:|metadata:)")
_PATCH = re.compile(rb"^kind: ResourcePatch\b", re.MULTILINE)
_RELATIVE = re.compile(r"\$\(time-offset-nanosecond (-?[0-9]+)\)")
_LONGEST = 10**18
"""Nanoseconds that no recording lasts."""
_CHUNK, _OVERLAP = 1 << 20, 64
_NO_DATES = f"the recording has no dates: its start counts as {BEGIN:%Y-%m-%d}"
_UNKNOWN = "a change of an object that isn't in the recording: left out"
_BAD_CHANGE = "a ResourcePatch without resource, name, method or time: left out"


class _Change(NamedTuple):
    """A ResourcePatch. `method`: create, patch or delete."""

    group: str
    resource: str
    key: str
    method: str
    seconds: float
    template: dict[str, Any]


def is_kwok_recording(path: Path) -> bool:
    """Whether a file is YAML with a ResourcePatch of kwok."""
    if not path.is_file():
        return False
    try:
        with _opened(path) as file:
            before = file.read(_CHUNK)
            if not _YAML.match(before):
                return False
            while before:
                if _PATCH.search(before):
                    return True
                after = file.read(_CHUNK)
                before = before[-_OVERLAP:] + after if after else b""
    except (OSError, UnusableFileError):
        return False
    return False


def import_kwok(path: Path, folder: Path, *, snapshot: Snapshot | None = None) -> tuple[HistoryManifest, list[str]]:
    """Write the history of a recording. Returns its manifest, and what can't be used, one line each.

    `snapshot`: objects that are not in the recording. Raises HistoryError.
    """
    problems, text = Problems(), _text(path)
    documents = list(_documents(path, text, problems))
    begin = None if _RELATIVE.search(text) else _began(documents)
    objects = VersionedObjects(begin or BEGIN, problems, snapshot)
    recording = _Recording(objects, begin or BEGIN, problems)
    for where, document in documents:
        if _is_change(document):
            recording.change(document, where)
        else:
            recording.add(document, where)
    return objects.write(folder, f"kwok recording {path.name}", () if begin else [_NO_DATES])


class _Recording:
    """The objects of a recording, as they are while its changes are read."""

    def __init__(self, objects: VersionedObjects, begin: datetime, problems: Problems) -> None:
        self._objects = objects
        self._begin = begin
        self._problems = problems
        self._known: dict[tuple[Kind, str], dict[str, Any]] = {}

    def add(self, obj: dict[str, Any], where: str) -> None:
        """An object is there at the start."""
        kind = kept_kind(obj)
        if kind is None:
            return
        metadata = obj.get("metadata") if isinstance(obj.get("metadata"), dict) else {}
        self._known[kind, _key(metadata or {})] = obj
        self._objects.put(kind, obj, self._begin, where, initial=True)

    def change(self, document: dict[str, Any], where: str) -> None:
        """An object changes."""
        change = _change(document)
        if change is None:
            self._problems.add(_BAD_CHANGE, where)
            return
        kind = KEPT.get((change.group, change.resource))
        if kind is None:
            return
        time, known = self._begin + timedelta(seconds=change.seconds), self._known.get((kind, change.key))
        if change.method == "delete":
            self._known.pop((kind, change.key), None)
            self._objects.removed(kind, change.key, time)
            return
        obj = change.template
        if change.method == "patch":
            if known is None:
                self._problems.add(_UNKNOWN, where)
                return
            try:
                obj = apply_strategic_patch(kind, known, change.template)
            except (StatusError, TypeError, AttributeError, KeyError):
                self._problems.add(BAD_PATCH, where)
                return
        self._known[kind, change.key] = obj
        self._objects.put(kind, obj, time, where)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        compressed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not compressed:
            yield file
            return
        with inflating(str(path), file, Allowance(str(path), path.stat().st_size)) as inflated:
            yield inflated


def _text(path: Path) -> str:
    try:
        with _opened(path) as file:
            return read_rest(str(path), file).decode()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None
    except UnusableFileError as error:
        raise HistoryError(str(error)) from None
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path}: not a text file in UTF-8: byte {error.start}") from None


def _documents(path: Path, text: str, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents with their places, up to where they can be read. Relative times become times since `BEGIN`."""
    text = _RELATIVE.sub(lambda found: rfc3339(BEGIN + timedelta(microseconds=int(found[1]) // 1000)), text)
    try:
        for line, document in yaml_documents(str(path), text):
            if isinstance(document, dict):
                yield f"{path} line {line}", document
    except (ManifestError, OverflowError) as error:
        problems.add(f"{error}: what follows is missing")


def _began(documents: list[tuple[str, dict[str, Any]]]) -> datetime | None:
    """When a recording with dates began: an object was created so long after it. None if none was."""
    began = []
    for change in (_change(document) for _, document in documents if _is_change(document)):
        metadata = change.template.get("metadata") if change is not None and change.method == "create" else None
        created = date_of(metadata.get("creationTimestamp")) if isinstance(metadata, dict) else None
        if change is not None and created is not None:
            began.append(created - timedelta(seconds=change.seconds))
    return min(began, default=None)


def _is_change(document: dict[str, Any]) -> bool:
    return document.get("kind") == "ResourcePatch" and str(document.get("apiVersion")).startswith(_GROUPS)


def _change(document: dict[str, Any]) -> _Change | None:
    """A ResourcePatch, in the form of today or of kwok 0.5; None if it isn't complete."""
    target = document.get("target")
    if not isinstance(target, dict):
        return None
    resource = document.get("resource", target.get("type"))
    nanoseconds = document.get("durationNanosecond")
    template = document.get("template", document.get("patch")) or {}
    of_old = "delete" if document.get("delete") else "create" if document.get("create") else "patch"
    method = str(document.get("method") or of_old)
    complete = isinstance(resource, dict) and isinstance(nanoseconds, int) and isinstance(template, dict)
    in_range = isinstance(nanoseconds, int) and 0 <= nanoseconds < _LONGEST
    if not complete or not in_range or not target.get("name") or method not in {"create", "patch", "delete"}:
        return None
    assert isinstance(resource, dict)
    assert isinstance(nanoseconds, int)
    return _Change(
        str(resource.get("group") or ""),
        str(resource.get("resource") or ""),
        _key(target),
        method,
        nanoseconds / 1e9,
        template,
    )


def _key(metadata: dict[str, Any]) -> str:
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return f"{namespace}/{name}" if namespace else str(name)
