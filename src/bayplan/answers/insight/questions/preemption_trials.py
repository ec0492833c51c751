"""Preemption trials: where evicting the pods of lower priority would be of no use, and what blocks a pod there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.runner import explain_post_filters
from bayplan.core.framework.what_if import ProfileWhatIf
from bayplan.core.scheduling import Decision


@dataclass(frozen=True, slots=True)
class PreemptionTrial:
    """Nodes on which preemption was tried: how many pods could be evicted there, and what blocks without these."""

    nodes: tuple[str, ...]
    victims: int
    remains: tuple[str, ...]

    @property
    def text(self) -> str:
        """The trial in one sentence."""
        if not self.victims:
            return "no pod of lower priority"
        return f"without {plural(self.victims, 'pod')} of lower priority: {', '.join(self.remains)}"


def preemption_trials(world: World, pod: PodInfo, decision: Decision) -> tuple[PreemptionTrial, ...]:
    """Ask the plugins that tried to make room for a pod where they could not, and what still blocks the pod there."""
    profile = world.profiles[pod.scheduler_name].for_pod(pod)
    what_if = ProfileWhatIf(profile, world.state.nominations, world.rng)
    found: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    with world.trial():
        for each in explain_post_filters(profile, decision.cycle, pod, decision.diagnosis, what_if):
            found.setdefault((each.victims, each.remains), []).append(each.node)
    trials = [PreemptionTrial(tuple(sorted(names)), victims, remains) for (victims, remains), names in found.items()]
    return tuple(sorted(trials, key=lambda trial: (-len(trial.nodes), trial.victims, trial.remains)))


def trials_shown(trials: Sequence[PreemptionTrial]) -> RenderableType:
    """Return the trials as lines of text."""
    return Lines(*(Padding(Text(f"{listed(trial.nodes)}: {trial.text}"), (0, 0, 0, 2)) for trial in trials))
