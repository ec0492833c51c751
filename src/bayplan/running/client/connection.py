"""Opens a client with the settings of a kubeconfig."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from bayplan.running.client.http import HttpClient
from bayplan.running.client.kubeconfig import load_kubeconfig


class connect:  # noqa: N801 - used like a function
    """`client = await connect()` or `async with connect() as client:` for the cluster that kubectl would use.

    See `load_kubeconfig` for where the kubeconfig is looked up, and `HttpClient` for the `options`. Raises ConfigError.
    It doesn't contact the server: the first request does.
    """

    def __init__(self, kubeconfig: str | Path | None = None, context: str | None = None, **options: Any) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._options = options
        self._client: HttpClient | None = None

    def __await__(self) -> Generator[Any, None, HttpClient]:
        return self._connect().__await__()

    async def __aenter__(self) -> HttpClient:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> HttpClient:
        return HttpClient(load_kubeconfig(self._kubeconfig, self._context), **self._options)
