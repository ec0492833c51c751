"""`bayplan extender` as a process."""

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.waiting import until


class Command:
    """`bayplan extender` as a process, with its output."""

    def __init__(self, process):
        self.process = process
        self.output = ""
        self.errors = ""
        self._reading = asyncio.gather(self._read(), self._read_errors())

    async def _read(self):
        async for line in self.process.stdout:
            self.output += line.decode()

    async def _read_errors(self):
        async for line in self.process.stderr:
            self.errors += line.decode()

    async def ended(self):
        """Wait for its exit status."""
        async with asyncio.timeout(20):
            await self.process.wait()
            await self._reading
        return self.process.returncode

    async def until(self, condition):
        return await until(condition, within=20)

    async def serving(self):
        """Wait for its output, and return its URL."""
        return (await self.until(lambda: re.search(r"urlPrefix: (\S+)(?s:.)*nodeCacheCapable", self.output)))[1]

    @property
    def snippet(self):
        """The part for the configuration of the other scheduler."""
        return self.output[self.output.index("extenders:") :]


@asynccontextmanager
async def bayplan_extender(*arguments, environ=None):
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bayplan"),
        "extender",
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**{name: value for name, value in os.environ.items() if name != "KUBECONFIG"}, **(environ or {})},
    )
    command = Command(process)
    try:
        yield command
    finally:
        if process.returncode is None:
            process.kill()
        await command.ended()
