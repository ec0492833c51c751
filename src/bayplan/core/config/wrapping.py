"""Finds the configuration in a file: its only document, one of several, or one in a ConfigMap.

Most people keep the configuration in a ConfigMap, in a file with the Deployment and the RBAC of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.documents import Document, another_document, read_documents, read_file
from bayplan.core.config.errors import ConfigurationError
from bayplan.core.config.policies import POLICY
from bayplan.core.config.types import DEFAULT_SCHEDULER_NAME, KIND

CONFIG_MAP = "ConfigMap"
_MARKS = (f"{KIND}", f"kind: {POLICY}", f'"{POLICY}"', "tiers:")
"""Texts with none of these are no configurations."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A configuration and where it is, as in `data.config.yaml of ConfigMap kube-system/my-scheduler`."""

    document: Document
    where: str
    key: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Its key in a ConfigMap, and the names of its profiles."""
        profiles = self.document.data.get("profiles") or [{}]
        given = [each for each in profiles if isinstance(each, dict)] if isinstance(profiles, list) else []
        names = (str(each.get("schedulerName") or DEFAULT_SCHEDULER_NAME) for each in given)
        return frozenset({self.key, *names} - {""})

    def choice(self, number: int, found: Sequence[_Found]) -> str:
        """A name that no other one has, or else its number."""
        others = {name for each in found if each is not self for name in each.names}
        return min(self.names - others, key=lambda name: (name != self.key, name), default=str(number))


def configuration_at(path: Path) -> Document:
    """The configuration in a file. Raises ConfigurationError.

    FILE#NAME is one of several in FILE: the key of a ConfigMap, the schedulerName of a profile, or its number.
    """
    try:
        text, chosen = read_file(path), ""
    except ConfigurationError:
        file, _, chosen = path.name.rpartition("#")
        if not file:
            raise
        path = path.parent / file
        text = read_file(path)
    return configuration_in(text, str(path), chosen)


def configuration_in(text: str, source: str = "", chosen: str = "") -> Document:
    """The configuration in a text, with a note if it is only a part of it. Raises ConfigurationError.

    A file of one document that wraps no configuration is returned as it is. `chosen`: see `configuration_at`.
    """
    documents = read_documents(text, source)
    first = documents[0]
    if not chosen and len(documents) == 1 and _kind(first.data) != CONFIG_MAP and not _is_list(first.data):
        return first
    for document in documents[1:]:
        if not _kind(document.data):
            raise another_document(document)
    found = [configuration for document in documents for configuration in _configurations(document)]
    if any(_kind(each.document.data) == KIND for each in found):  # then a Policy is left from former times
        found = [each for each in found if _kind(each.document.data) == KIND]
    wanted = [each for number, each in enumerate(found, 1) if not chosen or chosen in {str(number), *each.names}]
    if len(wanted) == 1:
        document = wanted[0].document
        document.notes.append(FieldError("", f"reads {wanted[0].where} and nothing else of this file"))
        return document
    raise ConfigurationError([FieldError("", _problem(found, documents, source, chosen))], source)


def _problem(found: Sequence[_Found], documents: Sequence[Document], source: str, chosen: str) -> str:
    if found:
        places = "; ".join(
            f"{source}#{each.choice(number, found)} is {each.where}" for number, each in enumerate(found, 1)
        )
        count = f"has {len(found)} configuration{'s' if len(found) > 1 else ''}"
        return f"{count}{f', and not exactly one {chosen}' if chosen else ''}: pass the one you mean: {places}"
    there = ", ".join(_described(document.data) for document in documents)
    return f"has no {KIND}: it has {there}"


def _configurations(document: Document) -> Iterator[_Found]:
    if _is_list(document.data):
        for index, item in enumerate(document.data["items"]):
            if isinstance(item, dict):
                yield from _configurations(_part(document, f"items[{index}]", item))
    elif _kind(document.data) == CONFIG_MAP:
        yield from _in_config_map(document)
    elif _is_configuration(document.data):
        yield _Found(document, f"the {_kind(document.data)} from line {document.first_line} on")


def _in_config_map(document: Document) -> Iterator[_Found]:
    data = document.data.get("data")
    for key, text in data.items() if isinstance(data, dict) else ():
        if not isinstance(text, str) or not any(mark in text for mark in _MARKS):
            continue
        path = field_errors.join("data", str(key))
        line = document.line_of(path)
        where = f"{path} of {_name(document.data)}{f' (line {line})' if line else ''}"
        for inner in _parsed(document, path, text):
            if _is_configuration(inner.data):
                yield _Found(inner, where, str(key))


def _parsed(document: Document, path: str, text: str) -> list[Document]:
    """The documents in a text of a document. Their lines are those of the file, or that of the text's key."""
    if path in document.blocks:
        return read_documents(text, document.source, document.blocks[path])
    line = document.line_of(path)
    try:
        inner = read_documents(text, document.source)
    except ConfigurationError as error:
        faults = [FieldError(path, fault.message) for fault in error.faults]
        raise ConfigurationError(faults, document.source, document.line_of) from None
    for each in inner:
        each.places = {where: (line, order) for order, where in enumerate(each.places)}
    return inner


def _part(document: Document, path: str, data: dict[str, Any]) -> Document:
    """A value of a document as a document of its own."""
    start = len(path) + 1
    places = {where[start:]: place for where, place in document.places.items() if where.startswith(f"{path}.")}
    blocks = {where[start:]: line for where, line in document.blocks.items() if where.startswith(f"{path}.")}
    return Document(data, document.source, places, blocks, document.line_of(path))


def _is_configuration(data: dict[str, Any]) -> bool:
    return _kind(data) in {KIND, POLICY} or is_of_another_scheduler(data)


def is_of_another_scheduler(data: dict[str, Any]) -> bool:
    """Whether this is a configuration of Volcano or of NVIDIA's KAI scheduler, which have no kind."""
    return "kind" not in data and {"actions", "tiers"} <= data.keys()


def _is_list(data: dict[str, Any]) -> bool:
    return _kind(data).endswith("List") and isinstance(data.get("items"), list)


def _kind(data: dict[str, Any]) -> str:
    kind = data.get("kind")
    return kind if isinstance(kind, str) else ""


def _name(data: dict[str, Any]) -> str:
    metadata = data.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    name = "/".join(str(given[field]) for field in ("namespace", "name") if given.get(field))
    return f"{_kind(data)} {name}".rstrip()


def _described(data: dict[str, Any]) -> str:
    keys = data.get("data") if _kind(data) == CONFIG_MAP else None
    return _name(data) + (f" (keys: {', '.join(map(str, keys))})" if isinstance(keys, dict) and keys else "")
