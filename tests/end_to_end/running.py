"""Schedulers for the end-to-end tests: in this process, with short waits, or as `bayplan run`."""

import asyncio
import os
import random
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.waiting import PATIENCE

from bayplan.answers.replay.redaction import RecordingRedactor
from bayplan.answers.replay.replay import Replay
from bayplan.client import ClusterAccess
from bayplan.core.config import ExtraPlugin, default_profile
from bayplan.core.config.types import Extender
from bayplan.core.executor.extenders import are_asked
from bayplan.running.recording.entries import Checkpoint, RecordedEntry, Setting
from bayplan.running.recording.files import Recording, prepare_recording
from bayplan.running.recording.frames import FrameEncoder
from bayplan.running.recording.places import segment_file
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.recording.writing import Keep
from bayplan.running.service.scheduler import BuildProfiles, Scheduler
from bayplan.running.service.settings import Settings
from bayplan.testing.running import FAST
from bayplan.testing.running import running_scheduler as unrecorded_scheduler

__all__ = ["FAST", "BayplanRun", "bayplan_run", "running_scheduler", "unrecorded_scheduler"]


@asynccontextmanager
async def running_scheduler(
    access: ClusterAccess,
    *plugins: ExtraPlugin,
    scheduler_name: str = "bayplan-scheduler",
    build_profiles: BuildProfiles | None = None,
    settings: Settings = FAST,
    extenders: Sequence[Extender] = (),
    names_have_order: bool = False,
    **client_options: Any,
) -> AsyncIterator[Scheduler]:
    """Run a scheduler as `bayplan.testing` does, record it, and check that a replay makes the same decisions.

    `names_have_order`: whether decisions rest on the order of names, which a redacted recording doesn't have. Plugins
    may read names, too, and objects that are left out. Otherwise, the redacted recording is replayed as well.
    """
    build = build_profiles or (lambda handle: {scheduler_name: default_profile(scheduler_name, handle, plugins)})
    setting = Setting(
        seed=random.randrange(1 << 32),
        initial_backoff=settings.initial_backoff,
        max_backoff=settings.max_backoff,
        unschedulable_timeout=settings.unschedulable_timeout,
    )
    with TemporaryDirectory() as folder:
        recorder = DecisionRecorder(
            Path(folder), setting, settings.clock, Keep(segment_seconds=0.5, patience_seconds=1e9)
        )
        try:
            async with unrecorded_scheduler(
                access,
                build_profiles=build,
                settings=replace(settings, seed=setting.seed),
                extenders=extenders,
                recorder=recorder,
                **client_options,
            ) as scheduler:
                yield scheduler
        finally:
            recorder.close()
        asked = partial(are_asked, extenders) if extenders else None
        assert not recorder.problem
        recording = Recording.open(Path(folder))
        for segment in range(recording.segments):
            replayed = await asyncio.to_thread(Replay(recording, build, asked).run, segment=segment)
            assert not replayed.problem
            assert replayed.difference is None, (segment, replayed)
            assert replayed.complete
        redacted = redacted_copy(recording, Path(folder) / "redacted")
        if not plugins and not names_have_order and not redacted.manifest.left_out:
            replayed = await asyncio.to_thread(Replay(redacted, build, asked).run)
            assert replayed.difference is None, replayed


def redacted_copy(recording: Recording, folder: Path) -> Recording:
    """A recording as if it had been redacted."""
    redactor = RecordingRedactor(b"k" * 32)
    manifest = recording.manifest
    assert manifest.began is not None
    frames = FrameEncoder(prepare_recording(folder, manifest.setting, manifest.began, manifest.monotonic, redactor))
    batches: list[list[RecordedEntry]] = [[]]
    for number, entry in enumerate(recording.entries()):
        if number and isinstance(entry, Checkpoint):
            batches.append([])
        batches[-1].append(entry)
    for number, batch in enumerate(batches, start=1):
        segment_file(folder, number).write_bytes(frames.encode(redactor.entries(batch)))
    return Recording.open(folder)


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

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def problems(self) -> list[str]:
        """The lines that are not informational."""
        return [line for line in self.lines if not re.match(r"\S+ \S+ I ", line)]

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    async def ended(self, within: float = PATIENCE) -> int:
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
async def bayplan_run(
    *arguments: str | Path, environ: dict[str, str] | None = None, command: str = "run"
) -> AsyncIterator[BayplanRun]:
    """Run `bayplan run`, or another command with its flags, with these arguments, and kill it at the end."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bayplan"),
        command,
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
