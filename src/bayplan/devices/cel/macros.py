"""Which calls are macros, whose arguments are expressions and not values.

Mirrors cel-go's parser/macro.go, cel/library.go and ext (bindings, comprehensions of two variables, lists).
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.devices.cel.parsing import Tree, identifier


@dataclass(frozen=True, slots=True)
class Macro:
    """How a macro takes its arguments."""

    variables: int = 1
    """How many of them are names; behind them come what is to hold, if anything, and the expression."""
    predicate: bool = False
    """Whether the expression must be a truth value."""


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
    """The macro that a call of a method is, if it is one."""
    if name == "bind" and identifier(receiver) != "cel":
        return None
    return MACROS.get((name, len(arguments)))
