"""StatusWriter: keeps the statuses of custom resources of a plugin up to date. No decision reads them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from logging import Logger

from bayplan.plugin import Handle

_INTERVAL_SECONDS = 0.5
"""The minimum time between two rounds, so that many pod events result in one update."""
_RETRY_SECONDS = 5.0
_NOT_FOUND = 404


class StatusWriter(ABC):
    """Writes what `note` names, in rounds. Run it in the plugin's `background` task."""

    def __init__(self, handle: Handle, log: Logger) -> None:
        self._handle = handle
        self._log = log
        self._due: set[str] = set()
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Update statuses until cancelled."""
        if self._handle.client is None:
            return
        while True:
            await self._work.wait()
            failed = await self.catch_up()
            await asyncio.sleep(_RETRY_SECONDS if failed else _INTERVAL_SECONDS)
            for each in failed:
                self.note(each)

    def note(self, changed: str) -> None:
        """Update the statuses that a change concerns, in the next round."""
        self._due.add(changed)
        self._work.set()

    @abstractmethod
    async def catch_up(self) -> list[str]:
        """Update the statuses that changes concern. Returns the changes whose statuses could not be written."""

    def take(self) -> set[str]:
        """Return the changes since the last round."""
        self._work.clear()
        due, self._due = self._due, set()
        return due

    async def written(self, what: str, writing: Awaitable[None]) -> bool:
        """Write a status. Returns false, and logs why, if it could not be written; an object that is gone has none."""
        try:
            await writing
        except Exception as error:  # noqa: BLE001 - any error of the client; it must not affect other statuses
            if getattr(error, "status", None) != _NOT_FOUND:
                self._log.warning("could not update the status of %s: %s", what, error)
                return False
        return True
