"""What a person sees of a shadow: a line for each difference, a summary in one line, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer, plural
from bayplan.answers.shadow.comparisons import ShadowCause, ShadowComparison, ShadowOutcome, ShadowSubject, ShadowTally
from bayplan.answers.shadow.record import ShadowRecord

_SHOWN = 15
"""How many differences a table shows."""
_LATE = 1.0
"""From how many seconds on it is said that a shadow is behind the cluster."""
_THEIRS = {
    ShadowSubject.BINDING: "bound to {}",
    ShadowSubject.NOMINATION: "nominated for {}",
    ShadowSubject.FAILURE: "found no node",
}


def line_of(found: ShadowComparison) -> str:
    """Return a comparison as one line."""
    theirs = _THEIRS[found.subject].format(found.theirs)
    return f"{found.time.astimezone():%H:%M:%S} pod {found.pod}: {theirs}; Bayplan: {_ours(found)}{_why(found)}"


def _ours(found: ShadowComparison) -> str:
    if found.outcome is ShadowOutcome.NOT_PLACED:
        return f"no node ({found.reason})" if found.reason else "no node"
    if found.subject is ShadowSubject.FAILURE and found.outcome is ShadowOutcome.SAME:
        return "no node, too"
    if found.outcome is ShadowOutcome.BEST:
        return f"{found.ours}, as good"
    if found.outcome is ShadowOutcome.SAME:
        return "the same"
    return f"{found.ours}{_better(found)}"


def _better(found: ShadowComparison) -> str:
    if found.difference is not None:
        plugins = ", ".join(f"{name} {number:+}" for name, number in found.plugins)
        return f", {plural(found.difference, 'point')} better" + (f" ({plugins})" if plugins else "")
    if found.our_victims != found.their_victims:
        return (
            f", which evicts {', '.join(found.our_victims) or 'nothing'}, not {', '.join(found.their_victims) or '?'}"
        )
    return f", because {found.theirs}: {found.reason}" if found.reason and found.theirs else ""


def _why(found: ShadowComparison) -> str:
    if found.cause is ShadowCause.NONE:
        return ""
    absent = "" if found.equal else "".join(f"; {each.problem}" for each in found.feeds if each.problem)
    return f"; cause: {found.cause.value}" + (f", {found.between}" if found.between else "") + absent


def summary(tally: ShadowTally, late: float = 0.0) -> str:
    """Return the counts as one line. `late`: how many seconds the shadow is behind the cluster."""
    share = tally.share()
    behind = f"; {late:.0f} s behind the cluster" if late >= _LATE else ""
    if share is None:
        return "nothing was compared yet" + (f"; {tally.missed:,} missed" if tally.missed else "") + behind
    parts = [f"{tally.equal():,} of {plural(tally.total(), 'decision')} equal ({percent(share)})"]
    different = tally.total() - tally.equal()
    if different:
        parts.append(f"{different:,} different: {', '.join(_by_cause(tally))}")
    races = sum(each.number for each in tally.counts if each.cause is ShadowCause.RACE)
    if races:
        parts.append(f"{races:,} equal in an earlier or later state")
    if tally.missed:
        parts.append(f"{tally.missed:,} missed")
    parts += [each.text for each in tally.absences]
    return "; ".join(parts) + behind


def _by_cause(tally: ShadowTally) -> Iterator[str]:
    for cause in ShadowCause:
        number = sum(
            each.number
            for each in tally.counts
            if each.cause is cause and each.outcome not in {ShadowOutcome.SAME, ShadowOutcome.BEST}
        )
        if number:
            yield f"{number:,} {cause.value or 'without a cause'}"


def percent(share: float) -> str:
    """Return a share for people: 100% only for all, so that a rare difference shows."""
    text = f"{share:.2%}"
    return text if share == 1 or text != "100.00%" else ">99.99%"


@dataclass(frozen=True, slots=True)
class ShadowReport(Answer):
    """What a shadow has found, as tables, JSON and HTML."""

    record: ShadowRecord
    shown: int = _SHOWN
    late: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the shares, and the differences that were kept."""
        tally = self.record.tally
        shares = {subject.value: tally.share(subject) for subject in ShadowSubject}
        return {"share": tally.share(), "shares": shares, **msgspec.to_builtins(self.record)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each subject, outcome and cause."""
        total = self.record.tally.total()
        return [
            {
                "subject": each.subject.value,
                "bayplan": each.outcome.value,
                "cause": each.cause.value,
                "number": each.number,
                "share": percent(each.number / total),
            }
            for each in sorted(self.record.tally.counts, key=lambda each: (each.subject, -each.number))
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the counts and the latest differences; with `wide`, all that were kept."""
        differences = self.record.differences
        shown = differences[::-1] if wide else differences[: -self.shown - 1 : -1]
        parts: list[RenderableType] = [
            Text(f"{', '.join(self.record.schedulers)}: {summary(self.record.tally, self.late)}")
        ]
        parts += [Text(each.text) for each in self.record.guesses]
        parts += [Text(f"The last time: {each.problem}") for each in self.record.tally.absences]
        if rows := self.rows():
            parts.append(_table(rows, "number", "share"))
        if shown:
            parts.append(_table([_row(each) for each in shown], "better", "margin"))
        return Group(*parts)


def because_of(found: ShadowComparison) -> str:
    """Return why a comparison differs: the event that came between, a reason, or the plugins whose scores differ."""
    return found.between or found.reason or ", ".join(f"{name} {number:+}" for name, number in found.plugins)


def _row(found: ShadowComparison) -> dict[str, Any]:
    return {
        "time": f"{found.time.astimezone():%H:%M:%S}",
        "pod": found.pod,
        "decision": found.subject.value,
        "node": found.theirs or "-",
        "bayplan": found.ours or "-",
        "better": "-" if found.difference is None else found.difference,
        "margin": "-" if found.margin is None else found.margin,
        "cause": found.cause.value,
        "because": because_of(found),
    }


def _table(rows: Sequence[dict[str, Any]], *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name.upper(), justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(f"{each:,}" if isinstance(each, int) else str(each)) for each in row.values()))
    return table
