"""Dry runs of preemption: selects the victims on many nodes at once.

On each node, all pods of lower priority are removed, then restored one after the other as long as the pod still fits.
The nodes are independent of each other, so each step is done for all nodes together. Mirrors DryRunPreemption and
SelectVictimsOnNode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import compress, islice
from operator import not_

import numpy as np

from bayplan.core.cluster.columns import Bool, Rows
from bayplan.core.cluster.disruption_budgets import Budgets
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_changes import Removals
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Candidate, CycleState, FailedPreemption, WhatIf
from bayplan.core.framework.status import Code, Status
from bayplan.core.framework.verdicts import Rejections, Verdicts
from bayplan.core.plugins.default_preemption.candidates import importance_order
from bayplan.core.plugins.default_preemption.results import Ranking, Results

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")


class DryRun:
    """Dry-runs preemption for a pod on nodes, in the given order.

    `nominations`: those that `what_if` counts. `results`: of earlier dry runs, which are completed.
    `unstarted_in_order`: see `importance_order`. `errors`: messages of errors on single nodes.
    """

    def __init__(
        self,
        what_if: WhatIf,
        cycle: CycleState,
        pod: PodInfo,
        nodes: Nodes,
        budgets: Budgets,
        nominations: Nominations,
        results: Results | None = None,
        *,
        unstarted_in_order: bool = False,
    ) -> None:
        self._what_if = what_if
        self._cycle = cycle
        self._pod = pod
        self._nodes = nodes
        self._budgets = budgets
        self._results = results or Results(Nodes(nodes.table), nominations)
        self._results.refresh()
        self._by_importance = partial(importance_order, unstarted_in_order=unstarted_in_order)
        self.errors: list[str] = []
        own = nodes.table.row_of.get(nominations.node_of(pod.uid) or "")
        self._unshared: list[int] = [] if own is None else [own]
        """Rows whose results other pods must not use: after errors, and where the pod itself is nominated."""

    def candidates(self, wanted: int) -> Ranking:
        """Return at least `wanted` candidates, one of them without budget violations, if the nodes have as many.

        Candidates without violations come first.
        """
        rows, results = self._rows_with_lower(), self._results
        results.forget(self._unshared)
        while True:
            first = results.enough(rows, wanted)
            unknown = results.unknown(first)
            if not len(unknown):
                break
            tried = unknown[: max(wanted, 1)]  # not too many dry runs at once: some may be candidates
            if not self._try(tried) and len(tried) == len(unknown):
                break
        ranking = results.candidates(first, wanted)
        results.forget(self._unshared)
        return ranking

    def verdicts(self) -> Verdicts:
        """Return the verdicts on all nodes. The dry run must have tried all of them."""
        verdicts = self._results.verdicts.among(self._nodes).copy()
        without = ~self._has_lower(self._rows())
        verdicts.feasible_mask |= without
        verdicts.codes[without] = 0
        verdicts.reject(Rejections.where(without, NO_VICTIMS), "")
        return verdicts

    def failures(self) -> list[FailedPreemption]:
        """Try all nodes, and return those that aren't candidates, with what rejects the pod there."""
        found = {each.node_name for each in self.candidates(len(self._nodes)).candidates}
        verdicts, lower = self.verdicts(), self._without_lower(self._rows()).pods
        return [
            FailedPreemption(name, len(pods), verdicts.of(position).reasons)
            for position, pods in enumerate(lower)
            if (name := self._nodes.name(position)) not in found
        ]

    def _rows_with_lower(self) -> Rows:
        """Return the rows with pods of lower priority, in the order of the nodes."""
        rows = self._rows()
        return rows[self._has_lower(rows)]

    def _rows(self) -> Rows:
        rows = self._nodes.rows
        return np.arange(len(self._nodes)) if isinstance(rows, slice) else rows

    def _has_lower(self, rows: Rows) -> Bool:
        """Return for each row whether it has pods of lower priority: bool, shape (len(rows),)."""
        lower: Bool = self._nodes.table.lowest_priority[rows] < self._pod.priority
        return lower

    def _try(self, rows: Rows) -> bool:
        """Dry-run the nodes of some rows, and store the results. Returns whether there are candidates among them."""
        removals = self._without_lower(rows)
        verdicts = self._filter(Nodes(self._nodes.table, rows, removals))
        failed: list[int] = []
        if verdicts.error() is not None:
            failed = [position for position, status in verdicts.rejected() if status.code is Code.ERROR]
        self.errors += [verdicts.of(position).message for position in failed]
        feasible = verdicts.feasible()
        candidates: dict[int, Candidate] = {}
        for position, candidate in zip(
            feasible.tolist(), self._candidates(rows[feasible], removals.at(feasible)), strict=True
        ):
            if candidate.victims:
                candidates[rows.item(position)] = candidate
            else:  # a plugin rejected the unchanged node, but accepts it with all pods restored
                self.errors.append(f'expected at least one victim pod on node "{candidate.node_name}"')
                failed.append(position)
        self._results.store(rows, verdicts, candidates)
        self._unshared += rows[failed].tolist()
        return bool(candidates)

    def _without_lower(self, rows: Rows) -> Removals:
        """Return what-ifs that remove all pods of lower priority."""
        priority, pods = self._pod.priority, self._nodes.table.pods
        return Removals([[pod for pod in pods[row].values() if pod.priority < priority] for row in rows.tolist()])

    def _candidates(self, rows: Rows, removals: Removals) -> Iterator[Candidate]:
        """Yield the candidate of each row, maybe without victims. The rows are feasible with all these removals."""
        if not len(rows):
            return
        removals = removals.ordered(self._by_importance(removals.pods))
        violating = [0] * len(rows)
        if self._budgets:  # pods that a budget protects are restored first
            protected = list(map(self._budgets.violations, removals.pods))
            removals = Removals(list(map(_marked_first, removals.pods, protected)))
            violating = list(map(sum, protected))
        self._reprieve(rows, removals)
        names, removed = self._nodes.table.names, iter(removals.removed.tolist())
        for row, pods, first in zip(rows.tolist(), removals.pods, violating, strict=True):
            gone = list(islice(removed, len(pods)))
            victims = tuple(compress(pods, gone))
            if 0 < first < len(pods):  # else they are still sorted by importance
                victims = tuple([victims[index] for index in self._by_importance([victims]).tolist()])
            yield Candidate(names[row], victims, sum(gone[:first]) if first else 0)

    def _reprieve(self, rows: Rows, removals: Removals) -> None:
        """Restore the pods of each row one after the other, except those with which the pending pod does not fit."""
        left, turn = np.arange(len(rows)), 0
        while len(left):
            some = removals.at(left)
            nodes, turns = Nodes(self._nodes.table, rows[left], some), some.sizes.min().item()
            for each in range(turn, turns):
                turn_of = some.starts + each
                some.removed[turn_of] = False
                some.removed[turn_of] = ~self._filter(nodes, again=True).feasible_mask
            removals.removed[removals.places(left)] = some.removed
            left, turn = left[some.sizes > turns], turns

    def _filter(self, nodes: Nodes, *, again: bool = False) -> Verdicts:
        return self._what_if.filter(self._cycle, self._pod, nodes, again=again)


def _marked_first(pods: Sequence[PodInfo], marks: Sequence[bool]) -> list[PodInfo]:
    return [*compress(pods, marks), *compress(pods, map(not_, marks))]
