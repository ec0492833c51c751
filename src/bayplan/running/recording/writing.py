"""Writes entries in a thread of its own, so that a slow disk costs the recording and never the scheduler.

A checkpoint begins a segment. The oldest segments are deleted when there are more than are to be kept.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bayplan.foundations.file_replacement import PRIVATE
from bayplan.running.recording.checkpoints import DeferredCheckpoint
from bayplan.running.recording.entries import RecordedEntry, RecordingRedaction
from bayplan.running.recording.files import note_left_out
from bayplan.running.recording.frames import FrameEncoder
from bayplan.running.recording.places import segment_file

log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
"""Seconds between two frames: a kill loses no more."""
MOST_BYTES = 128 << 20
"""The bytes that may wait for the disk. If there are more, the recording ends."""
RETRY_SECONDS = 1.0
"""Seconds after which a disk that refuses the last frames is asked once more."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long segments are, and how much of them is kept. `seconds` and `bytes`: None for all of it.

    A segment that is due begins when no pod is being bound and no attempt has given way, or after `patience_seconds`.
    """

    segment_seconds: float = 3600.0
    segment_bytes: int = 256 << 20
    patience_seconds: float = 60.0
    seconds: float | None = None
    bytes: int | None = None


class FrameWriter:
    """Writes frames to a folder. `take`: returns the entries that are complete, and forgets them.

    `run`: its id. `problem`: why the recording has ended; "" while it goes on. `failed` is called once, in the writer's
    thread. `redaction`: what replaces names in all that is written.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        keep: Keep,
        take: Callable[[], list[RecordedEntry]],
        failed: Callable[[], None],
        redaction: RecordingRedaction | None = None,
    ) -> None:
        self.problem = ""
        self.written = 0
        """How many bytes were written."""
        self.in_segment = 0
        """How many bytes the current segment has, or will have."""
        self._folder = folder
        self._frames = FrameEncoder(run)
        self._keep = keep
        self._take = take
        self._failed = failed
        self._redaction = redaction
        self._noted = 0
        """How much of what the redaction left out the manifest says."""
        self._number = 1
        self._ended: dict[int, tuple[float, int]] = {}
        """When segments ended, and their bytes."""
        self._waiting: deque[tuple[Path, memoryview]] = deque()
        """What the disk has to take yet, and in which file."""
        self._refused = False
        """Whether the disk refused it, which was logged."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and end. Waits for at most ten seconds: the disk may be stuck."""
        self._end.set()
        self._thread.join(10.0)

    def overrun(self) -> None:
        """End the recording, because the disk is too slow."""
        self._stop("the disk is too slow")

    def _run(self) -> None:
        try:
            ended = False
            while not ended and not self.problem:
                ended = self._end.wait(FLUSH_SECONDS)
                self._encode(self._take())
                self._write(last=ended)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the recording only
            self._stop(f"{type(error).__name__}: {error}")

    def _encode(self, entries: list[RecordedEntry]) -> None:
        """Make frames of entries. A checkpoint begins another segment."""
        first, *others = _divided(entries)
        self._add(segment_file(self._folder, self._number), first)
        for each in others:
            self._add(self._next_segment(), each)

    def _add(self, path: Path, entries: list[RecordedEntry]) -> None:
        if self._redaction is not None:
            entries = self._redaction.entries(entries)
        if entries:
            frame = self._frames.encode(entries)
            self.in_segment += len(frame)
            self._waiting.append((path, memoryview(frame)))

    def _write(self, *, last: bool) -> None:
        """Write what waits. If the disk refuses that, it waits for the next time; at the end, it is tried once more."""
        try:
            self._flush()
        except OSError as error:
            problem = f"cannot write {error.filename or self._folder}: {error.strerror or error}"
            if not last:
                self._refuse(problem)
                return
            time.sleep(RETRY_SECONDS)
            try:
                self._flush()
            except OSError:
                self._stop(problem)
                return
        if self._refused:
            self._refused = False
            log.info("the recording can be written again, and nothing of it is missing")

    def _flush(self) -> None:
        """Write what waits, and what was left out. Raises OSError; what was written doesn't wait any more then."""
        left_out = [] if self._redaction is None else self._redaction.left_out
        if len(left_out) > self._noted:
            note_left_out(self._folder, left_out)
            self._noted = len(left_out)
        while self._waiting:
            path, view = self._waiting[0]
            with open(path, "ab", buffering=0, opener=_private) as file:
                while view:
                    try:
                        count = file.write(view)
                    except OSError as error:
                        error.filename = path
                        raise
                    self.written += count
                    view = view[count:]
                    self._waiting[0] = path, view
            self._waiting.popleft()

    def _refuse(self, problem: str) -> None:
        waiting = sum(len(view) for _, view in self._waiting)
        if waiting > MOST_BYTES:
            self._stop(problem)
        elif not self._refused:
            self._refused = True
            log.warning(
                "the recording waits, and scheduling goes on: %s; it is tried again, until %d MiB wait",
                problem,
                MOST_BYTES >> 20,
            )

    def _next_segment(self) -> Path:
        """Begin a segment, and delete those that need not be kept."""
        now, keep = time.monotonic(), self._keep
        self._ended[self._number] = now, self.in_segment
        self._number += 1
        self.in_segment = 0
        total = sum(size for _, size in self._ended.values())
        for number, (ended, size) in list(self._ended.items()):
            old = keep.seconds is not None and now - ended > keep.seconds
            if old or (keep.bytes is not None and total > keep.bytes):
                path = segment_file(self._folder, number)
                path.unlink(missing_ok=True)
                self._waiting = deque(each for each in self._waiting if each[0] != path)
                total -= size
                del self._ended[number]
        return segment_file(self._folder, self._number)

    def _stop(self, problem: str) -> None:
        if not self.problem:
            self.problem = problem
            log.warning("the recording has ended, and scheduling goes on: %s", problem)
            self._failed()


def _divided(entries: list[RecordedEntry]) -> list[list[RecordedEntry]]:
    """The entries of each segment: a checkpoint begins another one."""
    divided: list[list[RecordedEntry]] = [[]]
    for entry in entries:
        if isinstance(entry, DeferredCheckpoint):
            divided.append([entry.make()])
        else:
            divided[-1].append(entry)
    return divided


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)
