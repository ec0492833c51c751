"""A cursor in a run of a recording: a replay that waits between decisions, so that a step costs one decision.

It goes back by replaying the segment again; the cluster before the decisions on the way is kept for some steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from bayplan.answers.replay.moments import SnapshotMaker
from bayplan.answers.replay.policies import Policy
from bayplan.answers.replay.replay import Moment
from bayplan.answers.snapshots import Snapshot
from bayplan.foundations.latest import LruDict
from bayplan.running.recording.files import Recording, RecordingError

KEPT, BEFORE = 40, 20
"""How many clusters are kept, and how many of them are made on the way to a decision, for steps back."""
_LOOK = 0.05
"""Seconds between two calls of a progress."""


class ReplayCursor:
    """The cluster before any decision of a run, and at its end. Not for use in several threads at once."""

    def __init__(self, recording: Recording, policy: Policy) -> None:
        self._recording = recording
        self._policy = policy
        self._maker = SnapshotMaker()
        self._kept: LruDict[int, Snapshot] = LruDict(KEPT)
        self._pass: _Pass | None = None

    def before(self, number: int, segment: int, progress: Callable[[str], None] = lambda _: None) -> Snapshot:
        """The cluster before a decision, which is in this segment. After the last one comes the end of the run.

        Raises RecordingError if a decision before it can't be made again, and what `progress` raises.
        """
        found = self._kept.use(number)
        if found is not None:
            return found
        if self._pass is None or not self._pass.reaches(number):
            self.close()
            self._pass = _Pass(self._recording, self._policy, self._maker, self._kept, segment)
        try:
            self._pass.go_to(number, progress)
        except BaseException:
            self.close()
            raise
        found = self._kept.use(number)
        if found is None:
            why = self._pass.problem
            self.close()
            raise RecordingError(why)
        return found

    def close(self) -> None:
        """End the replay that waits."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None


class _Pass:
    """One replay from the start of a segment, in a thread of its own."""

    def __init__(
        self, recording: Recording, policy: Policy, maker: SnapshotMaker, kept: LruDict[int, Snapshot], segment: int
    ) -> None:
        self.problem = ""
        self._recording = recording
        self._replay = policy.replay(recording)
        self._maker = maker
        self._kept = kept
        self._segment = segment
        self._target = 0
        self._closed = False
        self._ended = False
        self._wanted: SimpleQueue[int | None] = SimpleQueue()
        self._reached: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    def reaches(self, wanted: int) -> bool:
        """Whether the decision is still ahead."""
        return not self._ended and wanted > self._target

    def go_to(self, wanted: int, progress: Callable[[str], None]) -> None:
        """Go on up to a decision, or to the end. Raises what `progress` raises."""
        self._wanted.put(wanted)
        while True:
            try:
                self._reached.get(timeout=_LOOK)
            except Empty:
                progress("replaying")
            else:
                return

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._wanted.put(None)
        self._thread.join()

    def _run(self) -> None:
        first = self._wanted.get()
        if first is None:
            return
        self._target = first
        try:
            found = self._replay.run(self._visit, segment=self._segment)
            if found.stopped:
                return
            self.problem = found.why
            scheduler, ended = self._replay.scheduler, found.ended or found.began
            if found.difference is None and scheduler is not None and ended is not None:
                self._kept[found.decisions + 1] = self._maker.make(
                    scheduler, ended, f"{self._recording.source} at {ended:%H:%M:%S}"
                )
        except Exception as error:  # noqa: BLE001 - a plugin's; the one that waits is told
            self.problem = f"{type(error).__name__}: {error}"
        self._ended = True
        self._reached.put(None)

    def _visit(self, moment: Moment) -> bool:
        if self._closed:
            return True
        if moment.number >= self._target - BEFORE:
            source = f"{self._recording.source} at {moment.time:%H:%M:%S}"
            self._kept[moment.number] = self._maker.make(moment.scheduler, moment.time, source)
        if moment.number < self._target or not moment.recorded:
            return False
        self._reached.put(None)
        wanted = self._wanted.get()
        if wanted is None:
            return True
        self._target = wanted
        return False
