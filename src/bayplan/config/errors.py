"""What is wrong with a configuration or a plugin of the user's, in words for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bayplan.api.field_errors import FieldError

LineOf = Callable[[str], int]
"""The line of a path in a document; 0 where it is not known."""


class ConfigurationError(ValueError):
    """A configuration that cannot be used. `faults` says where and why; `source` is the file, if there is one.

    As text it has one line a fault, with file and line before the path where they are known.
    """

    def __init__(self, faults: Sequence[FieldError], source: str = "", line_of: LineOf | None = None) -> None:
        self.faults = tuple(faults)
        self.source = source
        super().__init__("\n".join(placed(fault, source, line_of) for fault in self.faults))


class PluginLoadError(ValueError):
    """A plugin that cannot be loaded or built: the message names it, what is wrong, and what would be right."""


def placed(note: FieldError, source: str, line_of: LineOf | None, label: str = "") -> str:
    """A fault or a warning as one line: `file:line: label: path: message`, without what is not known."""
    line = line_of(note.path) if line_of is not None else 0
    place = f"{source}:{line}" if source and line else source
    return ": ".join(part for part in (place, label, str(note)) if part)


def beyond(earlier: Iterable[FieldError], later: Iterable[FieldError]) -> list[FieldError]:
    """Those of the later faults that are not at or below a path where an earlier one was found already.

    What cannot be read is read as its empty value, so that all else can be judged: that it is empty is no fault.
    """
    paths = {fault.path for fault in earlier}
    return [fault for fault in later if not any(each in paths for each in lineage(fault.path))]


def lineage(path: str) -> Iterable[str]:
    """A path and all above it, from itself upwards, without the whole document."""
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
