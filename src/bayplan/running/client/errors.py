"""The errors of requests: refused by the server, without a complete response, or not sent at all.

`ApiError` has the server's words. `TransportError.sent` tells a write that may have been carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ApiError(Exception):
    """The server returned a status other than 2xx.

    `status` is the HTTP status, `reason` the machine-readable reason (`Conflict`, `NotFound`, `Expired`; "" if there is
    none), `message` the text for people, `details` the details of the Status object, and `retry_after` the seconds that
    the server asks to wait, or None.
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
        """The error that a response body describes: a Status object, or the text of a proxy.

        `status` applies if the body has no code.
        """
        try:
            answer = msgspec.json.decode(body, type=_Status)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            text = " ".join(body.decode(errors="replace").split())
            return cls(status, "", text[:_LONGEST_TEXT] or "the response has no body", retry_after=retry_after)
        details = answer.details or {}
        if retry_after is None and isinstance(seconds := details.get("retryAfterSeconds"), int | float):
            retry_after = min(float(seconds), LONGEST_RETRY_AFTER)
        return cls(answer.code or status, answer.reason or "", answer.message or "", details, retry_after)


class TransportError(Exception):
    """No complete response arrived: refused or reset connections, timeouts, untrusted certificates.

    `sent`: whether the server may have processed the request nevertheless. `cause`: the message without the request,
    which is the same for all requests that fail alike.
    """

    def __init__(self, message: str, *, sent: bool, cause: str = "") -> None:
        super().__init__(message)
        self.sent = sent
        self.cause = cause or message


class RequestTimeoutError(TransportError):
    """The server was silent for too long, or did not complete its response in time."""

    def __init__(self, request: str) -> None:
        super().__init__(f"{request}: the request timed out", sent=True, cause="the request timed out")


class MalformedResponseError(TransportError):
    """The response isn't one of the Kubernetes API: not JSON, or JSON of another structure."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class InvalidNameError(ValueError):
    """A name that isn't a single path segment. Nothing was sent: the request would concern another object."""


class ConfigError(Exception):
    """A kubeconfig or its credentials can't be used. The message names the problem, its location and the fix."""


class NoKubeconfigError(ConfigError):
    """There is no kubeconfig where kubectl looks for one."""


LONGEST_RETRY_AFTER = 300.0
"""Seconds. A server can't ask for a longer wait."""

_LONGEST_TEXT = 500
"""Characters kept of a response that isn't a Status object, such as an HTML page."""


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None
