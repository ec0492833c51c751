"""Judgement: how a decision of another scheduler stands beside the one that is made here in the same situation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from bayplan.answers.judging.choices import plugin_differences
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.scheduling import Decision


class Standing(StrEnum):
    """How two decisions stand.

    SAME: they are the same. TIE: another one that is as good; chance decides. SAMPLED: theirs is the best one of those
    nodes that a scheduler of large clusters may have looked at. OTHER_ORDER: theirs is as good once bindings are
    counted in the order of the queue, in place of that in which they were seen. BETTER: the decision here is better.
    """

    SAME = "same"
    TIE = "tie"
    SAMPLED = "sampled"
    OTHER_ORDER = "other order"
    BETTER = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is decided here, beside another scheduler's decision.

    `ours`, `theirs`: the nodes; "" for none. `loss`: how far theirs is from being equal: for placements, in points;
    infinity if that can't be said. `decision`: the one here, if one was made. `victims`: the pods that it evicts.
    """

    standing: Standing
    ours: str
    theirs: str
    loss: float = math.inf
    decision: Decision | None = None
    message: str = ""
    victims: frozenset[str] = frozenset()

    @property
    def equal(self) -> bool:
        """Whether the other scheduler's decision is as good as any."""
        return self.standing is not Standing.BETTER

    def plugins(self, table: NodeTable) -> tuple[tuple[str, int], ...]:
        """Return the weighted scores that differ the most, by plugin: those of our node minus those of theirs.

        Empty where one of the nodes isn't feasible, and where the decision was made without `explain`.
        """
        if self.decision is None or not self.ours:
            return ()
        return plugin_differences(table, self.decision, self.ours, self.theirs)
