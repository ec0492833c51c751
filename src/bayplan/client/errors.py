"""What a request can end in, other than its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ApiError(Exception):
    """The server answered, and not with 2xx.

    `status` is the HTTP status, `reason` the machine's word for it (`Conflict`, `NotFound`, `Expired`; "" if the
    server told none), `message` the sentence for people, `details` the Status object's details, and `retry_after`
    the seconds that the server asks to wait, or None.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.status} {self.reason}".strip(), self.message)))

    @classmethod
    def from_status(cls, body: bytes, *, status: int = 0, retry_after: float | None = None) -> ApiError:
        """The error that the body of an answer describes: a Status object, or any text that a proxy put there.

        `status` stands in where the body names no code of its own.
        """
        try:
            answer = msgspec.json.decode(body, type=_Status)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            text = " ".join(body.decode(errors="replace").split())
            return cls(status, "", text[:_LONGEST_TEXT] or "the answer has no body", retry_after=retry_after)
        details = answer.details or {}
        if retry_after is None and isinstance(seconds := details.get("retryAfterSeconds"), int | float):
            retry_after = min(float(seconds), LONGEST_RETRY_AFTER)
        return cls(answer.code or status, answer.reason or "", answer.message or "", details, retry_after)


class TransportError(Exception):
    """No answer came, or no whole one: refused or reset connections, timeouts, certificates that are not trusted.

    `sent` tells whether the request may have been carried out all the same.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class MalformedAnswerError(TransportError):
    """What came back is not what the API answers with: no JSON, or JSON of another shape."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class InvalidNameError(ValueError):
    """A name that isn't a single path segment. Nothing was sent: the request would concern another object."""


class ConfigError(Exception):
    """A kubeconfig or the credentials that it names cannot be used. The message says what, where and what would do."""


LONGEST_RETRY_AFTER = 300.0
"""Seconds. A server can't ask for a longer wait."""

_LONGEST_TEXT = 500
"""Characters kept of an answer that is not a Status object: pages of HTML help nobody."""


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None
