"""Decision: the outcome of one attempt for one pod, as a value.

    decision.outcome, decision.node     # SCHEDULED on a node, UNSCHEDULABLE with a message, or ERROR
    decision.scores.total               # one number per feasible node, as long as decision.feasible

It changes nothing. What others make of it are the `Plan` (`bayplan.core.scheduling.plan`), explanations and
comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from bayplan.core.cluster.columns import Int64, Rows
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.pod_run import Alike
from bayplan.core.framework.verdicts import Diagnosis

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class Outcome(Enum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


class Scores(NamedTuple):
    """The weighted scores of the feasible nodes.

    `rows`: rows of the node table, one per feasible node, ascending. `plugins` and `total`: int64, as long as `rows`.
    `plugins` is empty where the total was known from earlier pods; set `Options.explain` to get it.
    """

    rows: Rows
    plugins: dict[str, Int64]
    total: Int64

    @property
    def best(self) -> Rows:
        """The rows with the highest total."""
        highest = self.total.item(self.total.argmax())  # `max` takes twice as long
        best: Rows = (self.total == highest).nonzero()[0]
        every = self.rows.item(-1) == len(self.rows) - 1
        return best if every else self.rows[best]


@dataclass(slots=True, repr=False)
class Decision:
    """The outcome for one pod.

    `node`: the chosen node (SCHEDULED), else None. `message`: the reason (UNSCHEDULABLE, ERROR). `nominated_node`: the
    node that PostFilter nominated; None keeps the pod's nomination, "" clears it. `victims`: the pods to evict first,
    chosen by the PostFilter plugin `preempted_by`. `feasible`: rows of the feasible nodes. `scores` is None where
    scoring was skipped because only one node was feasible. `failed_plugin`: the plugin that raised (ERROR), if one did.
    `alike`: what the pods have in common that are rejected in the same way (UNSCHEDULABLE); None if that is unknown.
    """

    pod: PodInfo
    outcome: Outcome
    cycle: CycleState
    diagnosis: Diagnosis
    node: str | None = None
    message: str = ""
    feasible: Rows = field(default_factory=lambda: _NO_ROWS)
    scores: Scores | None = None
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    preempted_by: str = ""
    failed_plugin: str = ""
    alike: Alike | None = None

    @property
    def reason(self) -> str:
        """The message without PostFilter's part: what is said about room that may be made is left out."""
        if self.outcome is Outcome.ERROR or not self.diagnosis.total:
            return self.message
        return replace(self.diagnosis, post_filter_message="").explain()

    def __repr__(self) -> str:
        """Short, so that a failing test shows the node or the message."""
        outcome = f"node {self.node}" if self.node is not None else f"{self.outcome.value}: {self.message}"
        return f"<Decision for {self.pod.key}: {outcome}>"
