"""What replays of a recording have found, as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import Answer
from bayplan.answers.replay.candidates import OtherDecisions
from bayplan.answers.replay.moments import RecordedDecision
from bayplan.answers.replay.replay import Replayed


@dataclass(frozen=True, slots=True)
class Replays(Answer):
    """What the replay of each run of a recording has found: whether all decisions are made again."""

    runs: tuple[Replayed, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result of each run."""
        return {"runs": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per run."""
        return [msgspec.to_builtins(run) for run in self.runs]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return what each run has shown, line by line."""
        del wide  # each line is shown in full
        return Group(*(Text(line) for run in self.runs for line in _summary_of(run)))


@dataclass(frozen=True, slots=True)
class StoppedBefore(Answer):
    """A replay that stopped before a decision: what was decided then. `notes`: what else is to know."""

    decided: RecordedDecision
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """See Answer."""
        return {"number": self.decided.number, "time": self.decided.time.isoformat(), "decisions": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """See Answer."""
        return [{"pod": each.key, "decided": self.decided.describe(each)} for each in self.decided.pods]

    def render(self, *, wide: bool = False) -> RenderableType:
        """See Answer."""
        del wide  # each line is shown in full
        number, time = self.decided.number, self.decided.time
        pods = (f"  pod {each['pod']}: {each['decided']}" for each in self.rows())
        first = f"before decision {number:,}, at {time:%Y-%m-%d %H:%M:%S.%f} UTC"
        return Group(*map(Text, (first, *pods, *self.notes)))


@dataclass(frozen=True, slots=True)
class OtherReplay(Answer):
    """What another policy would have decided at the moments of one run of a recording.

    `problem`: why the run could not be read to its end. `shown`: the most differences in a table; 0 for all.
    """

    found: OtherDecisions
    problem: str = ""
    shown: int = 20

    def to_dict(self) -> dict[str, Any]:
        """See Answer."""
        document: dict[str, Any] = msgspec.to_builtins(self.found)
        return document

    def rows(self) -> list[dict[str, Any]]:
        """See Answer."""
        return [msgspec.to_builtins(each) for each in self.found.differences]

    def render(self, *, wide: bool = False) -> RenderableType:
        """See Answer."""
        return Group(*map(Text, _other_lines(self.found, 0 if wide else self.shown)))


@dataclass(frozen=True, slots=True)
class OtherReplays(Answer):
    """What another policy would have decided at the moments of each run of a recording."""

    runs: tuple[OtherReplay, ...]

    def to_dict(self) -> dict[str, Any]:
        """See Answer."""
        return {"runs": [{**run.to_dict(), "problem": run.problem} for run in self.runs]}

    def rows(self) -> list[dict[str, Any]]:
        """See Answer."""
        return [row for run in self.runs for row in run.rows()]

    def render(self, *, wide: bool = False) -> RenderableType:
        """See Answer."""
        parts = ((run.render(wide=wide), *([Text(run.problem)] if run.problem else [])) for run in self.runs)
        return Group(*(each for part in parts for each in part))


def _other_lines(found: OtherDecisions, limit: int) -> list[str]:
    lines = [
        f"{found.asked:,} pods were decided about. The other policy would have",
        f"  chosen the same node, or one as good:  {found.same:>9,}{_share(found.same, found.asked)}",
        f"  chosen another node:                   {found.other_node:>9,}{_share(found.other_node, found.asked)}",
        f"  placed pods that were not placed:      {found.placed:>9,}{_share(found.placed, found.asked)}",
        f"  not placed pods that were placed:      {found.not_placed:>9,}{_share(found.not_placed, found.asked)}",
    ]
    if found.no_profile:
        lines.append(f"  no profile for them:                   {found.no_profile:>9,}")
    shown = found.differences[: limit or None]
    lines += [f"{each.time:%H:%M:%S} pod {each.pod}: {each.recorded} -> {each.other}" for each in shown]
    more = found.other_node + found.placed + found.not_placed - len(shown)
    if more:
        lines.append(f"... and {more:,} more; --limit 0 shows them")
    return lines


def _share(part: int, whole: int) -> str:
    return f"  {part / whole:.1%}" if whole else ""


def _summary_of(found: Replayed) -> list[str]:
    """What a replay has found, also if it couldn't begin."""
    begun = found.decisions > found.before or found.difference is not None or not found.problem
    return [*(lines_of(found) if begun else ()), *([found.problem] if found.problem else ())]


def lines_of(found: Replayed, seconds: float = 0.0) -> list[str]:
    """What a replay has found, for people. It has begun. `seconds`: how long it took; 0 to leave it out."""
    began, ended = found.began, found.ended or found.began
    assert began is not None
    assert ended is not None
    length = ended - began
    span = f"from {began:%Y-%m-%d %H:%M:%S} to {ended:%H:%M:%S} UTC"
    notes = [f"  at the begin: {note}" for note in found.notes]
    difference = found.difference
    if difference is not None:
        when = f"{difference.time:%Y-%m-%d %H:%M:%S.%f} UTC"
        return [
            f"decision {difference.number:,} differs, that about pod {difference.pod} at {when}",
            f"  recorded: {difference.recorded}",
            f"  replayed: {difference.replayed}",
            *(f"  cause: {cause}" for cause in difference.causes),
            *notes,
        ]
    count = found.decisions - found.before
    lines = [f"{count:,} decisions {span}: all are the same" if count else f"no decision was made {span}"]
    lines += [*notes, f"  at the end: {found.nodes:,} nodes, {found.pods:,} pods on them"]
    if seconds and length.total_seconds() > 1:
        lines.append(
            f"  {timedelta(seconds=int(length.total_seconds()))} in {seconds:.2f} s: "
            f"{length.total_seconds() / seconds:,.0f} times as fast as it happened"
        )
    if not found.complete and not found.problem:
        lines.append("  the recording ends without the scheduler's end: it was killed, or it still runs")
    return lines
