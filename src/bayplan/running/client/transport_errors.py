"""Why a request has no response, in plain words."""

from __future__ import annotations

import os
import re
import socket
import ssl

import aiohttp

from bayplan.running.client.access import ClusterAccess
from bayplan.running.client.connections import NoReplyError, NoReplyInTimeError, NotConnectedError
from bayplan.running.client.errors import RequestTimeoutError, TransportError


def transport_error(error: Exception, method: str, url: str, access: ClusterAccess) -> TransportError:
    """The error of a client for one of aiohttp, `connections` or the system."""
    match error:
        case NotConnectedError():
            sent, why = False, _why_not_connected(error.__cause__, access)
        case NoReplyError():
            sent, why = (
                True,
                _connection_problem(error.__cause__) if isinstance(error.__cause__, OSError) else str(error),
            )
        case _:
            sent, why = _of_aiohttp(error, access)
    if sent and isinstance(error, TimeoutError | NoReplyInTimeError):
        return RequestTimeoutError(f"{method} {url}")
    return TransportError(f"{method} {url}: {why}", sent=sent, cause=why)


def _why_not_connected(cause: BaseException | None, access: ClusterAccess) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not trusted: {cause.verify_message} ({access.source})"
        case TimeoutError():
            return "connecting took too long"
        case socket.gaierror():
            return f"unknown host: {cause}"
        case OSError():
            return _connection_problem(cause)
    return str(cause)


def _of_aiohttp(error: Exception, access: ClusterAccess) -> tuple[bool, str]:
    """Whether the request was sent, and what failed."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return False, f"the server's certificate is not trusted: {_certificate_problem(error)} ({access.source})"
        case aiohttp.ConnectionTimeoutError():
            return False, "connecting took too long"
        case aiohttp.ClientConnectorDNSError():
            return False, f"unknown host: {error.os_error}"
        case aiohttp.ClientConnectorError():
            return False, _connection_problem(error.os_error)
        case aiohttp.ClientHttpProxyError():
            return False, f"the proxy {access.proxy} responded with {error.status} {error.message}"
        case aiohttp.InvalidURL():
            return False, f"not a valid URL ({access.source})"
        case aiohttp.ServerDisconnectedError():
            return True, "the server closed the connection"
        case aiohttp.ClientPayloadError():
            return True, "the connection broke in the middle of the response"
        case OSError():
            return True, _connection_problem(error)
    return True, str(error) or type(error).__name__


def _connection_problem(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"the TLS connection failed: {error.reason or error}"
    # asyncio joins the errors of several addresses of a host.
    number = error.errno or int((re.findall(r"\[Errno (\d+)\]", str(error)) or ["0"])[0])
    if number:
        return os.strerror(number).lower()
    return str(error) or "the server closed the connection"


def _certificate_problem(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    return cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
