"""Schedulers for the end-to-end tests: in this process, where waits can be set short, or as `bayplan run`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from workloads import NAME

from bayplan.client import ClusterAccess, HttpClient
from bayplan.config.profiles import default_profile
from bayplan.config.types import Extender
from bayplan.extender.client import HttpExtenders
from bayplan.framework.interface import Plugin
from bayplan.service.scheduler import Scheduler, Settings

FAST = Settings(initial_backoff=0.05, max_backoff=0.2, blocked_after=0.4, look_for_kind=0.1)


@asynccontextmanager
async def running_scheduler(
    access: ClusterAccess,
    *plugins: Plugin,
    settings: Settings = FAST,
    extenders: Sequence[Extender] = (),
    **client_options: Any,
) -> AsyncIterator[Scheduler]:
    """A scheduler that knows the cluster and decides; stopped gracefully in the end. If it breaks, so does the test."""
    async with HttpClient(access, **client_options) as client, HttpExtenders(extenders) as asked:
        scheduler = Scheduler(
            client,
            lambda handle: {NAME: default_profile(NAME, handle, plugins)},
            settings,
            extenders=asked if extenders else None,
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop), name="scheduler under test")
            try:
                await scheduler.synced.wait()
                yield scheduler
            finally:
                stop.set()


class BayplanRun:
    """`bayplan run` as a process of its own. `lines` are those of its standard error so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.lines.append(line.decode().rstrip())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    async def ended(self, within: float = 20.0) -> int:
        """Its exit status."""
        async with asyncio.timeout(within):
            status = await self._process.wait()
            await self._reading
        return status

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()


@asynccontextmanager
async def bayplan_run(*arguments: str | Path, environ: dict[str, str] | None = None) -> AsyncIterator[BayplanRun]:
    """Start `bayplan run` with these arguments; whatever the test does, it is gone in the end."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bayplan"),
        "run",
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**{k: v for k, v in os.environ.items() if k != "KUBECONFIG"}, **(environ or {})},
    )
    running = BayplanRun(process)
    try:
        yield running
    finally:
        await running.kill()
