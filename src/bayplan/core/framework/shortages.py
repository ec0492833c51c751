"""The statuses of nodes that have too little of one or several resources. Mirrors insufficientResources of fit.go.

Nodes that lack the same resources share one status, so that a rejection of 5,000 nodes makes a few statuses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.core.cluster.columns import Bool, Int32, Int64
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections

Shortage = tuple[str, Bool, Int64, int | Int64]
"""A reason, on which nodes it is one, what the nodes have in all, and what a pod requests of that."""
_BITS = 32
"""How many shortages are combined before their combinations are renumbered."""


def rejections(shortages: Sequence[Shortage]) -> Rejections:
    """Make one status for each combination of shortages that occurs; there must be at least one shortage.

    A node is unresolvable if the pod would not fit on it even if it were empty.
    """
    number_of_nodes = len(shortages[0][1])
    combination, unresolvable = np.zeros(number_of_nodes, dtype=np.int64), np.zeros(number_of_nodes, dtype=np.bool_)
    for number, (_, lacking, has, amount) in enumerate(shortages, 1):
        combination = combination << 1 | lacking
        unresolvable |= lacking & (has < amount)
        if number % _BITS == 0:  # renumber the combinations, so that 64 bits suffice; 0 stays 0
            combination = np.unique(np.append(0, combination), return_inverse=True)[1][1:]
    combination = combination << 1 | unresolvable
    index: Int32 = np.zeros(number_of_nodes, dtype=np.int32)
    statuses: list[Status] = []
    while combination[first := combination.argmax()]:  # faster than `unique` for few combinations
        reasons = [reason for reason, lacking, _, _ in shortages if lacking[first]]
        statuses.append(Status.unresolvable(*reasons) if unresolvable[first] else Status.unschedulable(*reasons))
        found = combination == combination[first]
        index[found] = len(statuses)
        combination[found] = 0
    return Rejections(index, statuses)
