"""FieldLines: the lines of fields in the files of manifests, which are read again when a finding is about a field.

Objects don't keep the lines of their fields: most manifests have no findings, and reading them so takes many times as
long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayplan.core.api.field_errors import join
from bayplan.core.config.documents import Document, read_documents, read_file
from bayplan.core.config.errors import ConfigurationError, path_prefixes

_NAMED = re.compile(r'(?:unknown field "|is invalid: \[?|Go struct field \w+\.)(?P<path>[a-z][\w./\[\]-]*)')


def field_of(message: str) -> str:
    """The field that an error of the API server names first, as in `spec.replicas`; "" if it names none."""
    found = _NAMED.search(message)
    return found["path"] if found is not None else ""


class FieldLines:
    """The lines of the fields of some files."""

    def __init__(self) -> None:
        self._files: dict[str, Sequence[Document]] = {}

    def line(self, file: str, first: int, named: tuple[str, str], path: str = "") -> int:
        """The line of a field, or of its nearest parent that is written; `first` if nothing is known of it.

        `first`: the line at which the document begins. `named`: the kind and the name of the object, which may be one
        of the items of a list. `path`: as in `spec.replicas`; "" for the whole object.
        """
        if file not in self._files:
            self._files[file] = _read(file)
        document = next((each for each in self._files[file] if each.first_line == first), None)
        if document is None:
            return first
        whole = join(_item(document.data, named), path)
        known = (each for each in path_prefixes(whole) if each in document.places)
        return next((document.line_of(each) for each in known), first)


def _read(file: str) -> Sequence[Document]:
    """The documents of a file; none if it isn't a file, is too large, or isn't the YAML that it was."""
    path = Path(file)
    if not path.is_file():
        return ()
    try:
        return read_documents(read_file(path), file)
    except ConfigurationError:
        return ()


def _item(document: Mapping[str, Any], named: tuple[str, str]) -> str:
    """The path of an object in a list of objects; "" in any other document."""
    items = document.get("items")
    if not str(document.get("kind")).endswith("List") or not isinstance(items, list):
        return ""
    typed = str(document["kind"]).removesuffix("List")
    for number, each in enumerate(items):
        if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
            name = (str(each.get("kind") or typed), str(each["metadata"].get("name")))
            if name == named:
                return f"items[{number}]"
    return ""
