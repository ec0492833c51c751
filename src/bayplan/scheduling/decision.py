"""Decision: what became of one pod, as a value. Effects happen elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import CycleState
from bayplan.framework.verdicts import Diagnosis


class Outcome(Enum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Scores:
    """The weighted scores of the feasible nodes.

    `rows`: the rows of the node table, one a feasible node, in ascending order. `plugins` and `total`: int64, as long
    as `rows`. `plugins` is empty where the total was made from what earlier pods left: ask for the decision to be
    explained.
    """

    rows: Rows
    plugins: dict[str, Int64]
    total: Int64

    @property
    def best(self) -> Rows:
        """The rows with the highest total."""
        best = np.flatnonzero(self.total == self.total.max())
        every = self.rows[-1] == len(self.rows) - 1
        return best if every else self.rows[best]


@dataclass(slots=True)
class Decision:
    """What became of one pod.

    `node` is where it goes (SCHEDULED). `message` says why not (UNSCHEDULABLE, ERROR). `nominated_node` is what
    PostFilter made of it: None leaves the pod's nomination, "" clears it; `victims` have to go first, as the PostFilter
    plugin `preempted_by` wants. `feasible` and `scores` are there for who wants to know more; `scores` is None where
    scoring was skipped because one node only was feasible. `failed_plugin` names the plugin that broke (ERROR), if one
    did.
    """

    pod: PodInfo
    outcome: Outcome
    cycle: CycleState
    diagnosis: Diagnosis
    node: str = ""
    message: str = ""
    feasible: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    scores: Scores | None = None
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    preempted_by: str = ""
    failed_plugin: str = ""
