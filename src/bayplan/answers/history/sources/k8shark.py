"""Makes a history from a capture of k8shark (`.kshrk`): lists of the API at times, and watch events.

It is a ZIP archive whose entries are JSON, compressed with Zstandard: an index by API path, an index of watch events,
and a file for each response. https://github.com/phenixblue/k8shark has the format in docs/archive-format.md.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bayplan.answers.history.following import TERMINATED, date_of, key_of
from bayplan.answers.history.format import HistoryError, HistoryManifest, import_pyarrow
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.sources.versions import KEPT, VersionedObjects, version_of
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD, Kind
from bayplan.foundations.bounded_files import Allowance, UnusableFileError, drained, is_dense, opened_zip, read_member

VERSION = 2
"""The newest version of the format that is read."""
_ROOT = "k8shark-capture"
_SUFFIX = ".kshrk"
_ENCRYPTED = b"age-encryption.org/v1\n"
_MOST_RESPONSES = 200_000
"""More than a capture has."""
_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/?]+))/[^/?]+(?:/namespaces/(?P<namespace>[^/?]+))?/(?P<plural>[^/?]+)")
_DAMAGED = "an entry is missing or damaged: left out"
_REFUSED = "the API server refused a list: its objects are missing"
_POLLED = "the capture has lists from time to time: a pod that came and went between two of them is not in it"


class _Metadata(msgspec.Struct):
    captured_at: datetime
    captured_until: datetime | None = None
    format_version: int = 0
    watch_enabled: bool = False


class _Entries(msgspec.Struct):
    """An index entry. `times` are parallel to `seqs`."""

    seqs: list[int]
    times: list[datetime]


class _Response(NamedTuple):
    """A response, or an event of a watch. `event`: "" for a list. `namespace`: "" for all of them."""

    time: datetime
    kind: Kind
    namespace: str
    event: str
    body: dict[str, Any]
    where: str


def is_k8shark(path: Path) -> bool:
    """Whether a file is a capture, also an encrypted or a damaged one."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            if file.read(len(_ENCRYPTED)) == _ENCRYPTED:
                return True
        with opened_zip(path) as archive:
            return f"{_ROOT}/metadata.json" in archive.namelist()
    except zipfile.BadZipFile:
        return path.suffix.lower() == _SUFFIX
    except OSError:
        return False


def import_k8shark(path: Path, folder: Path, *, snapshot: Snapshot | None = None) -> tuple[HistoryManifest, list[str]]:
    """Write the history of a capture. Returns its manifest, and what can't be used, one line each.

    `snapshot`: objects that were not captured. Raises HistoryError.
    """
    problems = Problems()
    try:
        with opened_zip(path) as archive:
            capture = _Capture(path, archive, problems)
            objects = VersionedObjects(capture.metadata.captured_at, problems, snapshot)
            following = _Versions(objects)
            for response in sorted(capture.responses(), key=lambda response: response.time):
                following.add(response)
    except zipfile.BadZipFile as error:
        with path.open("rb") as file:
            encrypted = file.read(len(_ENCRYPTED)) == _ENCRYPTED
        what = "it is encrypted: decrypt it with age first" if encrypted else f"no ZIP archive: {error}"
        raise HistoryError(f"{path}: {what}") from None
    except UnusableFileError as error:
        raise HistoryError(str(error)) from None
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None
    notes = () if capture.metadata.watch_enabled else (_POLLED,)
    return objects.write(folder, f"k8shark capture {path.name}", notes, capture.metadata.captured_until)


