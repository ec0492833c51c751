"""Keeps values of subexpressions. A value that is used again costs as much as its evaluation did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.core.devices.cel.costs import FACTS, METER, SPENT, STOP, Frame
from bayplan.core.devices.cel.reading import Path
from bayplan.core.devices.cel.writing import Code

_MOST = 256
"""How many values of a subexpression are kept for other devices."""


def remembered(place: int, code: Code) -> Code:
    """Evaluate a part of the device once in each evaluation. `place` is a place in the frame."""

    def part(frame: Frame) -> Any:
        known = frame[place]
        if known is None:
            before = frame[SPENT]
            value = code(frame)
            frame[place] = value, frame[SPENT] - before
            return value
        frame[SPENT] += known[1]
        return known[0]

    return part


def shared(parts: Sequence[Path], code: Code) -> Code:
    """Evaluate a subexpression once for all devices that are the same in what it reads."""
    known: dict[Any, tuple[Any, int]] = {}

    def evaluate(frame: Frame) -> Any:
        key = frame[FACTS].at(parts) if parts else ()
        found = known.get(key)
        if found is None:
            before = frame[SPENT]
            value = code(frame)
            if len(known) >= _MOST:
                known.clear()
            known[key] = value, frame[SPENT] - before
            return value
        frame[SPENT] += found[1]
        if frame[SPENT] > frame[STOP]:
            frame[METER].check(frame)
        return found[0]

    return evaluate
