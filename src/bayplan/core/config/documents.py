"""Reads YAML (or JSON) files into plain values, as Kubernetes reads them, and keeps the line of each value.

Duplicate keys are errors, dates and base-60 numbers are strings, and sizes are limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.errors import ConfigurationError, path_prefixes
from bayplan.foundations.manifest_files import template_hint

MOST_BYTES = 10_000_000
MOST_VALUES = 200_000
"""Counted with aliases expanded, because a few lines can expand to billions of values."""
MOST_PARTS = 50_000
"""Lines and commas: what has more takes long to parse, and no configuration has as many."""
DEEPEST = 100
MERGE = "tag:yaml.org,2002:merge"


@dataclass(slots=True)
class Document:
    """A document of a file. `places` has the line and column of every path."""

    data: dict[str, Any]
    source: str = ""
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    blocks: dict[str, int] = field(default_factory=dict)
    """path of a text that is written as a block (`|`) -> its first line"""
    first_line: int = 1
    faults: list[FieldError] = field(default_factory=list)
    """Duplicate keys; the last one is in `data`."""
    notes: list[FieldError] = field(default_factory=list)
    """Warnings about where the document was found."""

    def place(self, path: str) -> tuple[int, int]:
        """The line and column of a path, or of its nearest known parent; (0, 0) for the whole document."""
        return next((self.places[prefix] for prefix in path_prefixes(path) if prefix in self.places), (0, 0))

    def line_of(self, path: str) -> int:
        """The line of a path; 0 if it isn't known."""
        return self.place(path)[0]

    def in_order(self, notes: Sequence[FieldError]) -> list[FieldError]:
        """Errors or warnings without duplicates, in the order of the document."""
        return sorted(dict.fromkeys(notes), key=lambda note: self.place(note.path))


def read_file(path: Path) -> str:
    """The text of a file. Raises ConfigurationError if it can't be read or isn't UTF-8 text."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(f"cannot be read: {error.strerror}", str(path)) from None
    except ValueError as error:  # a name with a null character
        raise _unreadable(f"cannot be read: {error}", str(path)) from None
    if len(content) > MOST_BYTES:
        raise _unreadable(f"is larger than {MOST_BYTES:,} bytes", str(path))
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _unreadable("is UTF-16: save it as UTF-8", str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(f"is not UTF-8 text: byte 0x{content[error.start]:02X}", str(path), line) from None


def parse_yaml(text: str, source: str = "") -> dict[str, Any]:
    """The mapping in a YAML (or JSON) document. Raises ConfigurationError, with lines if they are known."""
    document = read_document(text, source)
    if document.faults:
        raise ConfigurationError(document.faults, source, document.line_of)
    return document.data


def read_document(text: str, source: str = "") -> Document:
    """The only document in a text. Raises ConfigurationError if there are more, and as `read_documents` does."""
    documents = read_documents(text, source)
    if len(documents) > 1:
        raise another_document(documents[1])
    return documents[0]


def read_documents(text: str, source: str = "", first_line: int = 1) -> list[Document]:
    """All documents in a text, which starts at `first_line` of the file. Empty ones are left out.

    Raises ConfigurationError if there is none, or if one isn't a mapping. Reports duplicate keys in `faults`.
    """
    if text.count("\n") + text.count(",") > MOST_PARTS:
        raise _unreadable(f"has more than {MOST_PARTS:,} lines and values: expected a configuration", source)
    unprintable = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + first_line
        raise _unreadable(f"has an unprintable character, U+{ord(unprintable.group()):04X}", source, line)
    hint = template_hint(text)
    loader = _Loader(_spaced(text))
    try:
        documents: list[Document] = []
        for root in _roots(loader):
            document = Document({}, source, first_line=root.start_mark.line + first_line)
            _survey(root, document, first_line)
            found = loader.construct_document(root)
            if not isinstance(found, dict):
                what = "a list" if isinstance(found, list) else "a single value"
                line = document.first_line if documents else 0
                raise _unreadable(f"expected a mapping of fields, found {what}{hint}", source, line)
            document.data = found
            documents.append(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _unreadable(f"{_explained(error)}{hint}", source, mark.line + first_line if mark else 0) from None
    except yaml.YAMLError as error:
        raise _unreadable(f"is not YAML: {' '.join(str(error).split())}", source) from None
    except ConfigurationError:
        raise
    except (ValueError, LookupError, ArithmeticError, TypeError) as error:  # of tags, such as !!timestamp
        raise _unreadable(f"has a value that is not of the type that it names: {error}", source) from None
    except RecursionError:
        raise _unreadable(f"is nested deeper than {DEEPEST} levels", source) from None
    finally:
        loader.dispose()
    if not documents:
        raise _unreadable("is empty: expected a mapping of fields", source)
    return documents


def another_document(document: Document) -> ConfigurationError:
    """The error about a document that isn't the first one of its file."""
    return _unreadable(
        "another document starts here: expected only one in the file", document.source, document.first_line
    )


