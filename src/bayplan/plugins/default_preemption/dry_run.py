"""Dry runs of preemption: selects the victims on many nodes at once.

On each node, all pods of lower priority are removed, then restored one after the other as long as the pod still fits.
The nodes are independent of each other, so each step is done for all nodes together. Mirrors DryRunPreemption and
SelectVictimsOnNode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.columns import Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_changes import PodChanges
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate, CycleState, WhatIf
from bayplan.framework.status import Code, Status
from bayplan.framework.verdicts import Rejections, Verdicts
from bayplan.plugins.default_preemption.budgets import Budgets
from bayplan.plugins.default_preemption.candidates import most_important_first
from bayplan.plugins.default_preemption.results import Ranking, Results

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")


@dataclass(slots=True)
class Reprieve:
    """A node that is feasible if all pods of lower priority are removed, and the progress of restoring these.

    Attributes:
        position: the node's position in the selection.
        changes: the what-if, which removes the pods that are not restored.
        pods: the pods in the order in which they are restored.
        violating: how many of `pods`, from the first, are protected by a budget.
        victims: the pods that could not be restored.
        violations: how many of the victims are protected by a budget.
    """

    position: int
    changes: PodChanges
    pods: list[PodInfo]
    violating: int
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0


class DryRun:
    """Dry-runs preemption for a pod on nodes, in the given order.

    `nominations`: those that `what_if` counts. `results`: of earlier dry runs, which are completed. `errors`: messages
    of errors on single nodes.
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
    ) -> None:
        self._what_if = what_if
        self._cycle = cycle
        self._pod = pod
        self._nodes = nodes
        self._budgets = budgets
        self._results = results or Results(Nodes(nodes.table))
        self._results.refresh(nominations)
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
        without = self._nodes.table.lowest_priority[self._nodes.rows] >= self._pod.priority
        verdicts.feasible_mask |= without
        verdicts.codes[without] = 0
        verdicts.reject(Rejections.where(without, NO_VICTIMS), "")
        return verdicts

    def _rows_with_lower(self) -> Rows:
        """Return the rows with pods of lower priority, in the order of the nodes."""
        nodes = self._nodes
        rows = np.arange(len(nodes)) if isinstance(nodes.rows, slice) else nodes.rows
        return rows[nodes.table.lowest_priority[rows] < self._pod.priority]

    def _try(self, rows: Rows) -> bool:
        """Dry-run the nodes of some rows, and store the results. Returns whether there are candidates among them."""
        nodes = Nodes(self._nodes.table, rows)
        what_ifs = self._without_lower(rows)
        verdicts = self._filter(nodes.changed(what_ifs))
        failed: list[int] = []
        if verdicts.error() is not None:
            failed = [position for position, status in verdicts.rejected() if status.code is Code.ERROR]
        self.errors += [verdicts.of(position).message for position in failed]
        reprieves = [self._reprieve(position, what_ifs[position]) for position in verdicts.feasible().tolist()]
        turn = 0
        while unfinished := [each for each in reprieves if turn < len(each.pods)]:
            self._restore(nodes, unfinished, turn)
            turn += 1
        found = {each.position: self._candidate(nodes, each) for each in reprieves}
        failed += [position for position, candidate in found.items() if candidate is None]
        candidates = {nodes.row(position): each for position, each in found.items() if each is not None}
        self._results.store(rows, verdicts, candidates)
        self._unshared += rows[failed].tolist()
        return bool(candidates)

    def _without_lower(self, rows: Rows) -> dict[int, PodChanges]:
        """Return, for each row, a what-if that removes all pods of lower priority."""
        priority, pods = self._pod.priority, self._nodes.table.pods
        return {
            position: PodChanges(removed=[pod for pod in pods[row].values() if pod.priority < priority])
            for position, row in enumerate(rows.tolist())
        }

    def _reprieve(self, position: int, changes: PodChanges) -> Reprieve:
        violating, others = self._budgets.split(most_important_first(changes.removed))
        return Reprieve(position, changes, violating + others, len(violating))

    def _restore(self, nodes: Nodes, reprieves: list[Reprieve], turn: int) -> None:
        """Restore one more pod on each node, and remove it again if the pending pod does not fit then."""
        for each in reprieves:
            each.changes.restore(each.pods[turn])
        positions = np.array([each.position for each in reprieves], dtype=np.intp)
        what_ifs = {index: each.changes for index, each in enumerate(reprieves)}
        fits = self._filter(nodes.at(positions).changed(what_ifs), again=True).feasible_mask
        for each, fit in zip(reprieves, fits.tolist(), strict=True):
            if not fit:
                each.changes.remove(each.pods[turn])
                each.victims.append(each.pods[turn])
                each.violations += turn < each.violating

    def _candidate(self, nodes: Nodes, reprieve: Reprieve) -> Candidate | None:
        name = nodes.name(reprieve.position)
        if not reprieve.victims:  # a plugin rejected the unchanged node, but accepts it with all pods restored
            self.errors.append(f'expected at least one victim pod on node "{name}"')
            return None
        victims = reprieve.victims
        if 0 < reprieve.violating < len(reprieve.pods):
            victims = most_important_first(victims)
        return Candidate(name, tuple(victims), reprieve.violations)

    def _filter(self, nodes: Nodes, *, again: bool = False) -> Verdicts:
        return self._what_if.filter(self._cycle, self._pod, nodes, again=again)
