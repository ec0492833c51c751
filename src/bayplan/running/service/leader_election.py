"""The leader election of a scheduler, in a thread of its own, with an event loop and a client of its own.

A leader stops within the renew deadline after its last renewal, by a monotonic clock, also while a plugin blocks the
scheduler. `leads` may be asked by any thread. The protocol itself is `bayplan.running.client.leader_election`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self

from bayplan.running.client.client import Client
from bayplan.running.client.leader_election import LeaderElectionSettings, LeaderElector
from bayplan.running.service.tasks import first

log = logging.getLogger(__name__)


class LeaseLostError(Exception):
    """The lease was not renewed in time, or another process holds it. The scheduler must stop."""


class Leadership(Protocol):
    """The leadership of a scheduler. `acquired` and `lost` belong to the scheduler's event loop."""

    @property
    def acquired(self) -> asyncio.Event:
        """Set when the scheduler may start."""

    @property
    def lost(self) -> asyncio.Event:
        """Set when the scheduler must stop at once and exit."""

    def leads(self) -> bool:
        """Whether the scheduler leads now. May be false before `lost` is set."""

    def let_expire(self) -> None:
        """Don't release the lease at the end: a request of this scheduler may still be carried out."""


OpenClient = Callable[[], AbstractAsyncContextManager[Client]]


class ElectionThread:
    """A LeaderElector with its own thread, event loop and client. Implements Leadership.

    The lease is therefore renewed, or its loss noticed, even while a plugin blocks the scheduler. An async context
    manager, which releases the lease at the end.
    """

    def __init__(self, open_client: OpenClient, settings: LeaderElectionSettings, identity: str = "") -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self._open_client = open_client
        self._settings = settings
        self._elector: LeaderElector | None = None
        self._thread = threading.Thread(target=self._run, name="leader-election", daemon=True)
        self._scheduler_loop: asyncio.AbstractEventLoop | None = None
        self._elector_loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._releases = True

    def leads(self) -> bool:
        """Whether it certainly holds the lease."""
        return self._elector is not None and self._elector.leads()

    def let_expire(self) -> None:
        """Don't release the lease at the end: the next leader begins only once it has expired."""
        log.warning(
            "a write whose reply was lost may still be carried out: the lease is not released, and expires by itself"
        )
        self._releases = False

    @property
    def leader(self) -> str:
        """The last known holder of the lease; "" if there is none. For reports: it may be out of date."""
        return self._elector.leader if self._elector is not None else ""

    async def __aenter__(self) -> Self:
        self._scheduler_loop = asyncio.get_running_loop()
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Release the lease, if it is held, and end the election. It may be called in any thread, repeatedly."""
        if self._elector_loop is not None and self._stop is not None and self._thread.is_alive():
            try:
                self._elector_loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                log.debug("leader election has already ended")
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._elect())
        except Exception:
            log.exception("leader election failed")
        finally:
            self._ready.set()
            self._signal(self.lost)

    async def _elect(self) -> None:
        self._elector_loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._open_client() as client:
            self._elector = elector = LeaderElector(client, self.identity, self._settings)
            self._ready.set()
            await first(elector.acquire(), self._stop.wait())
            if elector.leads():
                self._signal(self.acquired)
                await first(elector.hold(), self._stop.wait())
                if elector.leads() and self._releases:
                    await elector.release()
                elector.resign()

    def _signal(self, event: asyncio.Event) -> None:
        """Set an event in the scheduler's loop."""
        assert self._scheduler_loop is not None
        try:
            self._scheduler_loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            log.debug("the scheduler has already ended")
