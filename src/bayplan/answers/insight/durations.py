"""ExpectedRunTimes: how long pods run, by what the user, the pods and a history say of that, each source by its name.

    durations = ExpectedRunTimes(snapshot, now, given={"job default/train": {"p50": "20m", "p90": "1h"}}, seen={})
    durations.of(pod)           # PodDuration("durations", Lognormal(...)); None if nothing says it

The sources come in the order of `SOURCES`. A bound of Kubernetes (`activeDeadlineSeconds`) also ends what another
source says would run longer. What can't be read is one line of `problems`, and the next source counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from bayplan.answers.simulation.models.run_times import AtMost, Exactly, Lognormal, RunTime, Seen
from bayplan.answers.simulation.owners import owners_of, run_time_groups
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import durations as texts
from bayplan.core.api.kinds import JOB
from bayplan.core.api.times import with_zone
from bayplan.core.cluster.pod_info import PodInfo

SOURCES = ("annotation", "durations", "history", "activeDeadlineSeconds")
"""What may say how long a pod runs; the first one that does counts."""
_MOST = 366 * 86400.0
_EXPECTED = "expected more than 0s and at most 366 days, as in 30m, or p50 and p90, as in {p50: 20m, p90: 1h}"
_SHOWN = 60
"""The most characters of what can't be read in a line about it."""


@dataclass(frozen=True, slots=True)
class PodDuration:
    """How long a pod runs, and which of `SOURCES` says that."""

    source: str
    run_time: RunTime


class DurationError(ValueError):
    """A text or value that says no duration. The message is for the user."""


def run_time_of(value: object) -> RunTime:
    """Read a duration: `30m`, seconds as a number, or `p50` and `p90` of a distribution. Raises DurationError."""
    if isinstance(value, str) and "=" in value:
        value = dict(part.partition("=")[::2] for part in value.replace(" ", "").split(","))
    if not isinstance(value, Mapping):
        return Exactly(_seconds(value))
    if not value.keys() <= {"p50", "p90"} or "p50" not in value:
        raise DurationError(f"{dict(value)!s:.{_SHOWN}} is no duration: {_EXPECTED}")
    p50 = _seconds(value["p50"])
    p90 = _seconds(value.get("p90", value["p50"]))
    if p90 < p50:
        raise DurationError(f"p90 {value['p90']} is less than p50 {value['p50']}")
    return Lognormal.of(p50, p90) if p90 > p50 else Exactly(p50)


def _seconds(value: object) -> float:
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        try:
            text = value.strip()
            seconds = float(text) if text.replace(".", "", 1).isdecimal() else texts.parse(text)
        except ValueError:
            pass
    if not 0 < seconds <= _MOST:
        raise DurationError(f"{value!s:.{_SHOWN}} is no duration: {_EXPECTED}")
    return seconds


