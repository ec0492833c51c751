"""Unknown writes: requests without a reply, which the API server may have carried out, or may carry out later.

        send ──► reply                                      the outcome is known
          ▲ ╲
          │   no reply ──► read, until that has a reply ──► the object shows the write, or no request can change it now
          └───────────────────────┘ neither

What an unknown write would change stays assumed: otherwise a device could go to two claims. A read alone doesn't end
that, because a request can arrive after it. So the same write is sent again, until a reply says how it ended; that
holds for the earlier requests, too. A process that loses the lease stops sending, and one that exits with an unknown
write lets its lease expire, so that late requests have that long to arrive: the next leader doesn't know of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain, repeat
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from bayplan.core.framework.calling import is_cancellation

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger(__name__)

# The reply to a repeated write holds for the earlier requests: after a success or a conflict, they meet a pod that has
# a node, or an object with another resource version; and what the server refuses, it refuses each time. The waits have
# no end while the server can't be reached, and nothing is kept once the outcome is known.
_PAUSES = (0.1, 0.5, 1.0, 2.0)
_LONGEST_PAUSE = 5.0
_REPORTED_AFTER = 4
"""The number of reads or requests that fail before the log says so."""

_UNAUTHORIZED, _NOT_FOUND, _REQUEST_TIMEOUT, _CONFLICT, _TOO_MANY_REQUESTS = 401, 404, 408, 409, 429
_SERVER_ERROR = 500
_GATEWAY_ERRORS = frozenset({502, 504})
"""A gateway, or the API server's own time limit, gave up waiting for who carries the request out."""
_TIMEOUT_REASONS = frozenset({"Timeout", "ServerTimeout"})
_ETCD = "etcdserver: "
"""The messages of etcd begin with it. What it has accepted may be committed after it has reported a timeout."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a duration in seconds."""


class RuledOut(Exception):
    """The object has changed so that no request for a write can be carried out any more."""


class Write(Protocol[T_co]):
    """A write to one object that may be sent again: a second request changes nothing that a first one has changed."""

    @property
    def name(self) -> str:
        """What is written, for the log: `the binding of pod a/b`."""

    async def send(self) -> T_co:
        """Send the request and return the outcome. Raises what the API client raises, or an error that it caused.

        Raises RuledOut instead of sending a request if the object that was read last doesn't allow it any more.
        """

    async def read(self) -> Any:
        """Read the object from the API server, not from a cache. Raises what the API client raises."""

    def outcome(self, found: Any) -> T_co | None:
        """The outcome, if the object that was read shows that the write was carried out; otherwise None."""

    def is_ruled_out(self, found: Any) -> bool:
        """Whether no request can be carried out any more on the object that was read."""


async def known(
    write: Write[T],
    sleep: Sleep,
    may_repeat: Callable[[], bool] = lambda: True,
    *,
    carried_out: Callable[[T], None] | None = None,
) -> T:
    """Return the outcome of a write, however long it takes until that is known. `sleep` takes seconds.

    Raises the last error of `send` once the write was not carried out and no request for it can arrive any more, or
    when `may_repeat` says that it must not be sent again.

    With `carried_out`, a cancellation waits: that is called with the outcome first, so that the caller can undo what is
    written. Without it, and at a second cancellation, the outcome stays unknown.
    """
    return await _Writing(write, sleep, may_repeat, carried_out).run()


