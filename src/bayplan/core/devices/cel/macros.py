"""The macros: calls whose arguments are expressions instead of values.

Mirrors cel-go's parser/macro.go, cel/library.go and ext (bindings, comprehensions of two variables, lists).
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.core.devices.cel.parsing import Tree, identifier


@dataclass(frozen=True, slots=True)
class Macro:
    """The arguments of a macro: variable names, then an optional condition, then an expression."""

    variables: int = 1
    """The number of variable names."""
    predicate: bool = False
    """Whether the expression must be a bool."""


MACROS: dict[tuple[str, int], Macro] = {
    **{(name, 2): Macro(1, predicate=True) for name in ("all", "exists", "exists_one", "existsOne", "filter")},
    **{(name, 3): Macro(2, predicate=True) for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, 2): Macro(1) for name in ("map", "sortBy", "optMap", "optFlatMap")},
    **{(name, count): Macro(2) for name in ("transformList", "transformMap", "transformMapEntry") for count in (3, 4)},
    ("map", 3): Macro(1),
    ("bind", 3): Macro(1),
}
"""The macros, by name and number of arguments."""


def macro_of(receiver: Tree, name: str, arguments: list[Tree]) -> Macro | None:
    """The macro that a method call invokes; None for an ordinary method."""
    if name == "bind" and identifier(receiver) != "cel":
        return None
    return MACROS.get((name, len(arguments)))
