"""The limits of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on clients of a server. Times are in seconds.

    kube-scheduler waits 32 s for a header (and for the handshake) and 90 s for the next request, and has no limit on
    connections: k8s.io/apiserver/pkg/server/secure_serving.go.
    """

    connections: int = 128
    """Open connections. Over TLS, asyncio needs 290 kB for each."""
    handshake: float = 10.0
    """How long a TLS handshake may take."""
    header: float = 10.0
    """How long a header may take, from the connection or from the first byte of a later request."""
    body: float = 60.0
    """How long the body of a request may take."""
    bodies: int = 512 * 2**20
    """Bytes of all bodies that are in memory at a time, inflated."""
    response: float = 60.0
    """How long a client may take to read a response. Streams have no such limit."""
    idle: float = 90.0
    """How long a connection may have no request."""
    rest: float = 0.5
    """How long a client may take to read the response to a request whose body isn't read, before it is cut off.

    It begins when nothing of the body arrives any longer."""
    pause: float = 1.0
    """The wait after a connection could not be accepted, as when the process has no descriptors left."""
    log_every: float = 60.0
    """The time between two log lines about refusals for one reason."""
