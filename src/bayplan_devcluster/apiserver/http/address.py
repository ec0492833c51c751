"""Address: where the embedded API server listens, and as whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan_devcluster.apiserver.http.tls import Tls


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a server listens: on `host` and `port` (0 for a free port), with `tls` over HTTPS.

    `accept_hosts` are regular expressions for the host names that the server answers to, separated by commas. On
    loopback, the default is `localhost` and loopback addresses. `advertised` is the address in discovery, if it is not
    the one that the server listens on.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    accept_hosts: str | None = None
    advertised: str = ""


LOOPBACK = Address()
"""A free port of this machine, over HTTP."""
