"""Why an extender cannot answer, other than that a plugin has failed."""

from __future__ import annotations

from typing import ClassVar


class Unanswerable(ValueError):
    """A question that makes no sense, or that what is known does not answer. The message says what would be right."""

    status: ClassVar[int] = 400
    """The HTTP status, where the protocol has no place for the message."""


class NotYet(Unanswerable):
    """A question that comes before the cluster is known."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the extender does not know the cluster yet")
