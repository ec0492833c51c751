"""The options that name a moment of a recording, and the replay up to there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bayplan.api.times import time_meant
from bayplan.cli.insight.cluster_options import with_options
from bayplan.cli.insight.messages import fail, warn

if TYPE_CHECKING:
    from bayplan.insight import Snapshot
    from bayplan.recording.files import Recording
    from bayplan.replay.moments import RecordedDecision
    from bayplan.replay.policies import Policy
    from bayplan.replay.recorded_plugins import NamedPlugins
    from bayplan.replay.replay import Moment


@dataclass(frozen=True, slots=True)
class WantedMoment:
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


def moment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets `wanted`, a `WantedMoment`."""

    @functools.wraps(command)
    def call(*arguments: Any, until: str | None, pod: str | None, preemption_of: str | None, **others: Any) -> Any:
        if pod and preemption_of:
            raise click.UsageError("--pod and --preemption-of: expected only one of them")
        return command(*arguments, wanted=WantedMoment(until, qualified(pod), qualified(preemption_of)), **others)

    return with_options(call, _OPTIONS)


_OPTIONS = (
    click.option(
        "--until", metavar="TIME", help="Stop before the first decision after TIME: 2026-03-02T03:12:00Z, or 03:12."
    ),
    click.option("--pod", metavar="POD", help="Stop before the last decision about POD ([NAMESPACE/]NAME)."),
    click.option(
        "--preemption-of", metavar="POD", help="Stop before the decision that evicted POD ([NAMESPACE/]NAME)."
    ),
)


def qualified(pod: str | None) -> str | None:
    """`namespace/name` of a pod: the namespace is `default` if none is given."""
    return pod if pod is None or "/" in pod else f"default/{pod}"


def time_in(recording: Recording, text: str, option: str) -> datetime:
    """A time that the user gave: with a date, or the first time of that kind since the recording began, in UTC."""
    try:
        return time_meant(text, recording.manifest.began or datetime.now(UTC))
    except ValueError as error:
        fail(f"{option} {text!r}: {error}")


def find(runs: Sequence[Recording], wanted: WantedMoment) -> RecordedDecision:
    """The decision that is meant. Ends the process with status 2 if the recording has none."""
    from bayplan.recording.files import RecordingError
    from bayplan.replay.evictions import EvictionsOf
    from bayplan.replay.moments import decisions_of

    until = None if wanted.until is None else time_in(runs[0], wanted.until, wanted.option)
    found, last, problem = None, None, ""
    for run in runs:
        evictions = None if wanted.preemption_of is None else EvictionsOf(wanted.preemption_of)
        try:
            for decided in decisions_of(run, *(() if evictions is None else (evictions.take,))):
                last = decided
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
        fail(problem or f"{runs[0].source} has no decisions")
    if problem:
        warn([problem])
    if found is None:
        _fail_without(runs, wanted, until, last)
    return found


def _fail_without(
    runs: Sequence[Recording], wanted: WantedMoment, until: datetime | None, last: RecordedDecision
) -> NoReturn:
    what, when = "no decision", "" if until is None else f" before {until:%Y-%m-%d %H:%M:%S} UTC"
    if wanted.pod:
        what = f"no decision about pod {wanted.pod}"
    elif wanted.preemption_of:
        what = f"no decision that evicts pod {wanted.preemption_of}"
    else:
        when = when.replace("before", "after")
    began = runs[0].moment(runs[0].manifest.monotonic)
    span = f"it goes from {began:%Y-%m-%d %H:%M:%S} to {last.time:%Y-%m-%d %H:%M:%S} UTC"
    fail(f"the recording has {what}{when}; {span}")


def cluster_before(run: Recording, decided: RecordedDecision | None, named: NamedPlugins) -> Snapshot:
    """The cluster before a decision of a run; None: at its end. Raises RecordingError or PluginLoadError.

    If the user doesn't name the plugins of the run, it is the cluster as it was reported, and a warning says so.
    """
    from bayplan.replay.moments import snapshot_at_end
    from bayplan.replay.policies import recorded_policy
    from bayplan.replay.reported import reported_cluster

    if named.lacks(run):
        missing = f"{run.source} was recorded with plugins that --plugin doesn't name"
        warn([f"{missing}: the cluster is as it was reported, and pods that were being bound count as placed"])
        return reported_cluster(run, decided)
    if decided is None:
        return snapshot_at_end(recorded_policy(run, named).replay(run))
    return stop_before(recorded_policy(run, named), decided)[1]


def stop_before(policy: Policy, decided: RecordedDecision) -> tuple[Moment, Snapshot]:
    """Replay up to a decision, from the segment that it is in. Returns it, and what the scheduler knew then."""
    from bayplan.replay.moments import snapshot_at

    reached: list[tuple[Moment, Snapshot]] = []
    run = decided.run

    def visit(moment: Moment) -> bool:
        if moment.number < decided.number:
            return False
        source = f"{run.source} at {moment.time:%H:%M:%S}"
        reached.append((moment, snapshot_at(moment.scheduler, moment.time, source)))
        return True

    found = policy.replay(run).run(visit, segment=decided.segment)
    if not reached:
        fail(f"decision {decided.number:,} can't be reached: {found.why}")
    return reached[0]
