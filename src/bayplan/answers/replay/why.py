"""why: why something was decided about a pod of a recording: what was decided, what was evicted for it, and the causes.

The decision is found (`wanted.py`), the run replayed up to it, and the pod explained there (`explaining.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import Answer, Progress, listed, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.explain import Explanation
from bayplan.answers.replay.evictions import EvictionsFor
from bayplan.answers.replay.explaining import ExplainedDecision
from bayplan.answers.replay.moments import PodNames, RecordedDecision, decisions_of
from bayplan.answers.replay.policies import Policy
from bayplan.answers.replay.wanted import DecisionSelector, MomentError, Warn, find, stop_before, unsaid
from bayplan.core.api.provisioning import MARK
from bayplan.running.recording.files import Recording

BEFORE = "As the cluster was just before:"
"""Stands above an explanation."""


@dataclass(frozen=True, slots=True)
class Why(Answer):
    """What was decided about a pod, and why. As JSON, it is the explanation."""

    lines: tuple[str, ...]
    """What was decided, and what else is to know."""
    explanation: Explanation

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation."""
        return self.explanation.to_dict()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the explanation."""
        return self.explanation.rows()

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return what was decided, and the explanation of the cluster just before."""
        return Group(*map(Text, (*self.lines, BEFORE)), self.explanation.render(wide=wide))


@dataclass(frozen=True, slots=True)
class RecordedPlacement:
    """A decision that placed a pod. `number`: that of the decision, from 1."""

    number: int
    time: datetime
    pod: str
    node: str

    def __str__(self) -> str:
        return f"{self.time:%Y-%m-%d %H:%M:%S} decision {self.number:,}: pod {self.pod} was placed on node {self.node}"


@dataclass(frozen=True, slots=True)
class Moves(Answer):
    """Each time that a pod, or a pod of its name, was placed."""

    placements: tuple[RecordedPlacement, ...]

    @classmethod
    def of(cls, runs: Sequence[Recording], pod: str, progress: Progress = silent) -> Moves:
        """Look for all placements. Raises MomentError if there is none."""
        placements = []
        for run in runs:
            for decided in decisions_of(run):
                progress("reading the recording")
                one = decided.of(pod)
                if one is not None and decided.places(one):
                    placements.append(RecordedPlacement(decided.number, decided.time, pod, one.node))
        if not placements:
            find(runs, DecisionSelector(pod=pod), progress=progress)  # raises if there is no decision at all
            raise MomentError(f"pod {pod} was never placed; without --moved, the answer says why")
        return cls(tuple(placements))

    def to_dict(self) -> dict[str, Any]:
        """See Answer."""
        return {"placements": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """See Answer."""
        return [{**fields_of(each), "time": each.time.isoformat()} for each in self.placements]

    def render(self, *, wide: bool = False) -> RenderableType:
        """See Answer."""
        del wide  # each line is shown in full
        return Group(*(Text(str(each)) for each in self.placements))


@dataclass(frozen=True, slots=True)
class AskedDecision:
    """A decision to be explained. `pod`: which pod it is about, or which it evicted. `asked`: which it is about."""

    decided: RecordedDecision
    pod: str
    asked: str
    names: PodNames
    evictions: EvictionsFor

    @classmethod
    def of(cls, decided: RecordedDecision, pod: str, *, evicted: bool, progress: Progress = silent) -> AskedDecision:
        """Read what a run says about a decision. `evicted`: whether it evicted the pod. Raises RecordingError."""
        names, evictions = PodNames(), EvictionsFor()
        for each in decisions_of(decided.run, names.take, evictions.take):
            progress("reading the recording")
            if each.number > decided.number + _LOOKED_AHEAD:
                break
        asked = _preemptor_of(decided, pod, names) if evicted else pod
        return cls(decided, pod, asked, names, evictions)

    def lines(self) -> tuple[str, ...]:
        """What was decided, and what was evicted for that."""
        return tuple(_decision_lines(self.decided, self.pod, self.asked, self.names, self.evictions))

    @property
    def explains_itself(self) -> bool:
        """Whether the lines say all: the pod stands for a place of a provisioning request, and is in no snapshot."""
        return MARK in self.asked

    def explained(self, policy: Policy, progress: Progress = silent, warn: Warn = unsaid) -> Explanation:
        """Explain it, with what decided then. Raises RecordingError and QuestionError."""
        _, snapshot = stop_before(policy, self.decided, progress, warn)
        return ExplainedDecision(self.decided, self.names, self.evictions, snapshot, policy).about(self.asked)


_LOOKED_AHEAD = 1000
"""How many decisions after one the outcome of its eviction is looked for."""


def _preemptor_of(decided: RecordedDecision, pod: str, names: PodNames) -> str:
    """The pod for which another one was evicted."""
    for uid, _, victims in decided.preemptions:
        if pod in names.of(victims):
            return names.of([uid])[0]
    return pod


def _decision_lines(
    decided: RecordedDecision, pod: str, asked: str, names: PodNames, evictions: EvictionsFor
) -> Iterator[str]:
    """What was decided, and what was evicted for that."""
    one = decided.of(asked)
    victims = names.of(decided.victims_of(one.uid)) if one is not None else []
    if asked != pod and one is not None:
        others = [each for each in victims if each != pod]
        more = f", with {_pods(others)}," if others else ""
        yield f"pod {pod} was evicted from node {decided.node_for(one.uid)}{more} to make room for pod {asked}"
    yield f"at {decided.time:%Y-%m-%d %H:%M:%S.%f} UTC (decision {decided.number:,}), it was decided about pod {asked}:"
    yield f"  {decided.describe(one)}{f' ({listed(victims)})' if victims else ''}"
    if MARK in asked:
        yield f"  {_of_request(decided, asked)}"
    if one is None:
        return
    begin = "to get there, it" if decided.places(one) else "before, it had"
    for before in evictions.of(one.uid):
        if before.number < decided.number:
            evicted, node = _pods(names.of(before.victims_of(one.uid))), before.node_for(one.uid)
            when = f"at {before.time:%H:%M:%S.%f} (decision {before.number:,})"
            yield f"  {begin} evicted {evicted} from node {node} {when}"


def _of_request(decided: RecordedDecision, place: str) -> str:
    """How the request was decided that a pod stands for a place of."""
    fitting = sum(bool(pod.node) for pod in decided.pods)
    outcome = "all of its pods had room" if decided.placed else f"room was found for {fitting} of its pods, not for all"
    return f"it stands for a place of provisioningrequest {place.partition(MARK)[0]}: {outcome}"


def _pods(names: Sequence[str]) -> str:
    return f"pod{'s' if len(names) > 1 else ''} {listed(names)}"
