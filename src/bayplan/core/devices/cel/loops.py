"""Writes the macros that iterate over lists and maps.

They cost what the comprehensions cost that cel-go expands them to.

Mirrors cel-go's parser/macro.go and ext/comprehensions.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.core.devices.cel.calls import caller
from bayplan.core.devices.cel.costs import NEW_LIST, SPENT
from bayplan.core.devices.cel.library.lists import insert
from bayplan.core.devices.cel.logic import failed
from bayplan.core.devices.cel.values import NO_OVERLOAD, CelError, Failure, go_type
from bayplan.core.devices.cel.writing import FunctionSource, Value

_NAME = 1
"""The cost of reading the loop's accumulator."""
_CALL = 1
_END = object()

Body = Callable[[], Value]
"""Writes what is evaluated in each round."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro that iterates. `places` are those of its variables, and `bodies` a condition, a value, or both.

    `constant`: the value is a constant.
    """

    name: str
    over: Value
    places: tuple[int, ...]
    bodies: Sequence[Body]
    constant: bool


def write_loop(unit: FunctionSource, loop: Loop) -> Value:
    """Write a loop."""
    result = unit.new()
    if loop.name != "sortBy":
        _over(unit, loop, result)
        return Value(result)
    keys = unit.new()

    def fails() -> None:
        unit.line(f"{result} = {loop.over.text}")

    def sorts() -> None:
        unit.charge(2)
        _over(unit, loop, keys)
        sort = unit.given(caller(".@sortByAssociatedKeys"))
        unit.line(f"{result} = {sort}(frame, ({loop.over.text}, {keys}))")

    unit.cases((f"type({loop.over.text}) is Failure", fails), ("", sorts))
    return Value(result)


def _over(unit: FunctionSource, loop: Loop, result: str) -> None:
    over = loop.over.text

    def iterates() -> None:
        _WRITERS.get(loop.name, _write_mapped)(unit, loop, result)
        unit.charge(_NAME)

    def fails() -> None:
        unit.line(f"{result} = {unit.given(_not_iterable)}({over})")

    if loop.over.kind is list:
        iterates()
    else:
        unit.cases((f"isinstance({over}, (list, dict))", iterates), ("", fails))


def _not_iterable(value: Any) -> Failure:
    if type(value) is Failure:
        return value
    return Failure(f"got '{go_type(value)}', expected iterable type")


def _repeat(
    unit: FunctionSource, loop: Loop, write: Callable[[], None], *, over: str | None = None, free: bool = False
) -> None:
    """Write the rounds."""
    variables = [f"v{place}" for place in loop.places]
    head = f"for {', '.join(variables)} in {over or _rounds(unit, loop)}:"
    unit.repeat(head, write, loop.places, free=free)


def _rounds(unit: FunctionSource, loop: Loop) -> str:
    """What the variables take their values from."""
    return loop.over.text if len(loop.places) == 1 else f"{unit.given(_entries)}({loop.over.text})"


def _entries(over: Any) -> Any:
    return over.items() if isinstance(over, dict) else enumerate(over)


def _write_quantified(unit: FunctionSource, loop: Loop, result: str) -> None:
    decisive = loop.name == "exists"
    condition = _NAME + _CALL + (_CALL if decisive else 0)
    rounds = unit.new()

    def body() -> None:
        unit.charge(condition + _NAME)
        holds = loop.bodies[0]()

        def decides() -> None:
            unit.write_cost()
            unit.line(f"if next({rounds}, {end}) is not {end}: frame[{SPENT}] += {condition}")
            unit.line(f"{result} = {decisive}")
            unit.line("break")

        def goes_on() -> None:
            if holds.kind is not bool:
                fails = f"type({holds.text}) is not bool and type({result}) is bool"
                unit.line(f"if {fails}: {result} = {unit.given(failed)}({holds.text})")

        unit.cases((f"{holds.text} is {decisive}", decides), ("", goes_on))

    end = unit.given(_END)
    unit.line(f"{result} = {not decisive}")
    unit.line(f"{rounds} = iter({_rounds(unit, loop)})")
    _repeat(unit, loop, body, over=rounds)


