"""Dry runs of preemption: selects the victims on many nodes at once.

On each node, all pods of lower priority are removed, then restored one after the other as long as the pod still fits.
The nodes are independent of each other, so each step is done for all nodes together. Mirrors DryRunPreemption and
SelectVictimsOnNode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.columns import Bool, Int64, Rows
from bayplan.cluster.nodes import Nodes, PodChanges
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate, CycleState, WhatIf
from bayplan.framework.status import Code, Status
from bayplan.framework.verdicts import Rejections, Verdicts
from bayplan.plugins.default_preemption.budgets import Budgets
from bayplan.plugins.default_preemption.candidates import most_important_first, preference

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


class Results:
    """The results of dry runs by row, for pods of one priority with equal verdicts, while the budgets don't change.

    The result for a row is valid as long as the row, its pods and its nominated pods are the same. Memory: 20 bytes a
    row, and the candidates.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.verdicts = Verdicts(nodes)
        self.candidates: dict[int, Candidate] = {}
        self._preferences: dict[str, tuple[Candidate, tuple[float, ...]]] = {}
        """By node, for the candidate that it was computed for."""
        self._versions: Int64 = np.full(len(nodes), -1, dtype=np.int64)
        self._nominations: Int64 = np.zeros(len(nodes), dtype=np.int64)

    def missing(self, rows: Rows, nominations: Int64) -> Bool:
        """Return whether the result for each row is unknown or no longer valid.

        `nominations`: the version of the nominations to each row of the table (see `Nominations.version_on`).
        """
        missing: Bool = self._versions[rows] != self._current(rows)
        missing |= self._nominations[rows] != nominations[rows]
        return missing

    def store(self, rows: Rows, nominations: Int64, verdicts: Verdicts, candidates: Mapping[int, Candidate]) -> None:
        """Store the verdicts on rows, and their candidates by row. `nominations`: as for `missing`."""
        self.verdicts.replace(rows, verdicts)
        for row in rows.tolist():
            self.candidates.pop(row, None)
        self.candidates.update(candidates)
        self._versions[rows] = self._current(rows)
        self._nominations[rows] = nominations[rows]

    def forget(self, rows: Rows) -> None:
        """Make results unknown."""
        self._versions[rows] = -1

    def preference(self, candidate: Candidate) -> tuple[float, ...]:
        """Return the sort key `candidates.preference` of a candidate. Computed once."""
        known, key = self._preferences.get(candidate.node_name, (None, ()))
        if known is not candidate:
            key = preference(candidate)
            self._preferences[candidate.node_name] = candidate, key
        return key

    def _current(self, rows: Rows) -> Int64:
        table = self.verdicts.nodes.table
        return table.row_version[rows] + table.replacements[rows]


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
        self.errors: list[str] = []
        table = nodes.table
        self._nominations: Int64 = np.zeros(table.size, dtype=np.int64)
        for name, row in Nodes(table).positions(nominations.nodes).items():
            self._nominations[row] = nominations.version_on(name)
        own = table.row_of.get(nominations.node_of(pod.uid) or "")
        self._unshared: list[int] = [] if own is None else [own]
        """Rows whose results other pods must not use: after errors, and where the pod itself is nominated."""

    def candidates(self, wanted: int) -> list[Candidate]:
        """Return at least `wanted` candidates, one of them without budget violations, if the nodes have as many.

        Candidates without violations come first.
        """
        nonviolating: list[Candidate] = []
        violating: list[Candidate] = []
        rows, results = self._rows_with_lower(), self._results
        self._forget()
        for start in range(0, len(rows), max(1, wanted)):
            part = rows[start : start + wanted]
            missing = part[results.missing(part, self._nominations)]
            if len(missing):
                self._try(missing)
            for row in part[results.verdicts.feasible_mask[part]].tolist():
                candidate = results.candidates.get(row)
                if candidate is None:
                    continue
                if candidate.violations == 0:
                    nonviolating.append(candidate)
                elif len(violating) < wanted:
                    violating.append(candidate)
                if nonviolating and len(nonviolating) + len(violating) >= wanted:
                    self._forget()
                    return nonviolating + violating
        self._forget()
        return nonviolating + violating

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

    def _forget(self) -> None:
        self._results.forget(np.array(self._unshared, dtype=np.intp))

    def _try(self, rows: Rows) -> None:
        """Dry-run the nodes of some rows, and store the results."""
        nodes = Nodes(self._nodes.table, rows)
        what_ifs = self._without_lower(nodes)
        verdicts = self._filter(nodes.changed(what_ifs))
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
        self._results.store(rows, self._nominations, verdicts, candidates)
        self._unshared += rows[failed].tolist()

    def _without_lower(self, nodes: Nodes) -> dict[int, PodChanges]:
        """Return, for each node, a what-if that removes all pods of lower priority."""
        priority = self._pod.priority
        return {
            position: PodChanges(removed=[pod for pod in nodes.pods(position) if pod.priority < priority])
            for position in range(len(nodes))
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
        fits = self._filter(nodes.at(positions).changed(what_ifs)).feasible_mask
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

    def _filter(self, nodes: Nodes) -> Verdicts:
        return self._what_if.filter(self._cycle, self._pod, nodes)
