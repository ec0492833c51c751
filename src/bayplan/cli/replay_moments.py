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
from bayplan.cli.insight.messages import fail

if TYPE_CHECKING:
    from bayplan.insight import Snapshot
    from bayplan.recording.files import Recording
    from bayplan.replay.moments import RecordedDecision
    from bayplan.replay.policies import Policy
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
    from bayplan.replay.moments import decisions_of, uids_of

    until = None if wanted.until is None else time_in(runs[0], wanted.until, wanted.option)
    found, last = None, None
    for run in runs:
        victims = frozenset() if wanted.preemption_of is None else uids_of(run, wanted.preemption_of)
        for decided in decisions_of(run):
            last = decided
            late = until is not None and decided.time > until
            if wanted.pod is None and wanted.preemption_of is None:
                if late:
                    return decided
            elif not late and ((wanted.pod and decided.of(wanted.pod)) or decided.victims & victims):
                found = decided
    if found is None:
        _fail_without(runs, wanted, until, last)
    return found


def _fail_without(
    runs: Sequence[Recording], wanted: WantedMoment, until: datetime | None, last: RecordedDecision | None
) -> NoReturn:
    what, when = "no decision", "" if until is None else f" before {until:%Y-%m-%d %H:%M:%S} UTC"
    if wanted.pod:
        what = f"no decision about pod {wanted.pod}"
    elif wanted.preemption_of:
        what = f"no decision that evicts pod {wanted.preemption_of}"
    else:
        when = when.replace("before", "after")
    began = runs[0].manifest.began
    if last is None or began is None:
        fail(f"{runs[0].source} has no decisions")
    span = f"it goes from {began:%Y-%m-%d %H:%M:%S} to {last.time:%Y-%m-%d %H:%M:%S} UTC"
    fail(f"the recording has {what}{when}; {span}")


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
        why = found.problem or "a decision before it can't be made again"
        fail(f"decision {decided.number:,} can't be reached: {why}; `bayplan replay {run.source}` says more")
    return reached[0]
