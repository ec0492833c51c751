"""fit: whether the pods of manifests would all be placed now, where, and which pods they would preempt.

Pending pods of the cluster come first, as they would. Manifests are expanded to pods before
(`bayplan.answers.insight.manifests`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import (
    INTERRUPTED,
    Answer,
    Progress,
    QuestionError,
    Stopped,
    listed,
    plural,
    silent,
)
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.deployment import Deployment, remove_pod
from bayplan.answers.insight.questions.new_objects import add_objects, given
from bayplan.answers.insight.questions.notes import message_of
from bayplan.answers.insight.questions.sampling import scored_at_most
from bayplan.answers.insight.tables import grouped, table
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.expansion.expansion import Expansion, Refused

REFUSED = "refused"
"""The outcome of a pod that the API server refuses to create, because of a quota, for example."""
_MISSING = {Fate.PENDING.value, REFUSED}


@dataclass(frozen=True, slots=True)
class PodFit:
    """The outcome for one pod: `placed`, `preempts` (placed after `victims` are evicted), `pending` or `refused`.

    `message`: the event's text; for a pod that preempts, that of its first attempt. `chance`: in which share of its
    attempts kube-scheduler looks at this node, in a cluster where it scores only some of the feasible ones; None if
    the pod isn't placed.
    """

    pod: str
    outcome: str
    node: str | None
    victims: tuple[str, ...]
    message: str
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class Fit(Answer):
    """Whether all pods are placed, and the outcome for each, in the order in which they were decided.

    `shown`: the most rows of a table; 0 for all. `interrupted`: whether other pods were not decided. `refused`: other
    objects that the API server refuses. `unknown`: objects whose pods only their controllers know. `not_run`: rules
    about nodes that only their controllers have.
    """

    pods: tuple[PodFit, ...]
    shown: int = 20
    refused: tuple[Refused, ...] = ()
    unknown: tuple[str, ...] = ()
    interrupted: bool = False
    not_run: tuple[str, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Whether all pods are known to be placed; None if the question was interrupted before that was known."""
        if self.refused or self.not_run or any(pod.outcome in _MISSING for pod in self.pods):
            return False
        return None if self.interrupted else True

    @property
    def passes(self) -> bool:
        """Whether all pods are placed."""
        return bool(self.fits)

    @property
    def next_steps(self) -> Sequence[str]:
        """What to ask about the pods that aren't placed."""
        missing = [pod.pod for pod in self.pods if pod.outcome == Fate.PENDING.value]
        return [f"ask scale-up with the same objects: how many new nodes {listed(missing, 3)} need"] if missing else []

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        refused = [{"object": each.what, "message": each.message} for each in self.refused]
        return {"fits": self.fits, **fields_of(self), "refused": refused}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pod."""
        return [fields_of(pod) for pod in self.pods]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, the table of pods, and why pods stay pending."""
        lines = [Text(f"refused: {each.what}: {each.message}") for each in self.refused]
        if self.unknown:
            what = listed(self.unknown, len(self.unknown) if wide else 5)
            lines.append(Text(f"not decided: only their controllers know the pods of {what}"))
        lines += [Text(f"not known: {rule}", style="bold") for rule in self.not_run]
        if not self.pods and not self.interrupted:
            return Lines(Text("the manifests have no pods", style="bold"), *lines)
        pending = [pod for pod in self.pods if pod.outcome in _MISSING]
        placed = len(self.pods) - len(pending)
        headline = f"{placed:,} of {plural(len(self.pods), 'pod')} would be placed"
        if self.not_run:
            headline = f"{headline}, if it weren't for rules that only their controllers carry out"
        if self.interrupted:
            headline = f"{INTERRUPTED}: {headline}, the others were not decided"

        def row(each: PodFit) -> Sequence[str]:
            victims = listed(each.victims, len(each.victims) if wide else 3)
            return each.pod, each.outcome, each.node or "-", victims or "-"

        pods = table(("POD", "OUTCOME", "NODE", "PREEMPTS"), self.pods, row, self.shown)
        causes = grouped((each.message, each.pod) for each in pending)
        lines[:0] = [Text(f"{listed(keys)}: {message}") for message, keys in causes.items()]
        lines += [Text(f"note: {text}", style="yellow") for text in self._sampled()]
        return Lines(Text(headline, style="bold"), pods, *([Text(), *lines] if lines else ()))

    def _sampled(self) -> Iterator[str]:
        """Yield that kube-scheduler may choose other nodes."""
        chances = [pod.chance for pod in self.pods if pod.chance is not None and pod.chance < 1]
        if chances:
            yield (
                "kube-scheduler scores only some of the feasible nodes of this cluster: it looks at the node above in "
                f"about {min(chances):.0%} of its attempts for {plural(len(chances), 'pod')}, and may choose another "
                "one in the others, unless percentageOfNodesToScore is 100"
            )


def fit(world: World, expansion: Expansion, *, shown: int = 20, progress: Progress = silent) -> Fit:
    """Schedule the pods of an expansion in their order, after the pending pods of the cluster.

    Those would have their turn before, or have had it. Pods of workloads that exist are replaced as their controllers
    do. `progress` may raise Stopped; the answer then has the pods that were decided. Raises QuestionError if only
    controllers know the pods.
    """
    if expansion.unknown and not (expansion.pods or expansion.kept or expansion.refused_pods):
        raise QuestionError(
            f"only their controllers know the pods of {listed(expansion.unknown)}: pass the pods themselves, or the "
            "workloads that the controllers make"
        )
    refused = tuple(expansion.refused)
    unknown, not_run = tuple(expansion.unknown), tuple(expansion.not_run)
    with world.what_if():
        for key in expansion.removed:
            remove_pod(world, key)
        waiting = world.in_queue_order(world.pending.values())
        try:
            before = Simulation(world, together=True).schedule(
                waiting, lambda done: progress(f"{done:,} of {len(waiting):,} pending pods")
            )
        except Stopped:
            return Fit((), shown, refused, unknown, interrupted=True, not_run=not_run)
        add_objects(world, expansion.objects)
        deployment = Deployment(world, expansion, progress)
        results = {**_kept(world, expansion.kept, before), **deployment.run()}
        pods = [PodFit(pod.what, REFUSED, None, (), pod.message) for pod in expansion.refused_pods]
        found = (*(pod_fit(world, key, result) for key, result in results.items()), *pods)
        return Fit(found, shown, refused, unknown, deployment.interrupted, not_run)


def _kept(world: World, keys: Iterable[str], before: Mapping[str, Result]) -> dict[str, Result]:
    """The results of pods that exist and stay. Those that have terminated have none."""
    found = {}
    for key in keys:
        pod = world.pod(key)
        if pod is not None and pod.node_name:
            found[key] = Result(pod, Fate.PLACED, pod.node_name, message="it is there already")
        elif pod is not None:
            found[key] = before.get(key) or given(world, pod)
    return found


def pod_fit(world: World, key: str, result: Result) -> PodFit:
    """Return the outcome of a result for a pod."""
    victims = tuple(victim.key for victim in result.victims)
    chance = round(min(1.0, scored_at_most(world, result.pod) / result.feasible), 4) if result.feasible else None
    return PodFit(key, result.fate.value, result.node, victims, message_of(result), chance)
