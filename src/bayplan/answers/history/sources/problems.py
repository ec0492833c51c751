"""What is wrong with a source: one line for each kind of fault, however often it occurs."""

from __future__ import annotations

from collections.abc import Iterator

BAD_PATCH = "a patch can't be applied to what is known: left out"


class Problems:
    """Counts faults by kind, and keeps the first of each as an example."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, what: str, where: str = "") -> None:
        """Note a fault. `what` says what it is and what it costs, `where` which line or object has it."""
        number, first = self._found.get(what, (0, where))
        self._found[what] = number + 1, first

    def lines(self) -> Iterator[str]:
        """One line for each kind of fault."""
        for what, (number, first) in self._found.items():
            if number == 1:
                yield f"{what} ({first})" if first else what
            else:
                yield f"{what} ({number:,} times{f', first at {first}' if first else ''})"
