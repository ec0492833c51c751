"""What replays of a recording have found, as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import Answer
from bayplan.answers.replay.replay import Replayed


@dataclass(frozen=True, slots=True)
class Replays(Answer):
    """What the replay of each run of a recording has found: whether all decisions are made again."""

    runs: tuple[Replayed, ...]

    def to_dict(self) -> dict[str, Any]:
        """See Answer."""
        return {"runs": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """See Answer."""
        return [msgspec.to_builtins(run) for run in self.runs]

    def render(self, *, wide: bool = False) -> RenderableType:
        """See Answer."""
        del wide  # each line is shown in full
        return Group(*(Text(line) for run in self.runs for line in _told(run)))


def _told(found: Replayed) -> list[str]:
    """What a replay has found, also if it couldn't begin."""
    begun = found.decisions > found.before or found.difference is not None or not found.problem
    return [*(lines_of(found) if begun else ()), *([found.problem] if found.problem else ())]


def lines_of(found: Replayed, seconds: float = 0.0) -> list[str]:
    """What a replay has found, for people. It has begun. `seconds`: how long it took; 0 if that isn't to be told."""
    began, ended = found.began, found.ended or found.began
    assert began is not None
    assert ended is not None
    length = ended - began
    span = f"from {began:%Y-%m-%d %H:%M:%S} to {ended:%H:%M:%S} UTC"
    difference = found.difference
    if difference is not None:
        when = f"{difference.time:%Y-%m-%d %H:%M:%S.%f} UTC"
        return [
            f"decision {difference.number:,} differs, that about pod {difference.pod} at {when}",
            f"  recorded: {difference.recorded}",
            f"  replayed: {difference.replayed}",
            *(f"  cause: {cause}" for cause in difference.causes),
        ]
    count = found.decisions - found.before
    lines = [f"{count:,} decisions {span}: all are the same" if count else f"no decision was made {span}"]
    lines.append(f"  at the end: {found.nodes:,} nodes, {found.pods:,} pods on them")
    if seconds and length.total_seconds() > 1:
        lines.append(
            f"  {timedelta(seconds=int(length.total_seconds()))} in {seconds:.2f} s: "
            f"{length.total_seconds() / seconds:,.0f} times as fast as it happened"
        )
    if not found.complete and not found.problem:
        lines.append("  the recording ends without the scheduler's end: it was killed, or it still runs")
    return lines
