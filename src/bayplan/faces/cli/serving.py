"""Shared by commands that watch a cluster: the event loop, checking access, and stopping on signals."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from bayplan.core.api.kinds import NODE, POD
from bayplan.foundations.failures import Failures
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, TransportError

if TYPE_CHECKING:  # it imports plugins' types, which other commands don't need
    from bayplan.faces.cli.ending import ProcessEnding

log = logging.getLogger(__name__)


class NoAccessError(Exception):
    """The cluster denies access. The message has the request and the response."""


class DeniedError(NoAccessError):
    """The client may not read nodes or pods. `response` is what the API server answered."""

    def __init__(self, message: str, response: ApiError) -> None:
        super().__init__(message)
        self.response = response


SILENCE = 5.0
"""Seconds after which a wait is reported."""
LIMIT = 30.0
"""Seconds for which to wait for the first replies."""


def run_until_done(main: Coroutine[Any, Any, None], ending: ProcessEnding) -> None:
    """Run a coroutine like `asyncio.run`, whatever the tasks that plugins create raise.

    A task that raises SystemExit or KeyboardInterrupt stops the event loop. It is started again, unless `main` or
    Ctrl-C raised it. If tasks or threads of plugins go on at the end, the loop stays open, and `ending` ends the
    process.
    """
    failures, runner = Failures(), asyncio.Runner()
    loop = runner.get_loop()

    def run(work: Coroutine[Any, Any, None]) -> None:
        task = loop.create_task(work)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done():
                    raise
                failures.record("a task that a plugin created", error)

    try:
        run(main)
    finally:
        run(ending.finish_tasks())
        if ending.complete:
            runner.close()


async def check_access(client: Client) -> None:
    """List nodes and pods once, to report missing permissions before watches retry forever. Raises NoAccessError.

    Logs a line every SILENCE seconds, and gives up after LIMIT seconds without the replies.
    """
    checking = asyncio.create_task(_check_access(client))
    waited = 0.0
    try:
        while not (await asyncio.wait({checking}, timeout=min(SILENCE, LIMIT - waited)))[0]:
            waited += SILENCE
            if waited >= LIMIT:
                raise NoAccessError(f"the API server has not replied within {LIMIT:g} s")
            log.warning("the API server has not replied for %g s; giving up after %g s", waited, LIMIT)
        checking.result()
    finally:
        checking.cancel()
        await asyncio.wait({checking})


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work unless `stop` is set before it has finished. Returns whether it was done."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        return doing.done()
    finally:
        doing.cancel()
        stopping.cancel()
        await asyncio.wait({doing, stopping})


async def _check_access(client: Client) -> None:
    for kind in (NODE, POD):
        try:
            await client.request("GET", kind.path(), params={"limit": 1})
        except ApiError as error:
            problem = f"cannot list {kind.plural}: {error}"
            raise (DeniedError(problem, error) if error.status == 403 else NoAccessError(problem)) from error
        except TransportError as error:
            raise NoAccessError(f"cannot reach the API server: {error}") from error


def stop_on_signals(waiting_for: str, ending: ProcessEnding) -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. The second one exits at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def begin() -> None:
        log.warning("stopping after %s have finished; signal again to exit at once", waiting_for)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, begin)
        signal.signal(number, ending.signalled)  # called even if the loop is blocked, which wakes it nevertheless
    return stop
