"""The results of dry runs, kept by row for the next preemptors.

In a full cluster, hundreds of pods preempt in a row. A row's result holds until the row, its pods or its nominations
change, so each preemption tries only the rows that the last one changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.row_changes import RowChanges
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.plugins.default_preemption.candidates import preference

UNKNOWN, NO_CANDIDATE, HARMFUL, HARMLESS = range(4)
"""What is known about a row. A candidate is harmless if its victims violate no budget."""


class Ranking(NamedTuple):
    """Candidates, in the order in which they are offered, and the best one of them; None if there are none."""

    candidates: tuple[Candidate, ...]
    best: Candidate | None


class Results:
    """The results of dry runs by row, for pods of one priority with equal verdicts, while the budgets don't change.

    The result for a row is valid as long as the row, its pods and its nominated pods are the same. Memory: 14 bytes a
    row, and the candidates.
    """

    def __init__(self, nodes: Nodes, nominations: Nominations) -> None:
        table = nodes.table
        self.verdicts = Verdicts(nodes)
        self._known = np.full(len(nodes), UNKNOWN, dtype=np.int8)
        self._candidates: dict[int, Candidate] = {}
        """By row. Those of rows that are no longer candidates remain."""
        self._preferences: dict[int, tuple[float, ...]] = {}
        """By row: the sort key of the candidate."""
        self._changes = RowChanges(table, nominations)
        self._replaced, self._replacements = table.replaced, table.replacements[: len(nodes)].copy()

    def refresh(self) -> None:
        """Forget the results that are no longer valid."""
        table, known = self.verdicts.nodes.table, self._known
        self.forget([row for row in self._changes.take(table) if row < len(known)])
        if table.replaced != self._replaced:
            replacements = table.replacements[: len(known)].copy()
            known[replacements != self._replacements] = UNKNOWN
            self._replaced, self._replacements = table.replaced, replacements

    def forget(self, rows: Sequence[int]) -> None:
        """Make results unknown."""
        self._known[rows] = UNKNOWN

    def store(self, rows: Rows, verdicts: Verdicts, candidates: Mapping[int, Candidate]) -> None:
        """Store the verdicts on rows, and their candidates by row."""
        self.verdicts.replace(rows, verdicts)
        self._known[rows] = NO_CANDIDATE
        for row, candidate in candidates.items():
            self._known[row] = HARMFUL if candidate.violations else HARMLESS
            self._candidates[row], self._preferences[row] = candidate, preference(candidate)

    def enough(self, rows: Rows, wanted: int) -> Rows:
        """Return the first of these rows that have enough candidates, or all if they don't.

        That is `wanted` candidates, one of them harmless. Unknown rows count as rows without a candidate.
        """
        known = self._known[rows]
        found = (known >= HARMFUL).nonzero()[0]
        harmless = known[found] == HARMLESS
        if len(found) < wanted or not np.count_nonzero(harmless):
            return rows
        return rows[: max(found.item(max(wanted, 1) - 1), found.item(harmless.argmax())) + 1]

    def unknown(self, rows: Rows) -> Rows:
        """Return those of these rows whose results are unknown."""
        unknown: Rows = rows[self._known[rows] == UNKNOWN]
        return unknown

    def candidates(self, rows: Rows, harmful: int) -> Ranking:
        """Return the candidates on these rows: the harmless ones, then up to a number of others."""
        known = self._known[rows]
        chosen = rows[known == HARMLESS].tolist()
        if len(chosen) < len(rows):
            chosen += rows[known == HARMFUL][:harmful].tolist()
        if not chosen:
            return Ranking((), None)
        best = min(chosen, key=self._preferences.__getitem__)
        return Ranking(tuple(map(self._candidates.__getitem__, chosen)), self._candidates[best])
