"""How a change that helps a pod is tried further: with the workload of the pod, and what else is tried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from bayplan.answers.insight.answers import Progress
from bayplan.answers.insight.limits import Limits
from bayplan.answers.insight.questions.change import Help
from bayplan.answers.insight.questions.kueue import AdmissionCauses
from bayplan.answers.insight.questions.raised_priority import priorities_of, with_higher_priority
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DEPLOYMENT
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight.questions import surge, template_changes


@dataclass(frozen=True, slots=True)
class FurtherTrials:
    """What is tried with the objects of a snapshot, beside changes of a pod. Controllers are imported when needed."""

    snapshot: Snapshot
    seed: int
    limits: Limits

    def all(self) -> dict[str, Any]:
        """Return the arguments of `explain` about further trials."""
        with_class = partial(with_higher_priority, classes=priorities_of(self.snapshot), confirm=self.confirm)
        return {"confirm": self.confirm, "last": (with_class,), "more": (self.without_surge,)}

    def of_many(self) -> dict[str, Any]:
        """Return the arguments of `explain_all` about them, and about why pods are gated."""
        return {**self.all(), "told": AdmissionCauses(self.snapshot).of}

    def confirm(self, world: World, pod: PodInfo, found: Help, progress: Progress) -> Help | None:
        """Try a change of a pod with its workload, as the rollout of a new template; None if that doesn't help."""
        if not found.change.edits:
            return found

        return template_changes.TemplateChanges(self.snapshot, self.seed, self.limits)(world, pod, found, progress)

    def without_surge(self, world: World, pod: PodInfo, progress: Progress) -> Help | None:
        """Try a rollout without additional pods, for the pod of a Deployment."""
        if DEPLOYMENT.kind not in dict(owners_of(pod)):
            return None

        return surge.without_surge(world, pod, progress, snapshot=self.snapshot)
