"""why-not: everything between a pod and a node, also after the filters: Reserve, Permit and PreBind.

A pod with a node is asked about as if it were pending. Other nodes don't matter, but for scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, QuestionError, plural, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.nodes import position_of
from bayplan.answers.insight.questions.blockers import Blocker, Blockers
from bayplan.answers.insight.questions.change import Confirm, Help, tried_help
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.explain import decision_of
from bayplan.answers.insight.questions.gangs import gang_of
from bayplan.answers.insight.questions.preemption_trials import preemption_trials
from bayplan.answers.insight.questions.rivals import tried_alone
from bayplan.answers.insight.questions.scores import ScoreTable, score_table
from bayplan.answers.insight.questions.trying import what_would_help
from bayplan.answers.insight.tables import table
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import Decision


@dataclass(frozen=True, slots=True)
class WhyNot(Answer):
    """What keeps a pod from a node.

    `feasible`: whether the node accepts the pod. If so, `chosen` is the node that the pod would get, and `scores` has
    both. `preemption`: what preemption on the node would lead to, if it may help. `gate`: why the pod isn't attempted.
    `alone`: as of an `Explanation`.
    """

    pod: str
    node: str
    feasible: bool
    blockers: tuple[Blocker, ...] = ()
    chosen: str | None = None
    scores: ScoreTable | None = None
    preemption: str = ""
    gate: str = ""
    help: tuple[Help, ...] = ()
    alone: str = ""
    interrupted: bool = False

    @property
    def next_steps(self) -> Sequence[str]:
        """The changes that help."""
        return [each.text for each in self.help]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return fields_of(self) | {"help": [{"change": each.change.text, "node": each.node} for each in self.help]}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per blocker."""
        return [blocker.to_dict() for blocker in self.blockers]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, and the blockers or the scores."""
        parts: list[RenderableType] = [Text(f"pod {self.pod}, node {self.node}: {self._headline()}", style="bold")]
        if self.gate:
            parts.append(Text(f"note: {self.gate}", style="yellow"))
        if self.blockers:
            parts.append(table(("PLUGIN", "WHY"), self.blockers, lambda each: (each.plugin, each.text)))
        if self.preemption:
            parts.append(Text(f"preemption: {self.preemption}"))
        if self.help:
            parts += [Text(), Text("what would help (each was tried)", style="bold")]
            parts += [Padding(Text(each.text), (0, 0, 0, 2)) for each in self.help]
            parts += [Text(f"note: {self.alone}", style="yellow")] if self.alone else []
        if self.scores is not None:
            parts.append(self.scores.render(wide=wide))
        if self.interrupted:
            parts.append(Text(INTERRUPTED, style="bold"))
        return Lines(*parts)

    def _headline(self) -> str:
        if not self.feasible:
            return f"blocked by {plural(len(self.blockers), 'plugin')}"
        if self.chosen == self.node:
            return "the pod would be placed there"
        return (
            f"the node accepts the pod, but {self.chosen} scores higher" if self.chosen else "the node accepts the pod"
        )


def why_not(
    world: World, pod: PodInfo, node_name: str, progress: Progress = silent, confirm: Confirm = tried_help
) -> WhyNot:
    """Return everything between a pod and a node. A pod with a node is asked about as if it were pending.

    `confirm`: as for `what_would_help`. Raises QuestionError if there is no such node, or no profile schedules the pod.
    """
    position = position_of(world, node_name)
    if pod.scheduler_name not in world.profiles:
        raise QuestionError(f"pod {pod.key}: no scheduler here has the name {pod.scheduler_name!r}")
    with world.what_if():
        if pod.node_name:
            world.change(POD, pod.key, pending_copy(pod))
            pod = world.pending[pod.key]
        gate = world.gate_of(pod)
        blockers = Blockers(world, pod)
        found = tuple(blockers.of(position))
        decision = decision_of(world, pod)
        late = None if found else _rejection(world, pod, decision, node_name)
        if late is not None:
            return WhyNot(pod.key, node_name, feasible=False, blockers=(late,), gate=_gated(gate))
        if not found:
            scores = score_table(world, decision, node_name) if decision is not None else None
            chosen = decision.node if decision is not None else None
            return WhyNot(pod.key, node_name, feasible=True, chosen=chosen, scores=scores, gate=_gated(gate))
        trials = [] if decision is None else preemption_trials(world, pod, decision)
        remains = next((trial.text for trial in trials if node_name in trial.nodes), "")
        helpful = what_would_help(world, pod, blockers, 3, (position,), progress, confirm=confirm)
        helps = [each for each in helpful.found if each.node == node_name]
        return WhyNot(
            pod.key,
            node_name,
            feasible=False,
            blockers=found,
            preemption=remains,
            gate=_gated(gate),
            help=tuple(helps),
            alone="" if helpful.interrupted else tried_alone(world, pod, helps, progress),
            interrupted=helpful.interrupted,
        )


def _rejection(world: World, pod: PodInfo, decision: Decision | None, node_name: str) -> Blocker | None:
    """What Reserve, Permit or PreBind say to a node that the filters accept; for a member of a gang, to all members."""
    if decision is None or world.gate_of(pod) is not None:
        return None
    simulation = Simulation(world)
    if gang_of(world, pod) is None:
        if decision.node is None:
            return None
        status = simulation.rejection_on(decision, node_name)
        return None if status is None else Blocker(status.plugin, status.reasons, status.message)
    with world.what_if():
        result = simulation.outcome(pod)[pod.key]
    if result.placed:
        return None
    return Blocker(" ".join(sorted(result.plugins)), (result.message,), result.message)


def _gated(gate: Sequence[str] | None) -> str:
    return "" if gate is None else f"the scheduler does not attempt the pod: gated by {gate[0]}: {gate[1]}"
