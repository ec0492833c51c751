"""Writes entries in a thread of its own, so that a slow disk costs the recording and never the scheduler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from bayplan.recording.entries import Changed, RecordedEntry
from bayplan.recording.files import encode_frame, segment_file

log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
"""Seconds between two frames: a kill loses no more."""
MOST_BYTES = 128 << 20
"""The bytes of objects that may wait for the disk. If there are more, the recording ends."""


class FrameWriter:
    """Writes frames to a folder. `take`: returns the entries that are complete, and forgets them.

    `problem`: why the recording has ended; "" while it goes on. `failed` is called once, in the writer's thread.
    """

    def __init__(self, folder: Path, take: Callable[[], list[RecordedEntry]], failed: Callable[[], None]) -> None:
        self.problem = ""
        self.written = 0
        """How many bytes were written."""
        self._path = segment_file(folder, 1)
        self._take = take
        self._failed = failed
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
            with self._path.open("ab", buffering=0) as file:
                ended = False
                while not ended and not self.problem:
                    ended = self._end.wait(FLUSH_SECONDS)
                    entries = self._take()
                    if entries:
                        frame = encode_frame(entries)
                        view = memoryview(frame)
                        while view:
                            view = view[file.write(view) :]
                        self.written += len(frame)
        except OSError as error:
            self._stop(f"cannot write {self._path}: {error.strerror or error}")

    def _stop(self, problem: str) -> None:
        if not self.problem:
            self.problem = problem
            log.warning("the recording has ended, and scheduling goes on: %s", problem)
            self._failed()


def size_of(entry: RecordedEntry) -> int:
    """How many bytes of an entry wait for the disk, roughly."""
    return len(entry.raw) if isinstance(entry, Changed) and entry.raw is not None else 64
