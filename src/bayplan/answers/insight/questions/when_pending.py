"""when for all pending pods: a table of their starts, of the same runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.forecast import NEVER, Forecast, ForecastRun, ForecastSetting
from bayplan.answers.insight.questions.starts import (
    Known,
    StartTimes,
    clock,
    likely_nodes,
    runs_of,
    times_of,
    waited_for,
)
from bayplan.answers.insight.tables import labelled, table
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PodStart:
    """When a pod starts. `node`: the most likely one. `waits_for`: the pods whose end lets it, likely ones first."""

    pod: str
    start: StartTimes
    node: str | None
    waits_for: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the start as in docs/when.md."""
        return {**fields_of(self, "start"), **fields_of(self.start)}


@dataclass(frozen=True, slots=True)
class PendingStarts(Answer):
    """When each pending pod starts, the first one first. See `When`."""

    pods: tuple[PodStart, ...]
    runs: int
    known: Known
    notes: tuple[str, ...] = ()
    shown: int = 20
    stopped: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether the answer is of fewer runs than were wanted."""
        return self.stopped

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/when.md."""
        return {**fields_of(self, "known", "stopped"), **self.known.fields(stopped=self.stopped)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pod."""
        return [each.to_dict() for each in self.pods]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, and the table of pods."""
        later = sum(each.start.p50 is not None for each in self.pods)
        begin = f"{INTERRUPTED}: " if self.stopped else ""
        headline = f"{begin}{later:,} of {plural(len(self.pods), 'pending pod')} will start, as far as is foreseen"

        def row(each: PodStart) -> Sequence[str]:
            start = each.start
            waits = next(iter(each.waits_for), "-")
            return each.pod, clock(start.p50), clock(start.p10), clock(start.p90), each.node or "-", waits

        titles = ("POD", "STARTS", "1 OF 10 BY", "9 OF 10 BY", "NODE", "WAITS FOR")
        limit = 0 if wide else self.shown
        pods = table(titles, self.pods, row, limit)
        lines = [Text(), Text(f"{self.known.text}; {plural(self.runs, 'run')}")]
        lines += labelled("note", self.notes, limit)
        return Lines(Text(headline, style="bold"), pods, *lines)


def when_pending(
    world: World,
    setting: ForecastSetting,
    pods: Sequence[PodInfo],
    notes: Sequence[str],
    *,
    seed: int,
    shown: int,
    progress: Progress,
) -> PendingStarts:
    """Return when pending pods of a world start."""
    uids = [pod.uid for pod in pods]

    def told(runs: Sequence[ForecastRun]) -> None:
        later = sum(2 * sum(uid in run.starts for run in runs) > len(runs) for uid in uids)
        progress(f"{plural(len(runs), 'run')}: {later:,} of {plural(len(uids), 'pod')} start")

    forecast = Forecast(world, setting, uids, progress)
    runs, stopped = runs_of(forecast, seed, setting.runs, told) if uids else ([], False)
    known = Known.of(world, setting.durations)
    starts = [_start(pod, runs) for pod in pods]
    lines = [*notes, *setting.durations.problems, *setting.durations.unused()]
    return PendingStarts(
        tuple(sorted(starts, key=_order)), len(runs), known, tuple(dict.fromkeys(lines)), shown, stopped
    )


def _start(pod: PodInfo, runs: Sequence[ForecastRun]) -> PodStart:
    start, _ = times_of(runs, [pod.uid])
    node = next((each.node for each in likely_nodes(runs, [pod.uid])), None)
    waits = tuple(each.pod for each in waited_for(runs, [pod.uid], lambda _: ""))
    return PodStart(pod.key, start, node, waits)


def _order(each: PodStart) -> tuple[float, float, str]:
    start = each.start
    return (NEVER if start.p50 is None else start.p50, NEVER if start.p90 is None else start.p90, each.pod)