class _Writing(Generic[T]):
    """A write until its outcome is known."""

    def __init__(
        self, write: Write[T], sleep: Sleep, may_repeat: Callable[[], bool], carried_out: Callable[[T], None] | None
    ) -> None:
        self._write = write
        self._sleep = sleep
        self._may_repeat = may_repeat
        self._carried_out = carried_out
        self._cancelled: BaseException | None = None
        """The cancellation that waits for the outcome."""

    async def run(self) -> T:
        try:
            outcome = await self._outcome()
        except Exception:
            if self._cancelled is not None:
                raise self._cancelled from None
            raise
        if self._carried_out is not None:
            self._carried_out(outcome)
        if self._cancelled is not None:
            raise self._cancelled
        return outcome

    async def _outcome(self) -> T:
        may_arrive, write = False, self._write
        for number, pause in enumerate(_pauses()):
            try:
                return await write.send()
            except RuledOut:
                raise
            except BaseException as error:
                if self._defers(error):
                    may_arrive = True
                elif not isinstance(error, Exception) or (not may_arrive and _is_certain(error)):
                    raise
                failure = error
            may_arrive = may_arrive or _may_arrive(failure)
            found = await self._read()
            outcome = None if found is None else write.outcome(found)
            if outcome is not None:
                return outcome
            ends = found is None or write.is_ruled_out(found) or not may_arrive or _is_refused(failure)
            if ends or not self._may_repeat():
                if isinstance(failure, Exception):
                    raise failure
                raise RuledOut from failure
            level = logging.WARNING if number == _REPORTED_AFTER else logging.DEBUG
            log.log(level, "%s may still be carried out, sending it again: %s", write.name, failure)
            await self._pause(pause)
        raise AssertionError("unreachable")

    async def _read(self) -> Any | None:
        """Read the object, as often as it takes to get it; None if it doesn't exist."""
        for number, pause in enumerate(_pauses()):
            try:
                return await self._write.read()
            except BaseException as problem:
                if not isinstance(problem, Exception) and not self._defers(problem):
                    raise
                if _status(problem) == _NOT_FOUND:
                    return None
                forbidden = _is_refused(problem) and not number
                level = logging.WARNING if forbidden or number == _REPORTED_AFTER else logging.DEBUG
                name = self._write.name
                log.log(level, "cannot find out whether %s was carried out, asking again: %s", name, problem)
            await self._pause(pause)
        return None

    async def _pause(self, seconds: float) -> None:
        try:
            await self._sleep(seconds)
        except BaseException as error:
            if not self._defers(error):
                raise

    def _defers(self, error: BaseException) -> bool:
        """Whether an exception is a cancellation that waits for the outcome."""
        if not is_cancellation(error) or self._carried_out is None or self._cancelled is not None:
            return False
        self._cancelled = error
        return True


def is_unknown_in(frame: FrameType) -> bool:
    """Whether the coroutine with this frame waits for the outcome of a write: if it ends now, that stays unknown."""
    return frame.f_code is _Writing.run.__code__


def is_conflict(error: BaseException) -> bool:
    """Whether the API server refused a write because the object is not as the request says (409)."""
    return _status(error) == _CONFLICT


def _pauses() -> Iterator[float]:
    return chain(_PAUSES, repeat(_LONGEST_PAUSE))


def _errors_of_requests(error: BaseException | None) -> Iterator[BaseException]:
    """The API client's errors among an error and its causes: that of the last request, and those of earlier ones."""
    while error is not None:
        is_reply = _status_of_reply(error) is not None and hasattr(
            error, "reason"
        )  # aiohttp's errors have a status, too
        if is_reply or hasattr(error, "sent"):
            yield error
        error = error.__cause__


def _status_of_reply(error: BaseException) -> int | None:
    """The HTTP status that an error of the API client has; None without a reply."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def _status(error: BaseException) -> int | None:
    """The HTTP status of the last reply; None without a reply."""
    last = next(_errors_of_requests(error), None)
    return None if last is None else _status_of_reply(last)


def _is_certain(error: BaseException) -> bool:
    """Whether a write that failed with `error` was not carried out and never will be: nothing was sent, or refused.

    A conflict is not certain: an equal request may have been carried out before, and this one refused for that.
    """
    return all(map(_has_no_effect, _errors_of_requests(error)))


def _has_no_effect(error: BaseException) -> bool:
    status = _status_of_reply(error)
    if status is None:
        return not getattr(error, "sent", True)
    return _is_refusal(status) and status != _CONFLICT


def _is_refused(error: BaseException) -> bool:
    status = _status(error)
    return status is not None and _is_refusal(status)


def _is_refusal(status: int) -> bool:
    """Whether the server decided against a request, and would do so again."""
    return status < _SERVER_ERROR and status not in {_UNAUTHORIZED, _REQUEST_TIMEOUT, _TOO_MANY_REQUESTS}


def _may_arrive(error: BaseException) -> bool:
    """Whether a request may still be carried out, after a read that does not show it."""
    return any(map(_may_be_under_way, _errors_of_requests(error)))


def _may_be_under_way(error: BaseException) -> bool:
    status = _status_of_reply(error)
    if status is None:
        return bool(getattr(error, "sent", False))
    if status < _SERVER_ERROR:
        return False
    reason, message = getattr(error, "reason", ""), str(getattr(error, "message", ""))
    return status in _GATEWAY_ERRORS or reason in _TIMEOUT_REASONS or message.startswith(_ETCD)
