"""Files of Kubernetes objects in YAML or JSON. Error messages name the file, document and line."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from bayplan.foundations.bounded_files import UnusableFileError, is_dense, read_whole
from bayplan.foundations.yaml_events import DeepYaml, UncommonYaml, values

_SUGGESTION = ": pass JSON, which is read many times as fast"
SUFFIXES = (".yaml", ".yml", ".json")
"""The suffixes of the files that are read from a directory."""

MOST_VALUES = 1_000_000
"""In one YAML document, with aliases expanded: a few lines can expand to billions of values."""
MOST_DOCUMENTS = 100_000
"""In one file of YAML, empty ones included: each takes the time of several values."""
MOST_BYTES = 256 * 2**20
"""The largest file of manifests."""
_SHOWN = 40
"""Characters of a wrong value in a message."""
_TEMPLATE = re.compile(r"\{\{.*\}\}")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class PlacedDocument(dict[str, Any]):
    """An object of a manifest that knows its place, for messages about what it says."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        super().__init__(document)
        self.where = where


def file_and_line(where: str) -> tuple[str, int]:
    """Return the file and the line of a place that is written as here; "" and 0 for one that is in no file."""
    found = _PLACE.fullmatch(where)
    return (found["file"], int(found["line"])) if found is not None else ("", 0)


_PLACE = re.compile(r"(?P<file>.+?)(, document [0-9]+)? \(line (?P<line>[0-9]+)\)")


class ManifestError(Exception):
    """A manifest can't be used. The message is one line with the file, the document, the line and the error."""


def files_in(path: Path) -> Sequence[Path]:
    """The file, or the files in a directory and the directories in it. Raises ManifestError if there are none."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not files:
            raise ManifestError(f"{path}: no file in this directory ends in {', '.join(SUFFIXES)}")
        return files
    return [path]


def read_documents(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Every object of a file, with its location: file, document and line. Raises ManifestError."""
    text = read_text(path)
    for number, (line, document) in enumerate(yaml_documents(str(path), text), start=1):
        where = f"{path}, document {number} (line {line})"
        if document is not None:
            yield from objects_in(document, where)


def read_yaml(path: Path) -> Any:
    """The value of a file with one YAML or JSON document; None for an empty file. Raises ManifestError."""
    return yaml_in(str(path), read_text(path))


def yaml_in(name: str, text: str) -> Any:
    """The value of a text with one YAML or JSON document; None for an empty one. Raises ManifestError."""
    documents = list(yaml_documents(name, text))
    if len(documents) > 1:
        raise ManifestError(f"{name} has {len(documents)} documents: expected one")
    return documents[0][1] if documents else None


def read_text(path: Path) -> str:
    """The text of a file that may be a manifest. Raises ManifestError."""
    try:
        return text_of(str(path), read_whole(path, MOST_BYTES))
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error
    except UnusableFileError as error:
        raise ManifestError(str(error)) from error


