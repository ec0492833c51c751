"""FencedClient: a client that writes only while this process leads: the last safeguard against two active schedulers.

It asks the election's thread at each write. So it holds even if the scheduler's event loop is blocked, and doesn't know
yet that the lease is lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from bayplan.running.client.client import JSON, Client
from bayplan.running.client.errors import TransportError
from bayplan.running.client.transport import Params


class FencedClient(Client):
    """Forwards requests to `client`, but fails writes while `leads` returns False. Doesn't close `client`."""

    def __init__(self, client: Client, leads: Callable[[], bool]) -> None:
        self.namespace = client.namespace
        self._client = client
        self._leads = leads

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """The body of the response. Raises TransportError for a write while another process may lead."""
        if method != "GET" and not self._leads():
            raise TransportError("this scheduler is not the leader, so it must not write", sent=False)
        return await self._client.request(method, path, params=params, body=body, content_type=content_type)

    def stream(
        self, path: str, *, params: Params | None = None, seconds: float | None = None, idle: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body of a GET, in chunks as they arrive."""
        return self._client.stream(path, params=params, seconds=seconds, idle=idle)

    async def close(self) -> None:
        """Do nothing: the owner closes the client."""
