"""Tables as text: lines whose cells are separated by commas, semicolons or tabs, whatever wrote them.

header_of("Namespace; Name")    # ("namespace", "name")
"""

from __future__ import annotations

SEPARATORS = ",;\t"


def separator_of(text: str) -> str:
    """Return what separates the cells of the first line, and so of all lines."""
    return max(SEPARATORS, key=_first_line(text).count)


def header_of(text: str) -> tuple[str, ...]:
    """Return the cells of the first line in lower case, which may be the names of columns."""
    return tuple(cell.strip().strip('"').lower() for cell in _first_line(text).split(separator_of(text)))


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip("\r")