def text_of(name: str, content: bytes) -> str:
    """The text of what may be a manifest. `name` is its file, for messages. Raises ManifestError."""
    if is_dense(content):
        raise ManifestError(f"{name} has a value for every few bytes: those of Kubernetes objects are longer")
    try:
        return in_utf_8(content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ManifestError(f"{name}: not a text file in UTF-8: byte {error.start} is {byte:#x}") from error


def in_utf_8(content: bytes) -> bytes:
    """A text in UTF-16, as PowerShell's `>` writes it, in UTF-8; any other content as it is."""
    if not content.startswith(_UTF_16):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeDecodeError:
        return content


def template_hint(text: str) -> str:
    """What a message about a text adds if it is a template, as those of charts."""
    return ": render the template first, as with helm template" if _TEMPLATE.search(text) else ""


def yaml_documents(name: str, text: str) -> Iterator[tuple[int, Any]]:
    """Each document of a text with the number of its first line. `name` is the file, for messages.

    The documents are YAML, or JSON in a row, with or without `---` between them.
    """
    in_json = _json_documents(text)
    if in_json is not None:
        yield from in_json
        return
    if text.count("\n") + text.count(",") > MOST_VALUES:
        raise ManifestError(f"{name} has more than {MOST_VALUES:,} values: pass JSON, which is read many times as fast")
    if text.count("\n---") > MOST_DOCUMENTS:
        raise ManifestError(
            f"{name} has more than {MOST_DOCUMENTS:,} documents: pass JSON, which is read many times as fast"
        )
    number = 1
    try:
        for first, document in _documents(text):
            yield first + 1, document
            number += 1
    except yaml.MarkedYAMLError as error:
        # At the end of a file, the parsers disagree about the line.
        lines = text.splitlines()
        line = min(error.problem_mark.line + 1, len(lines)) if error.problem_mark else "?"
        hint = template_hint(lines[line - 1]) if isinstance(line, int) and lines else ""
        raise ManifestError(
            f"{name}, document {number} (line {line}): not valid YAML: {error.problem}{hint}"
        ) from error
    except (RecursionError, DeepYaml) as error:
        raise ManifestError(f"{name}, document {number}: nested too deeply") from error
    except _ManyValues as error:
        raise ManifestError(f"{name}, document {number}: its aliases expand to too many values") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{name}, document {number}: not valid YAML: {' '.join(str(error).split())}") from error
    except (ValueError, ArithmeticError, LookupError, TypeError, binascii.Error) as error:  # of tags, such as !!int
        raise ManifestError(f"{name}, document {number}: a value is not of the type that it names: {error}") from error


def _documents(text: str) -> Iterator[tuple[int, Any]]:
    """The documents of YAML with their first lines, counted from 0; after an uncommon one, all with a loader."""
    done = 0
    try:
        for found in values(yaml.parse(text, Loader=_loader), _Loader.yaml_implicit_resolvers):
            yield found
            done += 1
    except UncommonYaml:
        yield from islice(_loaded(text), done, None)


def _loaded(text: str) -> Iterator[tuple[int, Any]]:
    has_aliases = "&" in text and "*" in text
    loader = _loader(text)
    while loader.check_node():
        node = loader.get_node()
        if has_aliases and _values(node, {}) > MOST_VALUES:
            raise _ManyValues
        yield node.start_mark.line, loader.construct_document(node)


class _ManyValues(Exception):
    """The aliases of a document expand to too many values."""


def _json_documents(text: str) -> list[tuple[int, Any]] | None:
    """The documents of a text that is JSON; None if any of them is not, so that it may be YAML."""
    found, position = [], _separator(text, 0)
    if not text.startswith("{", position):
        return None
    try:
        while position < len(text):
            document, end = _json.raw_decode(text, position)
            found.append((text.count("\n", 0, position) + 1, document))
            position = _separator(text, end)
    except (ValueError, RecursionError):
        return None
    return found


def _separator(text: str, position: int) -> int:
    """Where the next document begins."""
    match = _SEPARATOR.match(text, position)
    return match.end() if match is not None else position


_json = json.JSONDecoder()
_SEPARATOR = re.compile(r"\s*(---[ \t]*(\n|$)\s*)?")


def objects_in(document: Any, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every object of a document, with the document's location. Raises ManifestError.

    The items of a typed list, such as a PodList, may omit `apiVersion` and `kind`.
    """
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: expected an object with apiVersion and kind, not {_describe(document)}")
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str):
            raise ManifestError(f"{where}: {key} is missing")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        kind = document["kind"].removesuffix("List")
        header = {"apiVersion": document["apiVersion"], "kind": kind} if kind else {}
        for item in document["items"]:
            yield from objects_in(header | item if isinstance(item, dict) else item, where)
        return
    yield document, where


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values in a node with its aliases expanded; a node inside itself counts as too many."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        nested = isinstance(node, yaml.CollectionNode)
        known[id(node)] = 1 + sum(_values(part, known) for part in parts) if nested else 1
    return known[id(node)]


def _describe(value: Any) -> str:
    if isinstance(value, str) and len(value) > _SHOWN:
        value = f"{value[:_SHOWN]}..."
        return repr(value)
    return "a list" if isinstance(value, list) else f"{value!r:.{_SHOWN}}"


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: dates are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_loader: Any = _Loader

if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined] # the stubs do not export it

    class _FastLoader(Composer, CParser, SafeConstructor, Resolver):
        """The same with libyaml's parser, which is six times as fast.

        CSafeLoader is faster still, but a deeply nested document overflows its stack, which ends the process.
        """

        yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    _loader = _FastLoader