class ExpectedRunTimes:
    """How long the pods of a snapshot run. Pods are remembered by their uid, so one of them costs little again.

    `given`: by workload (`job default/train`, `pod default/a`, or a pattern such as `job default/train-*`). `seen`: the
    seconds that pods of a history ran, by what pods have in common (`run_time_groups`).

    Attributes:
        problems: what can't be read, one line each.
        now: the time of the snapshot, in seconds since the epoch.
    """

    def __init__(
        self, snapshot: Snapshot, now: float, given: Mapping[str, Any], seen: Mapping[str, Sequence[float]]
    ) -> None:
        self.problems: list[str] = []
        self._snapshot = snapshot
        self.now = now
        self._given: dict[str, RunTime] = {}
        for key, value in given.items():
            try:
                self._given[_workload(key)] = run_time_of(value)
            except DurationError as error:
                self.problems.append(f"durations: {key:.{_SHOWN}}: {error}")
        self._patterns = [key for key in self._given if any(sign in key for sign in "*?[")]
        self._seen = {key: Seen.of(seconds) for key, seconds in seen.items() if seconds}
        self._used: set[str] = set()
        self._known: dict[str, PodDuration | None] = {}
        self._deadlines: dict[str, tuple[float, float] | None] = {}

    def of(self, pod: PodInfo) -> PodDuration | None:
        """Return how long a pod runs in total; None if nothing says that, so that it never ends."""
        uid = pod.uid.partition("+")[0]  # what replaces an evicted pod runs as long
        if uid not in self._known:
            self._known[uid] = self._find(pod)
        return self._known[uid]

    def unused(self) -> Iterator[str]:
        """Yield a line for each workload that was given and has no pod that was asked about."""
        for key in self._given:
            if key not in self._used:
                yield f"durations: {key:.{_SHOWN}}: no pod here belongs to it"

    def _find(self, pod: PodInfo) -> PodDuration | None:
        bound = self._bound(pod)
        for source, run_time in self._sources(pod):
            return PodDuration(source, run_time if bound is None else AtMost(bound, run_time))
        return None if bound is None else PodDuration(SOURCES[3], AtMost(bound))

    def _sources(self, pod: PodInfo) -> Iterator[tuple[str, RunTime]]:
        text = pod.annotations.get(texts.EXPECTED_DURATION)
        if text is not None:
            try:
                yield SOURCES[0], run_time_of(text)
            except DurationError as error:
                self.problems.append(f"pod {pod.key}: annotation {texts.EXPECTED_DURATION}: {error}")
        if self._given and (key := self._given_key(pod)) is not None:
            self._used.add(key)
            yield SOURCES[1], self._given[key]
        for group in run_time_groups(pod) if self._seen else ():
            if (seen := self._seen.get(group)) is not None:
                yield SOURCES[2], seen

    def _given_key(self, pod: PodInfo) -> str | None:
        names = [f"pod {pod.key}", *(f"{kind.lower()} {pod.namespace}/{name}" for kind, name in owners_of(pod))]
        exact = next((name for name in names if name in self._given), None)
        if exact is not None:
            return exact
        return next((key for key in self._patterns if any(fnmatchcase(name, key) for name in names)), None)

    def _bound(self, pod: PodInfo) -> float | None:
        """The longest that a pod may run: by its own deadline, or by that of its Job, which begins with the Job."""
        own = pod.spec.activeDeadlineSeconds
        bounds = [] if own is None else [float(own)]
        job = next((name for kind, name in owners_of(pod) if kind == JOB.kind), None)
        deadline = None if job is None else self._deadline(f"{pod.namespace}/{job}")
        if deadline is not None:
            began, seconds = deadline
            bounds.append(max(began + seconds - pod.started, 1.0) if pod.started < math.inf else seconds)
        return min(bounds, default=None)

    def _deadline(self, job: str) -> tuple[float, float] | None:
        """When a Job began, and after how many seconds it is ended."""
        if job not in self._deadlines:
            document = self._snapshot.document(JOB, job) or {}
            seconds = (document.get("spec") or {}).get("activeDeadlineSeconds")
            began = (document.get("status") or {}).get("startTime")
            found = None
            if isinstance(seconds, int) and seconds > 0:
                found = (self.now if began is None else _second(began), float(seconds))
            self._deadlines[job] = found
        return self._deadlines[job]


def _second(time: str) -> float:
    """A time of an object, in seconds since the epoch."""
    return with_zone(datetime.fromisoformat(time)).timestamp()


def _workload(key: object) -> str:
    """A workload as `owners_of` calls it: `job default/train`, from this or `Job/train` or `job/default/train`."""
    words = str(key).strip().replace(" ", "/").split("/")
    if len(words) not in {2, 3} or not all(words):
        raise DurationError("expected TYPE NAMESPACE/NAME, as in job default/train")
    kind, *place = words
    namespace, name = place if len(place) == 2 else ("default", *place)
    return f"{kind.lower()} {namespace}/{name}"
