"""A client that writes only for a leader: the last line against two schedulers that decide at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from bayplan.client import Client, TransportError
from bayplan.client.client import JSON
from bayplan.client.transport import Params


class FencedClient(Client):
    """Passes everything on to `client`, but no write while `leads` says no: that fails, unsent. Closing is not its."""

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
        """The body of the answer. Raises TransportError for a write while somebody else may lead."""
        if method != "GET" and not self._leads():
            raise TransportError("this scheduler does not lead: nothing is written", sent=False)
        return await self._client.request(method, path, params=params, body=body, content_type=content_type)

    def stream(
        self, path: str, *, params: Params | None = None, seconds: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body of a GET in the pieces in which it comes."""
        return self._client.stream(path, params=params, seconds=seconds)

    async def close(self) -> None:
        """Leave the client to its owner."""
