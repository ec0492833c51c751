"""Logs the reasons for a decision at verbose levels: which nodes were rejected, and how the others scored."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np

from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.scheduling import Decision, Outcome
from bayplan.foundations.log_fields import SCORES, LogField, about_node, about_pod

log = logging.getLogger(__name__)

MOST_NODES = 10
"""The number of node names logged per reason, below the level of scores."""


def scores_wanted() -> bool:
    """Whether scores by plugin are logged."""
    return log.isEnabledFor(SCORES)


def explain(decision: Decision, table: NodeTable) -> None:
    """Log the reasons for a decision. Call it before the state changes.

    At the debug level: for a pod that fits on no node, the rejected nodes by plugin and reason. At the level of scores
    (klog's 10): the same for every pod and all nodes, and the scores of each feasible node by plugin, best first.
    """
    if not log.isEnabledFor(logging.DEBUG):
        return
    everything = scores_wanted()
    if everything or decision.outcome is Outcome.UNSCHEDULABLE:
        _explain_verdicts(decision, most=None if everything else MOST_NODES)
    if everything:
        _explain_scores(decision, table)


def _explain_verdicts(decision: Decision, most: int | None) -> None:
    verdicts = decision.diagnosis.verdicts
    if verdicts is None:
        return
    for code, status in enumerate(verdicts.table):
        positions = np.flatnonzero(verdicts.codes == code) if code else ()
        if not len(positions):
            continue
        names = [verdicts.nodes.name(int(position)) for position in positions[:most]]
        reasons = "; ".join(status.reasons)
        log.debug(
            "pod %s: %s rejected %s: %s",
            about_pod(decision.pod),
            LogField("plugin", status.plugin, status.plugin or "PreFilter"),
            LogField("nodes", names, _listed(names, len(positions))),
            LogField("reason", reasons, reasons),
        )


def _explain_scores(decision: Decision, table: NodeTable) -> None:
    if decision.outcome is not Outcome.SCHEDULED:
        return
    scores = decision.scores
    if scores is None:
        log.log(SCORES, "pod %s: only node %s is feasible", about_pod(decision.pod), about_node(decision.node or ""))
        return
    for position in np.argsort(-scores.total, kind="stable").tolist():
        by_plugin = {plugin: int(column[position]) for plugin, column in scores.plugins.items()}
        log.log(
            SCORES,
            "pod %s: node %s scores %s: %s",
            about_pod(decision.pod),
            about_node(table.names[scores.rows[position]]),
            LogField("score", total := int(scores.total[position]), str(total)),
            LogField("scores", by_plugin, ", ".join(f"{plugin} {score}" for plugin, score in by_plugin.items())),
        )


def _listed(names: Iterable[str], count: int) -> str:
    names = list(names)
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"{count} nodes ({', '.join(names)}{more})" if count != 1 else f"node {names[0]}"
