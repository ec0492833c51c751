"""Which decisions evicted pods: those whose evictions were sent, and not each that chose a pod as a victim.

A decision may choose a victim that is terminating already, or one whose eviction fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from bayplan.answers.replay.moments import RecordedDecision, Report, ReportedPod
from bayplan.core.api.kinds import POD
from bayplan.running.recording import entries


@dataclass(slots=True)
class _Victim:
    """What a run says about a pod that was chosen as a victim."""

    chosen: list[RecordedDecision] = field(default_factory=list)
    """The decisions that chose it, while nothing said that it was being deleted."""
    sent: dict[int, bool] = field(default_factory=dict)
    """The decisions whose evictions were sent, by number, and whether they succeeded."""
    deleted: bool = False

    @property
    def evicted_by(self) -> RecordedDecision | None:
        """The decision that evicted it; None if none did.

        The first eviction that succeeded; if the recording ends before the reply, or has none, the last one before the
        pod was being deleted.
        """
        number = next((number for number, success in self.sent.items() if success), None)
        by_number = {each.number: each for each in self.chosen}
        if number in by_number:
            return by_number[number]
        return self.chosen[-1] if self.chosen else None


class EvictionsOf:
    """The evictions of the pods that have had a name, in one run. `pod`: `namespace/name`."""

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._victims: dict[str, _Victim] = {}
        """By uid, in the order in which the pods were known."""

    def take(self, what: RecordedDecision | Report) -> None:
        """Take in the next thing that a run has."""
        if isinstance(what, RecordedDecision):
            for uid in what.victims:
                victim = self._victims.get(uid)
                if victim is not None and not victim.deleted:
                    victim.chosen.append(what)
        elif isinstance(what, entries.Evicted):
            for uid in what.victims:
                victim = self._victims.get(uid)
                if victim is not None:
                    victim.sent[what.decision] = what.success or victim.sent.get(what.decision, False)
        elif isinstance(what, entries.Checkpoint):
            for each in what.objects:
                if each.kind == POD.kind and each.key == self._pod:
                    self._changed(each.raw)
        elif what.kind == POD.kind and what.key == self._pod:
            self._changed(what.raw)

    def last(self, until: datetime | None = None) -> RecordedDecision | None:
        """The last decision, until a time, that evicted one of the pods."""
        found = [
            by
            for victim in self._victims.values()
            if (by := victim.evicted_by) is not None and (until is None or by.time <= until)
        ]
        return max(found, key=lambda each: each.number, default=None)

    def _changed(self, raw: bytes | None) -> None:
        if raw is None:
            for victim in self._victims.values():
                victim.deleted = True
            return
        pod = ReportedPod.read(raw)
        victim = self._victims.setdefault(pod.uid, _Victim())
        victim.deleted = victim.deleted or pod.deletionTimestamp is not None


class EvictionsFor:
    """The decisions whose evictions made room for pods, in one run."""

    def __init__(self) -> None:
        self._decided: dict[str, list[RecordedDecision]] = {}
        """By the uid of the preemptor."""
        self._sent: set[int] = set()
        self._told = False
        """Whether the recording says which decisions' evictions were sent."""

    def take(self, what: RecordedDecision | Report) -> None:
        """Take in the next thing that a run has."""
        if isinstance(what, RecordedDecision):
            for uid, _, _ in what.preemptions:
                self._decided.setdefault(uid, []).append(what)
        elif isinstance(what, entries.Evicted) and what.decision:
            self._sent.add(what.decision)
            self._told = True

    def of(self, uid: str) -> list[RecordedDecision]:
        """The decisions that evicted pods for a pod, in order."""
        return [each for each in self._decided.get(uid, ()) if not self._told or each.number in self._sent]