class _Capture:
    """The archive. Raises HistoryError if it is another one, or of a newer version."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, problems: Problems) -> None:
        self._path = path
        self._archive = archive
        self._problems = problems
        self._pyarrow = import_pyarrow()
        self._allowance = Allowance(str(path), path.stat().st_size)
        try:
            self.metadata = msgspec.json.decode(
                read_member(archive, f"{_ROOT}/metadata.json", self._allowance), type=_Metadata
            )
        except (KeyError, zipfile.BadZipFile, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HistoryError(f"{path}: its metadata.json is missing or damaged: {error}") from None
        version = self.metadata.format_version
        if not 0 <= version <= VERSION:
            raise HistoryError(f"{path} has version {version} of the format, and this Bayplan reads up to {VERSION}")

    def responses(self) -> Iterator[_Response]:
        """The lists and the events of watches, in any order."""
        count = 0
        for name in ("index", "watch-index"):
            for path, entry in self._index(name).items():
                match = _PATH.fullmatch(path)
                kind = None if match is None else KEPT.get((match["group"] or "", match["plural"]))
                if kind is None or match is None:
                    continue
                for seq, time in zip(entry.seqs, entry.times, strict=False):
                    where, count = f"{path} at {time:%H:%M:%S}", count + 1
                    if count > _MOST_RESPONSES:
                        raise HistoryError(f"{self._path} has more than {_MOST_RESPONSES:,} responses")
                    record = self._read(f"records/{sha256(path.encode()).hexdigest()[:16]}/{seq}", where)
                    body, code = record.get("response_body"), record.get("response_code")
                    if isinstance(code, int) and code >= 300:
                        self._problems.add(_REFUSED, f"{path}: {code}")
                    elif isinstance(body, dict):
                        event = str(record.get("event_type") or "")
                        yield _Response(time, kind, match["namespace"] or "", event, body, where)

    def _index(self, name: str) -> Mapping[str, _Entries]:
        if f"{_ROOT}/{name}.json.zst" not in self._archive.namelist():
            if name == "index":
                raise HistoryError(f"{self._path}: it has no index: it was not written completely")
            return {}
        index = self._read(name, f"{name}.json.zst")
        found = {}
        for path, entry in index.get("entries", index).items():  # version 1 has the entries alone
            try:
                found[path] = msgspec.convert(entry, _Entries)
            except msgspec.ValidationError:
                self._problems.add(_DAMAGED, f"{name}: {path}")
        return found

    def _read(self, name: str, where: str) -> dict[str, Any]:
        pa = self._pyarrow
        try:
            member = read_member(self._archive, f"{_ROOT}/{name}.json.zst", self._allowance)
            with pa.CompressedInputStream(pa.BufferReader(member), "zstd") as stream:
                content = drained(stream, self._allowance)
            if is_dense(content):
                raise zipfile.BadZipFile("an entry has a value for every few bytes")
            return msgspec.json.decode(content, type=dict[str, Any])
        except (KeyError, OSError, zipfile.BadZipFile, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._problems.add(_DAMAGED, where)
            return {}


class _Versions:
    """Gives the responses to the history. A version of an object that is older than a known one changes nothing."""

    def __init__(self, objects: VersionedObjects) -> None:
        self._objects = objects
        self._seen: dict[tuple[Kind, str], int] = {}
        """The resourceVersion of the last version of each object, also of those that are gone."""
        self._present: dict[Kind, set[str]] = {}
        self._listed: dict[tuple[Kind, str], datetime] = {}
        """When a path was listed last."""

    def add(self, response: _Response) -> None:
        """Take a list or an event in."""
        if response.event:
            if response.event == "DELETED":
                self._gone(response.kind, response.body, response.time)
            else:
                self._put(response, response.body)
            return
        items = response.body.get("items")
        if not isinstance(items, list):
            return
        scope = response.kind, response.namespace
        for item in items:
            if isinstance(item, dict):
                self._put(response, item)
        self._listed[scope] = response.time
        version, listed = version_of(response.body), {_key(item) for item in items if isinstance(item, dict)}
        for key in self._present.get(response.kind, set()) - listed:
            in_scope = not response.namespace or key.startswith(f"{response.namespace}/")
            if in_scope and (version is None or self._seen.get((response.kind, key), 0) <= version):
                self._present[response.kind].discard(key)
                self._objects.removed(response.kind, key, response.time)

    def _put(self, response: _Response, obj: dict[str, Any]) -> None:
        kind, key, version = response.kind, _key(obj), version_of(obj)
        if version is not None and version < self._seen.get((kind, key), 0):
            return
        self._seen[kind, key] = version or 0
        present = self._present.setdefault(kind, set())
        before = self._listed.get((kind, response.namespace))
        if key not in present and kind is POD and before is not None and not response.event:
            self._earlier(obj, before, response)
        present.add(key)
        initial = before is None and not response.event
        self._objects.put(kind, obj, response.time, response.where, initial=initial)

    def _earlier(self, pod: dict[str, Any], before: datetime, response: _Response) -> None:
        """A pod is new in a list: it arrived when it was created, and was bound when its condition says so."""
        metadata, status = pod.get("metadata"), pod.get("status")
        created = date_of(metadata.get("creationTimestamp")) if isinstance(metadata, dict) else None
        if created is None or not isinstance(status, dict) or not before < created < response.time:
            return
        spec = pod.get("spec") if isinstance(pod.get("spec"), dict) else {}
        pending = {**pod, "spec": {**(spec or {}), "nodeName": ""}, "status": {}}
        self._objects.put(POD, pending, created, response.where)
        bound = _bound(status)
        if bound is not None and created <= bound < response.time and status.get("phase") not in TERMINATED:
            self._objects.put(POD, pod, bound, response.where)

    def _gone(self, kind: Kind, obj: dict[str, Any], time: datetime) -> None:
        key, version = _key(obj), version_of(obj)
        if version is not None and version < self._seen.get((kind, key), 0):
            return
        self._seen[kind, key] = version or 0
        self._present.get(kind, set()).discard(key)
        self._objects.removed(kind, key, time)


def _bound(status: Mapping[str, Any]) -> datetime | None:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if (
            isinstance(condition, dict)
            and condition.get("type") == "PodScheduled"
            and condition.get("status") == "True"
        ):
            return date_of(condition.get("lastTransitionTime"))
    return None


def _key(obj: dict[str, Any]) -> str:
    metadata = obj.get("metadata")
    return key_of(obj) if isinstance(metadata, dict) and metadata.get("name") else ""