def _write_one(unit: FunctionSource, loop: Loop, result: str) -> None:
    count = unit.new()

    def body() -> None:
        holds = loop.bodies[0]()

        def counts() -> None:
            unit.charge(_NAME + _CALL)
            unit.line(f"{count} += 1")

        _if_true(unit, holds, result, counts)

    def ends() -> None:
        unit.charge(_CALL)
        unit.line(f"{result} = {count} == 1")

    unit.line(f"{count} = 0")
    unit.line(f"{result} = None")
    _repeat(unit, loop, body, free=True)
    unit.cases((f"{result} is None", ends), ("", lambda: None))


def _write_filtered(unit: FunctionSource, loop: Loop, result: str) -> None:
    found = unit.new()

    def body() -> None:
        holds = loop.bodies[0]()

        def keeps() -> None:
            unit.charge(_NAME + _CALL + NEW_LIST + _NAME)
            unit.line(f"{found}.append(v{loop.places[0]})")

        _if_true(unit, holds, result, keeps)

    unit.line(f"{found} = {result} = []")
    _repeat(unit, loop, body, free=True)


def _write_mapped(unit: FunctionSource, loop: Loop, result: str) -> None:
    found = unit.new()
    *conditions, value = loop.bodies

    def adds() -> None:
        unit.charge(_NAME + _CALL + (0 if loop.constant else NEW_LIST))
        made = value()
        _fail_if(unit, f"type({made.text}) is Failure", result, made.text)
        unit.line(f"{found}.append({made.text})")

    unit.line(f"{found} = {result} = []")
    _repeat(unit, loop, _if_selected(unit, conditions, result, adds), free=bool(conditions))


def _write_entries(unit: FunctionSource, loop: Loop, result: str) -> None:
    found, problem = unit.new(), unit.new()
    *conditions, value = loop.bodies
    whole = loop.name == "transformMapEntry"

    def adds() -> None:
        unit.charge(_NAME + _CALL + (0 if whole else _NAME))
        made = value()
        entries = made.text if whole else f"{{v{loop.places[0]}: {made.text}}}"
        _fail_if(unit, f"type({made.text}) is Failure", result, made.text)
        unit.line(f"{problem} = {unit.given(_inserted)}({found}, {entries})")
        _fail_if(unit, f"{problem} is not None", result, problem)

    unit.line(f"{found} = {result} = {{}}")
    _repeat(unit, loop, _if_selected(unit, conditions, result, adds), free=bool(conditions))


def _if_selected(
    unit: FunctionSource, conditions: Sequence[Body], result: str, write: Callable[[], None]
) -> Callable[[], None]:
    if not conditions:
        return write
    return lambda: _if_true(unit, conditions[0](), result, write)


def _if_true(unit: FunctionSource, holds: Value, result: str, write: Callable[[], None]) -> None:
    """Write what follows from a condition. If that fails, so does the loop."""

    def fails() -> None:
        unit.write_cost()
        unit.line(f"{result} = {unit.given(failed)}({holds.text})")
        unit.line("break")

    if holds.kind is bool:
        unit.cases((holds.text, write), ("", lambda: None))
    else:
        unit.cases((f"{holds.text} is True", write), (f"{holds.text} is not False", fails), ("", lambda: None))


def _fail_if(unit: FunctionSource, test: str, result: str, failure: str) -> None:
    unit.write_cost()
    unit.line(f"if {test}:")
    unit.line(f" {result} = {failure}")
    unit.line(" break")


def _inserted(found: dict[Any, Any], entries: Any) -> Failure | None:
    """Insert entries into a map. Returns the failure."""
    if not isinstance(entries, dict):
        return NO_OVERLOAD
    try:
        insert(found, entries)
    except CelError as error:
        return Failure(str(error))
    return None


_WRITERS: Mapping[str, Callable[[FunctionSource, Loop, str], None]] = {
    **dict.fromkeys(("all", "exists"), _write_quantified),
    **dict.fromkeys(("exists_one", "existsOne"), _write_one),
    "filter": _write_filtered,
    **dict.fromkeys(("transformMap", "transformMapEntry"), _write_entries),
}
