"""Nodes that kube-scheduler may leave out: in a large cluster, it scores only the first feasible nodes it finds.

Answers about such a cluster say how likely it is that the best node is scored. The orders themselves are in
`bayplan.answers.judging.node_orders`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.judging.node_orders import NodeOrders
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import Decision
from bayplan.core.scheduling.sampling import feasible_nodes_to_find

_CERTAIN = 0.995
"""From this chance on, nothing is said."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How likely kube-scheduler is to look at the best node.

    `feasible`: how many nodes are. `scored`: after how many of them it stops. `best`: the nodes with the highest score.
    `chance`: in which share of its attempts at least one of these is among those that it scores, if it may begin
    anywhere.
    """

    feasible: int
    scored: int
    best: tuple[str, ...]
    chance: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as in docs/insight.md."""
        return fields_of(self)

    @property
    def text(self) -> str:
        """What that means, and what makes the best node certain."""
        often = f"{listed(self.best, 3)} {'is' if len(self.best) == 1 else 'are'} among them in about {self.chance:.0%}"
        return (
            f"kube-scheduler stops at {self.scored:,} of {plural(self.feasible, 'feasible node')} here, and begins "
            f"where it ended for the pod before: {often} of its attempts, and another node is chosen in the others. "
            "To be sure, set percentageOfNodesToScore to 100, or require what the pod prefers"
        )


def sampling_of(world: World, pod: PodInfo, decision: Decision) -> Sampling | None:
    """Return what sampling means for a decision that kept its scores; None if kube-scheduler finds the best node."""
    scores = decision.scores
    if scores is None:
        return None
    needed = scored_at_most(world, pod)
    if len(scores.rows) <= needed:
        return None
    chance = NodeOrders(world.state).chance(scores.rows, scores.best, needed)
    if chance >= _CERTAIN:
        return None
    names = tuple(world.state.table.names[row] for row in scores.best.tolist())
    return Sampling(len(scores.rows), needed, names, round(chance, 4))


def scored_at_most(world: World, pod: PodInfo) -> int:
    """Return after how many feasible nodes kube-scheduler stops for a pod."""
    return feasible_nodes_to_find(world.profiles[pod.scheduler_name], world.state.table.live_count)
