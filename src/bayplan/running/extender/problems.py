"""Requests that an extender rejects."""

from __future__ import annotations

from typing import ClassVar


class Unanswerable(ValueError):
    """A request that is invalid, or that the extender can't process. The message says what is expected."""

    status: ClassVar[int] = 400
    """The HTTP status, for verbs whose response has no field for errors."""


class NotYet(Unanswerable):
    """A request before the first sync with the cluster."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the extender has not synced with the cluster yet")
