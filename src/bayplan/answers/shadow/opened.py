"""A decision of the scheduler that is asked about, and the comparison that is made of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bayplan.answers.judging.choices import margin_of
from bayplan.answers.judging.judgement import Judgement, Standing
from bayplan.answers.shadow.comparisons import ShadowCause, ShadowComparison, ShadowOutcome, ShadowSubject
from bayplan.answers.shadow.journal import JournalEntry
from bayplan.answers.shadow.judging import ShadowQuestion
from bayplan.answers.shadow.moments import LAG
from bayplan.answers.snapshots.feeds import SourceAnswer
from bayplan.core.api.kinds import POD


class OpenQuestion(NamedTuple):
    """A question that is answered after the grace. `position`: that of the journal before the decision was seen.

    `answers`: what the sources of feeds had said last. `answered`: it was answered already, and is only kept for doubts
    about the configuration.
    """

    question: ShadowQuestion
    position: int
    seconds: float
    time: datetime
    answers: Sequence[SourceAnswer] = ()
    answered: bool = False


def crosses(entry: JournalEntry, opened: OpenQuestion, found: ShadowComparison) -> bool:
    """Whether another pod was nominated for one of the nodes, or evicted from it, at about the time of a decision."""
    if entry.kind is not POD or entry.key == found.pod or abs(entry.seconds - opened.seconds) > LAG:
        return False
    versions = [each for each in (entry.old, entry.new) if each is not None]
    nominated = {each.nominated_node_name for each in versions if not each.node_name}
    return bool((nominated | {entry.victim_on}) & ({found.theirs, found.ours} - {""}))


CAUSES = {
    Standing.SAME: ShadowCause.NONE,
    Standing.TIE: ShadowCause.TIE,
    Standing.SAMPLED: ShadowCause.SAMPLING,
    Standing.OTHER_ORDER: ShadowCause.RACE,
}
"""Why an equal decision may be for another node."""


def comparison_of(opened: OpenQuestion, ours: Judgement, cause: ShadowCause, between: str = "") -> ShadowComparison:
    """Return the comparison for an answer, without reasons."""
    question = opened.question
    if ours.equal:
        outcome = ShadowOutcome.SAME if ours.standing is Standing.SAME else ShadowOutcome.BEST
    else:
        outcome = ShadowOutcome.OTHER if ours.ours else ShadowOutcome.NOT_PLACED
    scored = question.subject is ShadowSubject.BINDING and bool(ours.ours) and ours.loss != float("inf")
    return ShadowComparison(
        time=opened.time,
        subject=question.subject,
        pod=question.pod.key,
        uid=question.pod.uid,
        theirs=question.node,
        ours=ours.ours,
        outcome=outcome,
        cause=cause,
        between=between,
        difference=int(ours.loss) if scored else None,
        margin=margin_of(ours.decision) if ours.decision is not None and ours.ours else None,
        their_victims=tuple(sorted(question.victims)),
        our_victims=tuple(sorted(ours.victims)),
    )
