"""Errors in a configuration or in a plugin of the user's, with messages for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bayplan.core.api.field_errors import FieldError
from bayplan.foundations.failures import Failures, described, drop_callers, is_ctrl_c

LineOf = Callable[[str], int]
"""The line of a path in a document; 0 if it isn't known."""


class ConfigurationError(ValueError):
    """An invalid configuration. `faults` are its errors; `source` is the file, or "".

    The message has one line per error, with the file and the line if they are known.
    """

    def __init__(self, faults: Sequence[FieldError], source: str = "", line_of: LineOf | None = None) -> None:
        self.faults = tuple(faults)
        self.source = source
        super().__init__("\n".join(error_line(fault, source, line_of) for fault in self.faults))


class PluginLoadError(ValueError):
    """A plugin that can't be loaded or built. The message says which, why, and what is expected."""

    @classmethod
    def of(cls, what: str, error: BaseException) -> PluginLoadError:
        """Log what a plugin raised, with its frames, and return it as an error of one line.

        Raises `error` itself if the user pressed Ctrl-C.
        """
        if is_ctrl_c(error):
            raise error
        message = f"{what}: {described(error)}"
        if drop_callers(error):
            Failures().record(what, error, message=message)
        return cls(message)


def error_line(note: FieldError, source: str, line_of: LineOf | None, label: str = "") -> str:
    """An error or a warning as one line: `file:line: label: path: message`, without the parts that aren't known."""
    line = line_of(note.path) if line_of is not None else 0
    place = f"{source}:{line}" if source and line else source
    return ": ".join(part for part in (place, label, str(note)) if part)


def unrelated(earlier: Iterable[FieldError], later: Iterable[FieldError]) -> list[FieldError]:
    """The later errors, without those at or below the path of an earlier one.

    A value that can't be decoded becomes an empty value, so that the rest can be validated. Errors about that empty
    value are not the user's.
    """
    paths = {fault.path for fault in earlier}
    return [fault for fault in later if not any(prefix in paths for prefix in path_prefixes(fault.path))]


def path_prefixes(path: str) -> Iterable[str]:
    """A path and its parents, without the whole document, from the path upwards."""
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
