"""Calibration: how well the simulation of *now* matches the history.

Before a candidate is believed, the scheduler of now is simulated and asked for its recorded decisions again. Answers
show both, and `faults` says what does not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.answers.backtest.shown import amount, seconds
from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.meter import Summary

GOOD_PLACEMENTS = 0.9
"""A smaller share of equal decisions is a poor match."""
GOOD_NODES = 0.1
"""A larger relative difference of the node count curves is a poor match."""
_SLACK = 1.5
"""Seconds by which waits may differ, besides 50 %: a history has whole seconds."""
_FEW = 3
_FEW_OF_ALL = 0.005
"""Numbers of pods may differ by so many or by so large a share of all pods, besides a share of themselves."""
_EVICTIONS, _NEVER_PLACED = 0.25, 0.5
"""The shares by which the numbers of evictions and of pods that are never placed may differ."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well the simulation of *now* matches the history.

    `equal_decisions`: the share of recorded decisions, of `asked`, where the scheduler chooses the recorded node or
    one that is as good; None if there were none. `node_difference`: by how much the number of nodes differs, on
    average, as a share of the recorded number. Waits are in seconds. Evictions are those by the scheduler: others,
    such as drains, are inputs of the simulation. What is simulated is the median of all seeds; what is recorded and
    between the lowest and the highest of them matches.
    """

    equal_decisions: float | None
    asked: int
    node_difference: float
    recorded_wait_p95: float | None
    simulated_wait_p95: float | None
    recorded_wait_p99: float | None
    simulated_wait_p99: float | None
    recorded_evictions: int
    simulated_evictions: int
    recorded_never_placed: int
    simulated_never_placed: int
    differing: tuple[str, ...] = ()
    """What does not match besides decisions and nodes, for people."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Each figure of the simulation that differs from the history by more than it may, as a line for people."""
        return tuple(self._faults())

    def _faults(self) -> Iterator[str]:
        if self.equal_decisions is not None and self.equal_decisions < GOOD_PLACEMENTS:
            yield f"only {self.equal_decisions:.0%} of the recorded decisions are equal"
        if self.node_difference > GOOD_NODES:
            yield f"the number of nodes differs by {self.node_difference:.0%}"
        yield from self.differing

    def __str__(self) -> str:
        if self.equal_decisions is None:
            nodes = f"nodes within {self.node_difference:.1%}"
            return f"No match can be shown: no decision was recorded, so now is only simulated; {nodes}."
        equal = f"{self.equal_decisions:.0%} of {plural(self.asked, 'recorded decision')} equal"
        waits = (
            f"wait p95 {seconds(self.recorded_wait_p95)}, simulated {seconds(self.simulated_wait_p95)}; "
            f"p99 {seconds(self.recorded_wait_p99)}, simulated {seconds(self.simulated_wait_p99)}"
        )
        pods = (
            f"evictions {amount(self.recorded_evictions)}, simulated {amount(self.simulated_evictions)}; "
            f"never placed {amount(self.recorded_never_placed)}, simulated {amount(self.simulated_never_placed)}"
        )
        shown = f"{equal}; nodes within {self.node_difference:.1%}; {waits}; {pods}"
        if self.faults:
            return f"Poor match: the simulation of now is not like the history: {'; '.join(self.faults)}. ({shown})"
        return f"Good match: the simulation of now is like the history: {shown}."

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, and what does not match."""
        return {**fields_of(self, "differing"), "faults": list(self.faults)}


def calibrated(
    recorded: Summary, simulated: Summary, all_simulated: Sequence[Summary], share: float | None, asked: int
) -> Calibration:
    """Compare what was recorded with the median of simulations. `share`: that of `asked` decisions that are equal."""
    return Calibration(
        share,
        asked,
        node_difference(recorded, simulated),
        recorded.waits.p95,
        simulated.waits.p95,
        recorded.waits.p99,
        simulated.waits.p99,
        _evicted(recorded),
        _evicted(simulated),
        recorded.never_placed,
        simulated.never_placed,
        tuple(_differing(recorded, all_simulated)),
    )


def _differing(recorded: Summary, simulated: Sequence[Summary]) -> Iterator[str]:
    for share, name in (("95 %", "p95"), ("99 %", "p99")):
        known: float | None = getattr(recorded.waits, name)
        found = [each for summary in simulated if (each := getattr(summary.waits, name)) is not None]
        if known is not None and found and abs(known - (near := _nearest(known, found))) > known / 2 + _SLACK:
            yield f"{share} of the pods waited up to {seconds(known)}, simulated {seconds(near)}"
    evicted, never = _evicted(recorded), recorded.never_placed
    few = max(_FEW, _FEW_OF_ALL * recorded.placed)
    near = _nearest(evicted, [_evicted(each) for each in simulated])
    if abs(evicted - near) > evicted * _EVICTIONS + few:
        yield f"{amount(evicted)} evictions, simulated {amount(near)}"
    near = _nearest(never, [each.never_placed for each in simulated])
    if abs(never - near) > never * _NEVER_PLACED + few:
        yield f"{amount(never)} never placed, simulated {amount(near)}"


def _evicted(summary: Summary) -> int:
    return summary.evictions.get(DepartureReason.PREEMPTED.value, 0)


def _nearest(value: float, found: Sequence[float]) -> float:
    """The nearest value to one between the lowest and the highest that were found."""
    return min(max(value, min(found)), max(found))


def node_difference(recorded: Summary, simulated: Summary) -> float:
    """Return by how much two curves of the number of nodes differ, on average, as a share of the first one."""
    total = sum(point.nodes for point in recorded.curve)
    differences = sum(abs(one.nodes - other.nodes) for one, other in zip(recorded.curve, simulated.curve, strict=False))
    return differences / total if total else 0.0
