"""Writes the source of Python functions that evaluate expressions. A loop and what it repeats become one function.

The source consists of fixed texts and of generated names. Nothing that a tenant writes gets into it: constants, field
names and functions are arguments of the function that makes the closure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from bayplan.core.devices.cel.costs import METER, SPENT, STOP, Frame
from bayplan.core.devices.cel.values import Failure, Optional

Code = Callable[[Frame], Any]
"""A compiled expression: evaluates it. The value can be a Failure. Raises CostExceeded."""

_DEEPEST = 12
"""How deep blocks are nested. Python allows twenty loops in each other, and a hundred levels of indentation."""
_LONGEST = 400
"""How many lines a function has before the operands that follow become functions of their own."""
_KEPT = 512


class Value(NamedTuple):
    """A value in the source: the text of a name, and what is known of it before the evaluation.

    `kind` is its type, if that is certain. An integer is in the range from `least` to `largest`. `fixed` values don't
    change while the function runs, so their types are looked up once.
    """

    text: str
    kind: type | None = None
    least: int = 0
    largest: int = 0
    fixed: bool = False


class FunctionSource:
    """The source of one function, as it is written. `fused`: operands are written into it as well.

    Costs that are certain are added up, and charged at the end of a block.
    """

    def __init__(self, *, fused: bool) -> None:
        self._fused = fused
        self._head: list[str] = []
        self._lines: list[str] = []
        self._depth = 0
        self._cost = 0
        self._given: dict[str, Any] = {}
        self._types: dict[tuple[str, str], str] = {}
        self._names = 0
        self.locals: set[int] = set()
        """The places of variables that are local variables of the function."""
        self.shown: set[int] = set()
        """The places of those local variables that other functions read, too."""

    @property
    def fuses(self) -> bool:
        """Whether another operand may be written into this function."""
        return self._fused and self._depth < _DEEPEST and len(self._lines) < _LONGEST

    def given(self, value: Any) -> str:
        """A name for a value that is an argument."""
        name = f"g{len(self._given)}"
        self._given[name] = value
        return name

    def new(self) -> str:
        """A new name."""
        self._names += 1
        return f"t{self._names}"

    def line(self, text: str) -> None:
        """Write a line."""
        self._lines.append(f"{' ' * self._depth}{text}")

    def head(self, text: str) -> None:
        """Write a line that is run first."""
        self._head.append(text)

    def assigned(self, text: str, kind: type | None = None, least: int = 0, largest: int = 0) -> Value:
        """Assign the value of a Python expression to a new name."""
        name = self.new()
        self.line(f"{name} = {text}")
        return Value(name, kind, least, largest)

    def charge(self, cost: int) -> None:
        """Charge a cost that is certain."""
        self._cost += cost

    def write_cost(self) -> None:
        """Write the cost that is certain up to here."""
        if self._cost:
            self.line(f"frame[{SPENT}] += {self._cost}")
            self._cost = 0

    def cases(self, *cases: tuple[str, Callable[[], None]]) -> None:
        """Write conditions, each with what follows from it. The last one is empty, and means otherwise."""
        before, word = self._cost, "if"
        for condition, write in cases:
            self._cost = before
            self._block(f"{word} {condition}:" if condition else "else:", write)
            word = "elif"
        self._cost = 0

    def repeat(self, head: str, write: Callable[[], None], places: tuple[int, ...], *, free: bool) -> None:
        """Write a loop that sets the variables at some places. `free`: its rounds may cost nothing.

        Rounds bring the next checkpoint nearer: by what they cost, or by one.
        """
        self.write_cost()
        start = len(self._lines)
        self.locals |= set(places)

        def body() -> None:
            self.line(f"if frame[{SPENT}] > frame[{STOP}]: frame[{METER}].check(frame)")
            if free:
                self.line(f"frame[{STOP}] -= 1")
            write()

        self._block(head, body)
        shown = [f"{' ' * (self._depth + 1)}frame[{place}] = v{place}" for place in places if place in self.shown]
        self._lines[start + 1 : start + 1] = shown
        self.locals -= set(places)

    def _block(self, head: str, write: Callable[[], None]) -> None:
        self.line(head)
        start = len(self._lines)
        self._depth += 1
        write()
        self.write_cost()
        if len(self._lines) == start:
            self.line("pass")
        self._depth -= 1

    def is_a(self, value: Value, kind: str) -> str:
        """The test whether a value has a type, which is looked up once if the value is fixed."""
        test = f"type({value.text}) is {kind}"
        if not value.fixed:
            return test
        known = self._types.get((value.text, kind))
        if known is None:
            known = self._types[value.text, kind] = self.new()
            self.head(f"{known} = {test}")
        return known

    def code(self, result: Value) -> Code:
        """The function, which returns a value."""
        self.write_cost()
        lines = [*self._head, *self._lines, f"return {result.text}"]
        body = "\n".join(f"  {line}" for line in lines)
        source = f"def make({', '.join(self._given)}):\n def evaluate(frame):\n{body}\n return evaluate\n"
        compiled: Code = _maker(source)(**self._given)
        return compiled


@lru_cache(maxsize=_KEPT)
def _maker(source: str) -> Callable[..., Code]:
    """Run a source. Operators by themselves have the same one in all expressions."""
    made: dict[str, Any] = {"Failure": Failure, "Optional": Optional}
    exec(compile(source, "<selector>", "exec"), made)  # noqa: S102 - fixed texts and generated names, see above
    maker: Callable[..., Code] = made["make"]
    return maker
