"""Writes entries in a thread of its own, so that a slow disk costs the recording and never the scheduler.

A checkpoint begins a segment. The oldest segments are deleted when there are more than are to be kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bayplan.recording.checkpoints import DeferredCheckpoint
from bayplan.recording.entries import RecordedEntry, RecordingRedaction
from bayplan.recording.files import encode_frame, note_left_out, segment_file

log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
"""Seconds between two frames: a kill loses no more."""
MOST_BYTES = 128 << 20
"""The bytes of objects that may wait for the disk. If there are more, the recording ends."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long segments are, and how much of them is kept. `seconds` and `bytes`: None for all of it.

    A segment that is due begins when no pod is being bound, or after `patience_seconds`.
    """

    segment_seconds: float = 3600.0
    segment_bytes: int = 256 << 20
    patience_seconds: float = 60.0
    seconds: float | None = None
    bytes: int | None = None


class FrameWriter:
    """Writes frames to a folder. `take`: returns the entries that are complete, and forgets them.

    `problem`: why the recording has ended; "" while it goes on. `failed` is called once, in the writer's thread.
    `redaction`: what replaces names in all that is written.
    """

    def __init__(
        self,
        folder: Path,
        keep: Keep,
        take: Callable[[], list[RecordedEntry]],
        failed: Callable[[], None],
        redaction: RecordingRedaction | None = None,
    ) -> None:
        self.problem = ""
        self.written = 0
        """How many bytes were written."""
        self.in_segment = 0
        """How many of them are in the segment that is being written."""
        self._folder = folder
        self._keep = keep
        self._take = take
        self._failed = failed
        self._redaction = redaction
        self._noted = 0
        """How much of what the redaction left out the manifest says."""
        self._number = 1
        self._ends: dict[int, float] = {}
        """When the segments ended."""
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
        path = segment_file(self._folder, self._number)
        try:
            file = path.open("ab", buffering=0)
            try:
                ended = False
                while not ended and not self.problem:
                    ended = self._end.wait(FLUSH_SECONDS)
                    first, *others = _divided(self._take())
                    self._write(file, first)
                    for entries in others:
                        file.close()
                        path = self._next_segment()
                        file = path.open("ab", buffering=0)
                        self._write(file, entries)
            finally:
                file.close()
        except OSError as error:
            self._stop(f"cannot write {path}: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the recording only
            self._stop(f"{type(error).__name__}: {error}")

    def _write(self, file: IO[bytes], entries: list[RecordedEntry]) -> None:
        if self._redaction is not None:
            entries = self._redaction.entries(entries)
            if len(self._redaction.left_out) > self._noted:
                self._noted = len(self._redaction.left_out)
                note_left_out(self._folder, self._redaction.left_out)
        if not entries:
            return
        frame = encode_frame(entries)
        view = memoryview(frame)
        while view:
            view = view[file.write(view) :]
        self.written += len(frame)
        self.in_segment += len(frame)

    def _next_segment(self) -> Path:
        """Begin a segment, and delete those that need not be kept."""
        now, keep = time.monotonic(), self._keep
        self._ends[self._number] = now
        self._number += 1
        self.in_segment = 0
        sizes = {number: _size(segment_file(self._folder, number)) for number in self._ends}
        total = sum(sizes.values())
        for number, ended in list(self._ends.items()):
            old = keep.seconds is not None and now - ended > keep.seconds
            if old or (keep.bytes is not None and total > keep.bytes):
                segment_file(self._folder, number).unlink(missing_ok=True)
                total -= sizes[number]
                del self._ends[number]
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
