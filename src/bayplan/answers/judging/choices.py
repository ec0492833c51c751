"""What a decision says about nodes: which ones are the best, by how much, and which plugins make the difference.

Functions of one `Decision` with its scores. Totals are weighted sums in points; only feasible nodes have any.
"""

from __future__ import annotations

import numpy as np

from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.scheduling import Decision

_PLUGINS_SHOWN = 3


def score_at(table: NodeTable, decision: Decision, node: str) -> int | None:
    """Return the total score of a node; None if it isn't feasible, and 0 for the only one, which needs no score."""
    row = table.row_of.get(node)
    if row is None:
        return None
    rows = decision.feasible if decision.scores is None else decision.scores.rows
    position = int(np.searchsorted(rows, row))  # rows are ascending
    if position == len(rows) or int(rows[position]) != row:
        return None
    return 0 if decision.scores is None else int(decision.scores.total[position])


def is_best(table: NodeTable, decision: Decision, node: str) -> bool:
    """Return whether no node has a higher score, and chance or its turn decides among equal ones."""
    return decision.node == node or (decision.scores is not None and loss_at(table, decision, node) == 0)


def loss_at(table: NodeTable, decision: Decision, node: str) -> int | None:
    """Return how much higher the best score is than that of a node; None if the node isn't feasible."""
    score = score_at(table, decision, node)
    return None if score is None else 0 if decision.scores is None else int(decision.scores.total.max()) - score


def margin_of(decision: Decision) -> int | None:
    """Return how much higher the best score is than the next lower one; None if all feasible nodes are as good."""
    if decision.scores is None:
        return None
    total = decision.scores.total
    lower = total[total < total.max()]
    return int(total.max()) - int(lower.max()) if len(lower) else None


def better_than(table: NodeTable, decision: Decision, node: str) -> int:
    """Return how many feasible nodes have a higher score than a feasible node."""
    score = score_at(table, decision, node)
    return 0 if score is None or decision.scores is None else int((decision.scores.total > score).sum())


def plugin_differences(table: NodeTable, decision: Decision, node: str, other: str) -> tuple[tuple[str, int], ...]:
    """Return the weighted scores that differ the most between two nodes, by plugin: those of `node` minus the other's.

    `decision`: made with `explain`. Empty where one of the nodes isn't feasible.
    """
    scores, rows = decision.scores, [table.row_of.get(name, -1) for name in (node, other)]
    if scores is None:
        return ()
    mine, theirs = ((scores.rows == row).nonzero()[0] for row in rows)
    if not len(mine) or not len(theirs):
        return ()
    found = [(name, int(each[mine[0]] - each[theirs[0]])) for name, each in scores.plugins.items()]
    return tuple(
        sorted((each for each in found if each[1]), key=lambda each: (-abs(each[1]), each[0]))[:_PLUGINS_SHOWN]
    )