def _roots(loader: _Loader) -> Iterator[yaml.Node]:
    """The documents of a file, without empty ones, which templates may produce."""
    while loader.check_node():
        node = loader.get_node()
        if node is not None and node.tag != "tag:yaml.org,2002:null":
            yield node


def _survey(root: yaml.Node, document: Document, first_line: int) -> None:
    """Record the places of all values, and duplicate keys. Raises ConfigurationError or a YAML error."""
    for visited, (path, node, value) in enumerate(_nodes(root, "", (), document.faults, first_line)):
        if visited >= MOST_VALUES:
            problem = f"has more than {MOST_VALUES:,} values with aliases expanded"
            raise _unreadable(problem, document.source)
        document.places[path] = (node.start_mark.line + first_line, node.start_mark.column)
        if isinstance(value, yaml.ScalarNode) and value.style == "|":
            document.blocks[path] = value.start_mark.line + 1 + first_line


def _nodes(
    node: yaml.Node, path: str, above: tuple[yaml.Node, ...], faults: list[FieldError], first_line: int
) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """All nodes below a node, in order: path, the node that marks its place, and the node itself.

    The key marks the place of a value in a mapping.
    """
    if node in above:
        raise yaml.MarkedYAMLError(None, None, f"{path or 'the document'} contains itself", node.start_mark)
    if len(above) >= DEEPEST:
        raise RecursionError
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield f"{path}[{index}]", item, item
            yield from _nodes(item, f"{path}[{index}]", above, faults, first_line)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == MERGE:  # the mapping's own keys override merged ones, so they come later
                yield from _merged(value, path, above, faults, first_line)
        lines: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                continue
            where = field_errors.join(path, str(key.value) if isinstance(key, yaml.ScalarNode) else "?")
            line = key.start_mark.line + first_line
            if where in lines:
                faults.append(FieldError(where, f"duplicate field, in lines {lines[where]} and {line}"))
            lines.setdefault(where, line)
            yield where, key, value
            yield from _nodes(value, where, above, faults, first_line)


def _merged(
    node: yaml.Node, path: str, above: tuple[yaml.Node, ...], faults: list[FieldError], first_line: int
) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """The nodes that `<<` merges into a mapping."""
    for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        yield from _nodes(each, path, above, faults, first_line)


def _spaced(text: str) -> str:
    """JSON with tabs replaced by spaces, because YAML doesn't allow tabs; other text unchanged."""
    if text.lstrip()[:1] != "{" or "\t" not in text:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


def _explained(error: yaml.MarkedYAMLError) -> str:
    """A message for readers who don't know YAML's grammar."""
    problem = error.problem or error.context or "is not YAML"
    for words, plain in _PLAIN_WORDS:
        problem = re.sub(words, plain, problem)
    return problem


_PLAIN_WORDS = (
    (r".*'\\t'.*", "a tab cannot start a value or indent a line: use spaces"),
    (r"expected '<document start>', but found (.*)", r"\1 does not belong here"),
    (r"the node content", "a value"),
    (r"'<(stream|document) end>'", "the end of the file"),
    (r"found unhashable key", "a key must be a single value"),
    (r"could not determine a constructor for the tag '(.*)'", r"a value of type \1 cannot be read"),
)


def _unreadable(problem: str, source: str, line: int = 0) -> ConfigurationError:
    return ConfigurationError([FieldError("", problem)], source, lambda _: line)


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """An integer. One of thousands of digits is rejected, because Python can't convert it."""
        try:
            return int(super().construct_yaml_int(node))
        except ValueError:
            problem = "this number cannot be read"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {f"tag:yaml.org,2002:{name}" for name in ("timestamp", "int", "float")}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+.0123456789"),
)
