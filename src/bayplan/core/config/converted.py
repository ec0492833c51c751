"""A document converted to v1, with the paths of the original document.

Every message names a path, and the line, of the file that the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.errors import path_prefixes


@dataclass(slots=True)
class Converted:
    """A document in v1. `moved` maps paths in v1 to paths in the original document, which messages refer to."""

    data: dict[str, Any]
    notes: list[FieldError] = field(default_factory=list)
    faults: list[FieldError] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def note(self, path: str, text: str) -> None:
        """Add a warning about the original document."""
        self.notes.append(FieldError(path, text))

    def fault(self, path: str, problem: str) -> None:
        """Add an error about something in the original document that can't be converted."""
        self.faults.append(FieldError(path, problem))

    def filter(self, parent: dict[str, Any], name: str, path: str, keep: Callable[[dict[str, Any], str], bool]) -> None:
        """Remove items from the list `parent[name]`, whose path is `path`.

        `keep` is called with each item that has a name, and the item's path in the original document. It may change the
        item, and returns whether to keep it.
        """
        items = parent.get(name)
        if not isinstance(items, list):
            return
        kept = [
            (index, item)
            for index, item in enumerate(items)
            if not _has_name(item) or keep(item, self.path_of(f"{path}[{index}]"))
        ]
        parent[name] = [item for _, item in kept]
        before = dict(self.moved)
        for new, (old, _) in enumerate(kept):
            if new != old:
                self.moved[f"{path}[{new}]"] = _translated(f"{path}[{old}]", before)

    def path_of(self, path: str) -> str:
        """The path in the original document for a path in v1."""
        return _translated(path, self.moved)

    def in_original(self, note: FieldError) -> FieldError:
        """An error in the v1 document, with the path in the original document."""
        return FieldError(self.path_of(note.path), note.message)


def _has_name(item: Any) -> bool:
    """Items without a name are reported later, when the document is decoded."""
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _translated(path: str, moved: dict[str, str]) -> str:
    for prefix in path_prefixes(path):
        if prefix in moved:
            return moved[prefix] + path[len(prefix) :]
    return path
