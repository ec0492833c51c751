"""Compiles the macros that iterate over lists and maps. They cost what the comprehensions cost that cel-go expands them
to.

Mirrors cel-go's parser/macro.go and ext/comprehensions.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bayplan.devices.cel.calls import Code, caller
from bayplan.devices.cel.costs import METER, NEW_LIST, SPENT, STOP, Frame
from bayplan.devices.cel.library.lists import insert
from bayplan.devices.cel.values import NO_OVERLOAD, CelError, Failure, type_name

_NAME = 1
"""The cost of reading the loop's accumulator."""
_CALL = 1

Loop = Callable[[Frame, Any], Any]
"""Iterates over a list or a map. The result can be a Failure."""


def compile_loop(name: str, values: Code, slots: Sequence[int], bodies: Sequence[Code], *, constant: bool) -> Code:
    """Compile a loop. `slots` are the places of its variables, and `bodies` a condition, a value, or both.

    `constant`: the value is a constant.
    """
    loop = _sorting(slots, bodies, constant=constant) if name == "sortBy" else _loop(name, slots, bodies, constant)

    def evaluate(frame: Frame) -> Any:
        over = values(frame)
        return over if type(over) is Failure else loop(frame, over)

    return evaluate


def _loop(name: str, slots: Sequence[int], bodies: Sequence[Code], constant: bool) -> Loop:
    match name:
        case "all" | "exists":
            run = _quantified(slots, bodies[0], decisive=name == "exists")
        case "exists_one" | "existsOne":
            run = _one(slots, bodies[0])
        case "filter":
            run = _filtered(slots, bodies[0])
        case "transformMap" | "transformMapEntry":
            run = _entries(slots, bodies, whole=name == "transformMapEntry")
        case _:
            run = _mapped(slots, bodies, 0 if constant else NEW_LIST)

    def loop(frame: Frame, over: Any) -> Any:
        if not isinstance(over, (list, dict)):
            return Failure(f"expression of type '{type_name(over)}' cannot be range of a comprehension")
        found = run(frame, over)
        frame[SPENT] += _NAME
        return found

    return loop


def _sorting(slots: Sequence[int], bodies: Sequence[Code], *, constant: bool) -> Loop:
    keys, sort = _loop("map", slots, bodies, constant), caller(".@sortByAssociatedKeys")

    def loop(frame: Frame, over: Any) -> Any:
        frame[SPENT] += 2
        return sort(frame, (over, keys(frame, over)))

    return loop


def _rounds(frame: Frame, slots: Sequence[int], over: Any) -> Iterator[None]:
    """Set the variables for each round."""
    first, second = slots[0], slots[-1]
    if first == second:
        for frame[first] in over:
            if frame[SPENT] > frame[STOP]:
                frame[METER].check(frame)
            yield
    else:
        for frame[first], frame[second] in over.items() if isinstance(over, dict) else enumerate(over):
            if frame[SPENT] > frame[STOP]:
                frame[METER].check(frame)
            yield


def _quantified(slots: Sequence[int], body: Code, *, decisive: bool) -> Loop:
    condition = _NAME + _CALL + (_CALL if decisive else 0)
    each_round = condition + _NAME

    def loop(frame: Frame, over: Any) -> Any:
        found: Any = not decisive
        rounds = _rounds(frame, slots, over)
        for _ in rounds:
            frame[SPENT] += each_round
            value = body(frame)
            if value is decisive:
                if next(rounds, rounds) is None:
                    frame[SPENT] += condition
                return value
            if type(value) is not bool and type(found) is bool:
                found = value if type(value) is Failure else NO_OVERLOAD
        return found

    def loop_over_elements(frame: Frame, over: Any) -> Any:
        found: Any = not decisive
        left = len(over)
        for frame[first] in over:
            if frame[SPENT] > frame[STOP]:
                frame[METER].check(frame)
            frame[SPENT] += each_round
            value = body(frame)
            left -= 1
            if value is decisive:
                if left:
                    frame[SPENT] += condition
                return value
            if type(value) is not bool and type(found) is bool:
                found = value if type(value) is Failure else NO_OVERLOAD
        return found

    first = slots[0]
    return loop if len(slots) > 1 else loop_over_elements


def _one(slots: Sequence[int], body: Code) -> Loop:
    def loop(frame: Frame, over: Any) -> Any:
        count = 0
        for _ in _rounds(frame, slots, over):
            holds = body(frame)
            if holds is True:
                frame[SPENT] += _NAME + _CALL
                count += 1
            elif holds is not False:
                return holds if type(holds) is Failure else NO_OVERLOAD
        frame[SPENT] += _CALL
        return count == 1

    return loop


def _filtered(slots: Sequence[int], body: Code) -> Loop:
    def loop(frame: Frame, over: Any) -> Any:
        found = []
        for _ in _rounds(frame, slots, over):
            holds = body(frame)
            if holds is True:
                frame[SPENT] += _NAME + _CALL + NEW_LIST + _NAME
                found.append(frame[slots[0]])
            elif holds is not False:
                return holds if type(holds) is Failure else NO_OVERLOAD
        return found

    return loop


def _mapped(slots: Sequence[int], bodies: Sequence[Code], new: int) -> Loop:
    *conditions, body = bodies

    def loop(frame: Frame, over: Any) -> Any:
        found = []
        for _ in _rounds(frame, slots, over):
            if conditions and (holds := conditions[0](frame)) is not True:
                if holds is False:
                    continue
                return holds if type(holds) is Failure else NO_OVERLOAD
            frame[SPENT] += _NAME + _CALL + new
            value = body(frame)
            if type(value) is Failure:
                return value
            found.append(value)
        return found

    return loop


def _entries(slots: Sequence[int], bodies: Sequence[Code], *, whole: bool) -> Loop:
    *conditions, body = bodies

    def loop(frame: Frame, over: Any) -> Any:
        found: dict[Any, Any] = {}
        for _ in _rounds(frame, slots, over):
            if conditions and (holds := conditions[0](frame)) is not True:
                if holds is False:
                    continue
                return holds if type(holds) is Failure else NO_OVERLOAD
            frame[SPENT] += _NAME + _CALL + (0 if whole else _NAME)
            value = body(frame)
            if type(value) is Failure:
                return value
            if whole and not isinstance(value, dict):
                return NO_OVERLOAD
            try:
                insert(found, value if whole else {frame[slots[0]]: value})
            except CelError as error:
                return Failure(str(error))
        return found

    return loop
