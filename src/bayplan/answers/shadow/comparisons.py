"""Comparisons of a scheduler's decisions with those that Bayplan would have made, and their numbers by kind.

A comparison has a subject, an outcome and a cause. `ShadowCause` lists all causes; `shadow.py` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
"""How many there are of something."""


class ShadowSubject(StrEnum):
    """What a scheduler has decided about a pod."""

    BINDING = "binding"
    NOMINATION = "nomination"
    FAILURE = "failure"


class ShadowOutcome(StrEnum):
    """What Bayplan would have decided.

    Of a failure, SAME is that no node is feasible for Bayplan either, and OTHER that it would have placed the pod.
    """

    SAME = "same"
    BEST = "among the best"
    OTHER = "other"
    NOT_PLACED = "would not place"


class ShadowCause(StrEnum):
    """Why two decisions differ.

    NONE: they don't. RACE: an event was seen before the binding, and the decision was made without it, or the other way
    round. TIE: the nodes have equal scores, and chance decides. SAMPLING: kube-scheduler scores only some of the
    feasible nodes of large clusters. CONFIGURATION: the configuration that the scheduler has decides as it did.
    EXTENDER: the configuration has an extender for the pod, which is never asked. NOMINATIONS: other pods were
    nominated for one of the nodes, or evicted from it, at about that time, and no order of what happened explains the
    difference.
    """

    NONE = ""
    RACE = "race"
    TIE = "tie"
    SAMPLING = "sampling"
    CONFIGURATION = "configuration"
    EXTENDER = "extender"
    NOMINATIONS = "nominations"
    UNKNOWN = "unknown"


_EQUAL = frozenset({ShadowOutcome.SAME, ShadowOutcome.BEST})


class FeedInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a source of a feed, such as a Prometheus, said of the nodes of a comparison.

    `theirs`, `ours`: by the field of its answer; empty where it says nothing of the node. `since`: when that answer
    came; None if none counted. `problem`: why it gave none when it was asked last; "" if it did.
    """

    source: str
    since: datetime | None = None
    theirs: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    problem: str = ""


class ShadowComparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision of the scheduler, and what Bayplan would have decided in the same situation.

    `theirs`, `ours`: the nodes; "" for none. `difference`: how much higher Bayplan scores its own node; None where it
    can't say. `margin`: how much higher its best score is than the next lower one; None if there is none.
    `between`: for a race, the event that came between. `reason`: why Bayplan would not have chosen their node, or any.
    `plugins`: the weighted scores that differ the most, those of our node minus those of theirs.
    `their_victims`, `our_victims`: the pods that a preemption evicts. `feeds`: what sources of measurements said.
    """

    time: datetime
    subject: ShadowSubject
    pod: str
    uid: str
    theirs: str
    ours: str
    outcome: ShadowOutcome
    cause: ShadowCause = ShadowCause.NONE
    between: str = ""
    difference: int | None = None
    margin: int | None = None
    reason: str = ""
    plugins: tuple[tuple[str, int], ...] = ()
    their_victims: tuple[str, ...] = ()
    our_victims: tuple[str, ...] = ()
    feeds: tuple[FeedInput, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether Bayplan finds the scheduler's decision as good as any."""
        return self.outcome in _EQUAL


class ShadowCount(msgspec.Struct, rename="camel"):
    """How many comparisons have the same subject, outcome and cause."""

    subject: ShadowSubject
    outcome: ShadowOutcome
    cause: ShadowCause
    number: Count = 0


class FeedAbsence(msgspec.Struct, rename="camel"):
    """How many decisions were compared while a source gave no answer.

    `stale`: with its last one. `without`: with none. `problem`: why it gave none, the last time.
    """

    source: str
    stale: Count = 0
    without: Count = 0
    problem: str = ""

    @property
    def text(self) -> str:
        """The numbers, for people."""
        stale = f"{self.stale:,} compared with the last answer of {self.source}" if self.stale else ""
        without = f"{self.without:,} compared without {self.source}" if self.without else ""
        return "; ".join(filter(None, (stale, without)))


class ShadowTally(msgspec.Struct, rename="camel"):
    """The numbers of comparisons by kind. Its size doesn't depend on how many there are.

    `missed`: bindings and failures that could not be compared, because the cluster was not followed then.
    `loss`: the sum of the differences in scores of bindings, and `losses` how many of these are known. `absences`: the
    sources that gave no answer at times.
    """

    counts: list[ShadowCount] = []
    missed: Count = 0
    loss: int = 0
    losses: Count = 0
    absences: list[FeedAbsence] = []

    def add(self, comparison: ShadowComparison) -> None:
        """Count a comparison."""
        key = comparison.subject, comparison.outcome, comparison.cause
        found = next((each for each in self.counts if (each.subject, each.outcome, each.cause) == key), None)
        if found is None:
            found = ShadowCount(*key)
            self.counts.append(found)
        found.number += 1
        if comparison.subject is ShadowSubject.BINDING and comparison.difference is not None:
            self.loss += comparison.difference
            self.losses += 1
        for each in comparison.feeds:
            if each.problem:
                self._add_absence(each)

    def _add_absence(self, given: FeedInput) -> None:
        found = next((each for each in self.absences if each.source == given.source), None)
        if found is None:
            found = FeedAbsence(given.source)
            self.absences.append(found)
        found.problem = given.problem
        if given.since is None:
            found.without += 1
        else:
            found.stale += 1

    def total(self, subject: ShadowSubject | None = None) -> int:
        """Return how many comparisons there are."""
        return sum(each.number for each in self._of(subject))

    def equal(self, subject: ShadowSubject | None = None) -> int:
        """Return how many of them are equal: the same node, or one among the best."""
        return sum(each.number for each in self._of(subject) if each.outcome in _EQUAL)

    def share(self, subject: ShadowSubject | None = None) -> float | None:
        """Return the share of comparisons that are equal; None if there are none."""
        total = self.total(subject)
        return self.equal(subject) / total if total else None

    def caused_by(self, cause: ShadowCause) -> int:
        """Return how many comparisons have a cause."""
        return sum(each.number for each in self.counts if each.cause is cause)

    @property
    def unknown(self) -> int:
        """How many differences have no known cause."""
        return self.caused_by(ShadowCause.UNKNOWN)

    def _of(self, subject: ShadowSubject | None) -> Iterator[ShadowCount]:
        return (each for each in self.counts if subject is None or each.subject is subject)
