"""The moment of a recording that a user means: which decision that is, and the cluster just before it.

`--pod`, `--at` and others name it; it is found without a replay, and then the run is replayed from the segment that it
is in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.replay.evictions import EvictionsOf
from bayplan.answers.replay.moments import RecordedDecision, decisions_of, snapshot_at, snapshot_at_end
from bayplan.answers.replay.policies import Policy, recorded_policy
from bayplan.answers.replay.recorded_plugins import NamedPlugins
from bayplan.answers.replay.replay import Moment
from bayplan.answers.replay.reported import reported_cluster
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.api.times import time_meant
from bayplan.running.recording.files import Recording, RecordingError

_MOST_NAMES = 10_000
"""The most names of pods among which a similar one is looked for."""

Warn = Callable[[Iterable[str]], None]
"""Gets warnings, one line each."""


class MomentError(RecordingError):
    """A recording lacks the moment that is meant. The message is for the user."""


def unsaid(_: Iterable[str]) -> None:
    """Report no warnings."""


@dataclass(frozen=True, slots=True)
class DecisionSelector:
    """Which moment is meant: the last one before `until` at which `pod` was decided about, or evicted."""

    until: str | None = None
    pod: str | None = None
    preemption_of: str | None = None
    option: str = "--until"
    """The option that named the time."""

    @property
    def given(self) -> bool:
        """Whether a moment is named."""
        return bool(self.until or self.pod or self.preemption_of)


def qualified(pod: str | None) -> str | None:
    """`namespace/name` of a pod: the namespace is `default` if none is given."""
    return pod if pod is None or "/" in pod else f"default/{pod}"


def time_in(recording: Recording, text: str, option: str) -> datetime:
    """A time that the user gave: with a date, or the first time of that kind since the recording began, in UTC."""
    try:
        return time_meant(text, recording.manifest.began or datetime.now(UTC))
    except ValueError as error:
        raise MomentError(f"{option} {text!r}: {error}") from None


def find(
    runs: Sequence[Recording], wanted: DecisionSelector, warn: Warn = unsaid, progress: Progress = silent
) -> RecordedDecision:
    """The decision that is meant. Raises MomentError if the recording has none.

    `warn` gets why a run can't be read to its end, if the decision is before that.
    """
    until = None if wanted.until is None else time_in(runs[0], wanted.until, wanted.option)
    found, last, problem = None, None, ""
    names: dict[str, None] = {}
    for run in runs:
        evictions = None if wanted.preemption_of is None else EvictionsOf(wanted.preemption_of)
        try:
            for decided in decisions_of(run, *(() if evictions is None else (evictions.take,))):
                last = decided
                if len(names) < _MOST_NAMES:
                    names.update((pod.key, None) for pod in decided.pods)
                progress("reading the recording")
                late = until is not None and decided.time > until
                if wanted.pod is None and wanted.preemption_of is None:
                    if late:
                        return decided
                elif not late and wanted.pod and decided.of(wanted.pod):
                    found = decided
        except RecordingError as error:
            problem = problem or str(error)
        if evictions is not None:
            found = evictions.last(until) or found
    if last is None:
        raise MomentError(problem or f"{runs[0].source} has no decisions")
    if problem:
        warn([problem])
    if found is None:
        raise MomentError(_without(runs, wanted, until, last, names))
    return found


def _without(
    runs: Sequence[Recording],
    wanted: DecisionSelector,
    until: datetime | None,
    last: RecordedDecision,
    names: Collection[str],
) -> str:
    """Why there is no such decision. `names`: those of pods that were decided about."""
    what, when = "no decision", "" if until is None else f" before {until:%Y-%m-%d %H:%M:%S} UTC"
    if wanted.pod:
        hint = "" if wanted.pod in names else did_you_mean(wanted.pod, names)
        what = f"no decision about pod {wanted.pod}{hint}"
    elif wanted.preemption_of:
        what = f"no decision that evicts pod {wanted.preemption_of}"
    else:
        when = when.replace("before", "after")
    began = runs[0].date_of(runs[0].manifest.monotonic)
    span = f"it goes from {began:%Y-%m-%d %H:%M:%S} to {last.time:%Y-%m-%d %H:%M:%S} UTC"
    return f"the recording has {what}{when}; {span}"


def cluster_before(
    run: Recording,
    decided: RecordedDecision | None,
    named: NamedPlugins,
    warn: Warn = unsaid,
    progress: Progress = silent,
) -> Snapshot:
    """The cluster before a decision of a run; None: at its end. Raises RecordingError or PluginLoadError.

    If the user doesn't name the plugins of the run, it is the cluster as it was reported. `warn` gets that, and what
    plugins begin without.
    """
    if named.lacks(run):
        missing = f"{run.source} was recorded with plugins that --plugin doesn't name"
        warn([f"{missing}: the cluster is as it was reported, and pods that were being bound count as placed"])
        return reported_cluster(run, decided)
    if decided is None:
        return snapshot_at_end(recorded_policy(run, named).replay(run), warn)
    return stop_before(recorded_policy(run, named), decided, progress, warn)[1]


def stop_before(
    policy: Policy, decided: RecordedDecision, progress: Progress = silent, warn: Warn = unsaid
) -> tuple[Moment, Snapshot]:
    """Replay up to a decision, from the segment that it is in. Returns it, and what the scheduler knew then.

    `warn`: gets what plugins begin without. Raises MomentError if that can't be reached.
    """
    reached: list[tuple[Moment, Snapshot]] = []
    run = decided.run

    def visit(moment: Moment) -> bool:
        progress(f"replaying decision {moment.number:,} of {decided.number:,}")
        if moment.number < decided.number:
            return False
        source = f"{run.source} at {moment.time:%H:%M:%S}"
        reached.append((moment, snapshot_at(moment.scheduler, moment.time, source)))
        return True

    found = policy.replay(run).run(visit, segment=decided.segment)
    warn(found.notes)
    if not reached:
        raise MomentError(f"decision {decided.number:,} can't be reached: {found.why}")
    return reached[0]
