"""Promises of plugins: a name, what is promised, and a function that raises Breach for a plugin that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayplan.testing.contract.examples import Example
from bayplan.testing.contract.subject import Subject

Examine = Callable[[Subject, Example], None]


class Breach(Exception):
    """A plugin breaks a promise. `seen`: what it did; `change`: what would keep the promise."""

    def __init__(self, seen: str, change: str) -> None:
        super().__init__(seen)
        self.seen = seen
        self.change = change


@dataclass(frozen=True, slots=True)
class Promise:
    """`concerns`: whether a plugin makes the promise. `examine` raises Breach for an example in which it is broken."""

    name: str
    text: str
    concerns: Callable[[Subject], bool]
    examine: Examine


def promise(name: str, text: str, concerns: Callable[[Subject], bool]) -> Callable[[Examine], Promise]:
    """Make a Promise of the function that examines it."""
    return lambda examine: Promise(name, text, concerns, examine)
