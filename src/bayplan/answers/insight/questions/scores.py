"""The scores of nodes by plugin, and what decided between them.

Scores are weighted, as they are summed up. Among equal totals, the scheduler draws; `ties` names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.tables import table
from bayplan.answers.simulation.world import World
from bayplan.core.scheduling import Decision

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class NodeScore:
    """The weighted scores of a node by plugin, and their sum."""

    node: str
    total: int
    plugins: dict[str, int]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The scores of a node (the first of `nodes`, if it is feasible) and of the best other nodes.

    `feasible`: how many nodes are feasible. `margin`: by how much the node's total exceeds that of the best other node;
    negative if it is lower. `decided_by`: the plugin with the largest part in the margin. `ties`: all nodes with the
    highest total, if there are several; one of them is chosen at random.
    """

    nodes: tuple[NodeScore, ...]
    feasible: int
    margin: int | None
    decided_by: str | None
    ties: tuple[str, ...]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the table, with plugins that score all nodes equally left out unless `wide`."""
        names = list(self.nodes[0].plugins) if self.nodes else []
        if not wide:
            names = [name for name in names if len({node.plugins[name] for node in self.nodes}) > 1]

        def row(each: NodeScore) -> Sequence[str]:
            return each.node, *(str(each.plugins[name]) for name in names), str(each.total)

        return Lines(Text(self.verdict(), style="bold"), table(("NODE", *names, "TOTAL"), self.nodes, row))

    def verdict(self) -> str:
        """Return in one sentence what decided."""
        found = f"{plural(self.feasible, 'node')} {'is' if self.feasible == 1 else 'are'} feasible"
        if len(self.nodes) < 2 or self.margin is None:
            return found
        first, second = self.nodes[:2]
        if len(self.ties) > 1 and first.node in self.ties:
            return f"{found}; {listed(self.ties)} have the same score, and one of them is chosen at random"
        direction = "above" if self.margin >= 0 else "below"
        decided = f", mostly by {self.decided_by}" if self.decided_by else ""
        return f"{found}; {first.node} is {abs(self.margin)} {direction} {second.node}{decided}"


def score_table(world: World, decision: Decision, node_name: str | None) -> ScoreTable | None:
    """Return the scores of a decision that kept them, with a node first; None if no node is feasible."""
    scores = decision.scores
    if scores is None or not len(scores.rows):
        return None
    names = world.state.table.names
    order = np.argsort(-scores.total, kind="stable")
    own = next((index for index, row in enumerate(scores.rows.tolist()) if names[row] == node_name), None)
    chosen = [index for index in order.tolist() if index != own][:_SHOWN]
    if own is not None:
        chosen.insert(0, own)
    nodes = tuple(
        NodeScore(
            names[int(scores.rows[index])],
            int(scores.total[index]),
            {plugin: int(values[index]) for plugin, values in scores.plugins.items()},
        )
        for index in chosen
    )
    best = [names[row] for row in scores.best.tolist()]
    margin = nodes[0].total - nodes[1].total if len(nodes) > 1 else None
    return ScoreTable(nodes, len(scores.rows), margin, _decider(nodes, margin), tuple(best) if len(best) > 1 else ())


def _decider(nodes: tuple[NodeScore, ...], margin: int | None) -> str | None:
    """The plugin whose scores of the first two nodes differ most in the direction of the margin."""
    if not margin:
        return None
    first, second = nodes[:2]
    direction = 1 if margin > 0 else -1
    return max(first.plugins, key=lambda name: direction * (first.plugins[name] - second.plugins[name]))
