"""Reads a snapshot from files: manifests, the output of `kubectl get -o json` or `-o yaml`, and other tools' dumps.

JSON is decoded object by object, so that a dump of a large cluster is read quickly and never whole as Python objects.
An object that can't be used is left out, and reported; a file that can't be parsed is an error.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bayplan.answers.snapshots.archive import SAVED
from bayplan.answers.snapshots.containers import contents, files_of
from bayplan.answers.snapshots.documents import collect, identify, identify_raw
from bayplan.answers.snapshots.exports import Exported, as_json, exported, text_for_people, without_logs
from bayplan.answers.snapshots.lacking import lacking
from bayplan.answers.snapshots.reading import Progress, Reading, SnapshotError
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.foundations.bounded_files import UnusableFileError, is_dense, read_rest, read_whole
from bayplan.foundations.manifest_files import ManifestError, in_utf_8, yaml_documents

STANDARD_INPUT = "-"
_PROGRESS_STEP = 1000
_FEW = 3
"""Values in a folder that are no objects are listed up to this number, and counted beyond."""
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r" \(byte (\d+)\)")
_JSON_OBJECT = re.compile(rb'\s*\{\s*(["}]|$)')
"""The beginning of a JSON object. A YAML mapping in braces has no quotes, or is small."""
_SEPARATOR = re.compile(rb"\s*(---[ \t]*(\n|$)\s*)?")

Found = tuple[Kind, str, bytes]


def read_files(paths: Iterable[str | Path], progress: Progress | None = None) -> Reading:
    """The objects in files, folders, archives and standard input (`-`).

    Raises SnapshotError for a file that can't be read, and if there are only objects that can't be used. A file of a
    folder or an archive that can't be read is left out like an object.
    """
    names, skipped = [str(path) for path in paths], Skipped()
    found = (each for name in names for each in _read(name, skipped))
    documents = collect(_counted(found, progress))
    for deleted in skipped.deleted:
        documents.get(deleted[0], {}).pop(deleted[1], None)
    problems = skipped.problems()
    if problems and not any(documents.values()):
        raise SnapshotError(problems[0])
    taken = datetime.now(UTC) if STANDARD_INPUT in names else _modified(names)
    source = ", ".join(map(_label, names))
    return Reading(documents, source, taken, lacking(documents), tuple(problems))


class Skipped:
    """What is left out: objects, listed one by one, and values that are no objects, which are counted if they are many.

    `deleted`: objects that a trace deletes in the end, by kind and key.
    """

    def __init__(self) -> None:
        self.deleted: dict[tuple[Kind, str], None] = {}
        self._problems: list[str] = []
        self._foreign: list[str] = []
        self._source = ""

    def start(self, name: str) -> None:
        """Start another file, folder or archive."""
        self._end()
        self._source = name

    def add(self, message: str, *, foreign: bool = False) -> None:
        """Note an object, or with `foreign`, a value that is no object."""
        (self._foreign if foreign else self._problems).append(message)

    def problems(self) -> list[str]:
        """Return one line for each object, and one for all that is no object."""
        self._end()
        return self._problems

    def _end(self) -> None:
        if len(self._foreign) > _FEW:
            others = f"{self._source} has {len(self._foreign):,} values that are no Kubernetes objects"
            self._problems.append(f"{others}, such as {self._foreign[0]}")
        else:
            self._problems += self._foreign
        self._foreign = []


def _counted(found: Iterable[Found], progress: Progress | None) -> Iterator[Found]:
    number = 0
    for number, each in enumerate(found, start=1):
        yield each
        if progress is not None and number % _PROGRESS_STEP == 0:
            progress("objects", number)
    if progress is not None:
        progress("objects", number)


def _label(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


def _modified(names: Iterable[str]) -> datetime | None:
    """When the newest of the files was written."""
    try:
        return datetime.fromtimestamp(max(Path(name).stat().st_mtime for name in names), UTC)
    except (OSError, ValueError):
        return None


def _read(name: str, skipped: Skipped) -> Iterator[Found]:
    """The objects in a file, a folder, an archive or standard input. Raises SnapshotError."""
    try:
        if name == STANDARD_INPUT or Path(name).is_fifo():
            given = _read_once(name)
            for each, content in contents(_label(name), io.BufferedReader(io.BytesIO(given)), len(given)):
                yield from _objects_of(each, content, skipped)
            return
        skipped.start(name)
        for each, found in files_of(Path(name)):
            try:
                if isinstance(found, SnapshotError):
                    raise found
                yield from _objects_of(each, found, skipped)
            except (SnapshotError, ManifestError) as error:
                if each == name:
                    raise
                skipped.add(str(error))
    except OSError as error:
        raise SnapshotError(f"{error.filename or name}: {error.strerror or error}") from error
    except (ManifestError, UnusableFileError) as error:
        raise SnapshotError(str(error)) from error


def _read_once(name: str) -> bytes:
    """All that comes from standard input or from a pipe, such as that of `<(kubectl get pods -o json)` in a shell."""
    if name != STANDARD_INPUT:
        return read_whole(Path(name))
    if sys.stdin is None:
        raise SnapshotError("standard input is closed")
    return read_rest(_label(name), sys.stdin.buffer)


def _objects_of(name: str, content: bytes, skipped: Skipped) -> Iterator[Found]:
    """The objects in the content of a file. `name` is for messages. Raises SnapshotError or ManifestError."""
    content = without_logs(as_json(in_utf_8(content)))
    if what := text_for_people(content):
        raise SnapshotError(f"{name} is {what}")
    if content.startswith(SAVED):
        raise SnapshotError(f"{name} is a saved snapshot: pass it alone, as a file; pipes and folders have objects")
    if is_dense(content):
        raise SnapshotError(f"{name} has a value for every few bytes: that is no dump of a cluster")
    if _JSON_OBJECT.match(content):
        yield from _json(name, content, skipped)
        return
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SnapshotError(
            f"{name}: not a text file in UTF-8: line {line} has byte {content[error.start]:#x}"
        ) from error
    for number, (line, document) in enumerate(yaml_documents(name, text), start=1):
        if document is None:
            continue
        for obj, where in _items_in(document, f"{name}, document {number} (line {line})"):
            if isinstance(obj, dict) and not obj.keys() & {"apiVersion", "kind"}:
                try:
                    raw = encode(obj)
                except (TypeError, ValueError, RecursionError) as error:
                    skipped.add(f"{where}: {error}", foreign=True)
                    continue
                yield from _objects(msgspec.Raw(raw), where, ("", ""), skipped)
                continue
            try:
                yield identify(_as_object(obj))
            except ForeignValue as error:
                skipped.add(f"{where}: {error}", foreign=True)
            except SnapshotError as error:
                skipped.add(f"{where}: {error}")


def _items_in(document: Any, where: str) -> Iterator[tuple[Any, str]]:
    """A value of a YAML file with its place, or the items of a list. Those of a typed list inherit its kind."""
    name = str(document.get("kind")) if isinstance(document, dict) else ""
    if not name.endswith("List") or not isinstance(document.get("items"), list):
        yield document, where
        return
    kind = name.removesuffix("List")
    header = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
    for number, item in enumerate(document["items"], start=1):
        yield from _items_in(header | item if isinstance(item, dict) else item, f"{where}, item {number}")


def _as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else f"{value!r:.40}"
        raise ForeignValue(f"expected an object with apiVersion and kind, not {what}")
    return value


class _Item(msgspec.Struct):
    """An object, or a list of objects."""

    apiVersion: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


_item = msgspec.json.Decoder(_Item)


def _json(name: str, content: bytes, skipped: Skipped) -> Iterator[Found]:
    """The objects in JSON: one document, or several in a row, with or without `---` between them."""
    view, start, number, line = memoryview(content), 0, 1, 1
    while start < len(content):
        where = f"{name}, document {number} (line {line})"
        try:
            end = start + _length(view[start:])
            yield from _objects(view[start:end], where, ("", ""), skipped)
        except msgspec.DecodeError as error:
            raise SnapshotError(f"{name}, document {number} {_problem(content, start, error)}") from None
        except RecursionError:
            raise SnapshotError(f"{where}: nested too deeply") from None
        separator = _SEPARATOR.match(content, end)
        after = separator.end() if separator else end
        line += content.count(b"\n", start, after)
        start, number = after, number + 1


def _length(document: memoryview) -> int:
    """The length of the first JSON value. Raises msgspec.DecodeError if it is malformed."""
    try:
        _item.decode(document)
    except (msgspec.ValidationError, UnicodeDecodeError):
        pass  # reported when its objects are read
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing is None:
            raise
        return int(trailing[1]) - 1
    return len(document)


def _problem(content: bytes, start: int, error: msgspec.DecodeError) -> str:
    """The line and the description of malformed JSON."""
    text, byte = str(error), _BYTE.search(str(error))
    position = start + int(byte[1]) if byte else len(content)
    end = len(content.rstrip())
    line = content.count(b"\n", 0, min(position, end)) + 1
    if position >= end:
        return f"(line {line}): the file ends in the middle of an object; it may be cut off"
    return f"(line {line}): not valid JSON: {_BYTE.sub('', text).removeprefix('JSON is malformed: ')}"


def _objects(
    document: memoryview | msgspec.Raw, where: str, inherited: tuple[str, str], skipped: Skipped
) -> Iterator[Found]:
    """The object, or those in the list. `inherited`: `apiVersion` and `kind` of an object without its own."""
    try:
        item = _item.decode(document)
        if item.items is msgspec.UNSET or not item.kind.endswith("List"):
            header = (item.apiVersion or inherited[0], item.kind or inherited[1])
            others = exported(document) if header == ("", "") else None
            if others is None:
                yield _identified(*header, bytes(document))
            else:
                yield from _exported(others, where, skipped)
            return
    except ForeignValue as error:
        skipped.add(f"{where}: {error}", foreign=True)
        return
    except (msgspec.ValidationError, UnicodeDecodeError, SnapshotError) as error:
        skipped.add(f"{where}: {error}")
        return
    # The items of a typed list, such as a PodList, need no apiVersion and kind of their own.
    kind = item.kind.removesuffix("List")
    header = (item.apiVersion, kind) if kind else ("", "")
    for number, raw in enumerate(item.items or (), start=1):
        yield from _objects(raw, f"{where}, item {number}", header, skipped)


def _exported(objects: Iterable[Exported], where: str, skipped: Skipped) -> Iterator[Found]:
    """The objects in another tool's file."""
    for number, (header, raw, stays) in enumerate(objects, start=1):
        for found in _objects(msgspec.Raw(raw), f"{where}, item {number}", header, skipped):
            if stays:
                skipped.deleted.pop(found[:2], None)
                yield found
            else:
                skipped.deleted[found[:2]] = None


def _identified(api_version: str, kind: str, raw: bytes) -> Found:
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        if not value:
            raise ForeignValue(f"{field} is missing")
    return identify_raw(api_version, kind, raw)


class ForeignValue(SnapshotError):
    """A value that isn't a Kubernetes object at all."""
