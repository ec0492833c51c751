"""A document that was made into v1, and where things stand in the one that it was made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.field_errors import FieldError
from bayplan.config.errors import lineage


@dataclass(slots=True)
class Converted:
    """A document as v1 has it. `moved`: the paths of v1 that were elsewhere in the document, which people look at."""

    data: dict[str, Any]
    notes: list[FieldError] = field(default_factory=list)
    faults: list[FieldError] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def note(self, path: str, text: str) -> None:
        """Something of the original document that its author should know."""
        self.notes.append(FieldError(path, text))

    def fault(self, path: str, problem: str) -> None:
        """Something of the original document that cannot be converted."""
        self.faults.append(FieldError(path, problem))

    def filter(self, parent: dict[str, Any], name: str, path: str, keep: Callable[[dict[str, Any], str], bool]) -> None:
        """Leave out those of the named things in a list that `keep`, which may change them, says no to.

        `path` is the list's, and `keep` is told that of the thing in the original document.
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
        """The path in the original document of a path in v1."""
        return _translated(path, self.moved)

    def as_written(self, note: FieldError) -> FieldError:
        """A fault of the v1 document where its reason stands in the original one."""
        return FieldError(self.path_of(note.path), note.message)


def _has_name(item: Any) -> bool:
    """What has none is for the reader to refuse."""
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _translated(path: str, moved: dict[str, str]) -> str:
    for each in lineage(path):
        if each in moved:
            return moved[each] + path[len(each) :]
    return path
