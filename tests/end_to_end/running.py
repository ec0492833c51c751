"""Schedulers for the end-to-end tests: in this process, with short waits, or as `bayplan run`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bayplan.testing.running import FAST, running_scheduler

__all__ = ["FAST", "BayplanRun", "bayplan_run", "running_scheduler"]


class BayplanRun:
    """A `bayplan run` process. `lines` has its standard error so far."""

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

    @property
    def problems(self) -> list[str]:
        """The lines that are not informational."""
        return [line for line in self.lines if not re.match(r"\S+ \S+ I ", line)]

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    async def ended(self, within: float = 20.0) -> int:
        """Waits for the process. Returns its exit status."""
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
    """Run `bayplan run` with these arguments, and kill it at the end."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bayplan"),
        "run",
        *(() if any(str(each).startswith("--secure-port") for each in arguments) else ("--secure-port=0",)),
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
