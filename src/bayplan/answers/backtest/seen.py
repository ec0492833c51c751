"""A history on a world: what happened is applied to it, one step after the other, and placements are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from bayplan.answers.history.moments import RecordedChange
from bayplan.answers.judging.judgement import Judgement
from bayplan.answers.judging.order import AHEAD, NearBindings, SeenBinding, SeenEvent
from bayplan.answers.judging.placements import SeenPlacements
from bayplan.answers.moments.steps import Step, StepKind
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo


class SeenHistory:
    """Goes through the steps of a history. Before each of them, the world has the cluster as it was then.

    `world`: it has the cluster at the moment from which on `changes` are; they can be undone. `before`: the steps until
    that moment. Memory: as of `NearBindings`.
    """

    def __init__(
        self, world: World, changes: Iterable[RecordedChange | Step], begin: datetime, before: Sequence[Step] = ()
    ) -> None:
        self._world = world
        self._begin = begin
        self._latest = self.seconds(before[-1]) if before else 0.0
        arrived = [step.uid for step in before if step.what is StepKind.ARRIVED]
        self._near = NearBindings(changes, self._read, {uid: place for place, uid in enumerate(arrived, 1)})
        self._near.add_seen(self._binding(step) for step in before if self._is_near(step))
        self._placements = SeenPlacements(world, self._near)

    def __iter__(self) -> Iterator[Step]:
        """Yield each step before the world has what it changes."""
        for change in self._near:
            if isinstance(change, Step):
                yield change
            elif change.raw is None:
                self._world.change(change.kind, change.key, None)
            else:
                try:
                    self._world.add(change.kind, change.key, change.raw)
                except ValueError:  # the snapshot of a later moment names the object
                    continue

    def seconds(self, step: Step) -> float:
        """Return when a step was, in seconds since the start of the history."""
        return (step.time - self._begin).total_seconds()

    def pod_to_ask(self, step: Step) -> PodInfo | None:
        """Return the pod to ask about; None where the world's scheduler can't decide as the other did."""
        return self._placements.pod_to_ask(step.subject, step.uid, step.node) if step.what is StepKind.PLACED else None

    def judge(self, pod: PodInfo, node: str) -> Judgement:
        """Judge the node that a pod has got; the decision has the scores by plugin. Nothing changes."""
        return self._placements.judge(pod, node)

    def _read(self, change: RecordedChange | Step) -> SeenEvent:
        if not isinstance(change, Step):
            return SeenEvent(self._latest)
        self._latest = self.seconds(change)
        match change.what:
            case StepKind.PLACED:
                return SeenEvent(self._latest, binding=self._binding(change))
            case StepKind.ARRIVED:
                return SeenEvent(self._latest, arrived=change.uid)
            case StepKind.ENDED | StepKind.EVICTED:
                return SeenEvent(self._latest, gone=change.uid)
        return SeenEvent(self._latest)

    def _binding(self, step: Step) -> SeenBinding:
        return SeenBinding(self.seconds(step), step.subject, step.uid, step.node)

    def _is_near(self, step: Step) -> bool:
        return step.what is StepKind.PLACED and self.seconds(step) >= self._latest - AHEAD
