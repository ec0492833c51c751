"""Dry runs of preemption: selects the victims on many nodes at once.

On each node, all pods of lower priority are removed, then restored one after the other as long as the pod still fits.
The nodes are independent of each other, so each step is done for all nodes together. Mirrors DryRunPreemption and
SelectVictimsOnNode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.columns import Rows
from bayplan.cluster.nodes import Nodes, PodChanges
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate, CycleState, WhatIf
from bayplan.framework.status import Code, Status
from bayplan.framework.verdicts import Rejections, Verdicts
from bayplan.plugins.default_preemption.budgets import Budgets
from bayplan.plugins.default_preemption.candidates import most_important_first

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

    `verdicts`: the verdicts on nodes that are no candidates. `errors`: messages of errors on single nodes.
    """

    def __init__(self, what_if: WhatIf, cycle: CycleState, pod: PodInfo, nodes: Nodes, budgets: Budgets) -> None:
        self._what_if = what_if
        self._cycle = cycle
        self._pod = pod
        self._nodes = nodes
        self._budgets = budgets
        self.verdicts = Verdicts(nodes)
        self.errors: list[str] = []

    def candidates(self, wanted: int) -> list[Candidate]:
        """Return at least `wanted` candidates, one of them without budget violations, if the nodes have as many.

        Candidates without violations come first.
        """
        nonviolating: list[Candidate] = []
        violating: list[Candidate] = []
        for start in range(0, len(self._nodes), max(1, wanted)):
            for candidate in self._try(np.arange(start, min(start + wanted, len(self._nodes)))):
                if candidate.violations == 0:
                    nonviolating.append(candidate)
                elif len(violating) < wanted:
                    violating.append(candidate)
                if nonviolating and len(nonviolating) + len(violating) >= wanted:
                    return nonviolating + violating
        return nonviolating + violating

    def _try(self, positions: Rows) -> list[Candidate]:
        nodes = self._nodes.at(positions)
        what_ifs = self._without_lower(nodes)
        verdicts = self._filter_changed(nodes, what_ifs)
        self.verdicts.replace(positions, verdicts)
        self.errors += [status.message for _, status in verdicts.rejected() if status.code is Code.ERROR]
        reprieves = [self._reprieve(position, what_ifs[position]) for position in verdicts.feasible().tolist()]
        turn = 0
        while unfinished := [each for each in reprieves if turn < len(each.pods)]:
            self._restore(nodes, unfinished, turn)
            turn += 1
        return [candidate for each in reprieves if (candidate := self._candidate(nodes, each)) is not None]

    def _without_lower(self, nodes: Nodes) -> dict[int, PodChanges]:
        """Return, for each node with pods of lower priority, a what-if that removes all of these."""
        priority = self._pod.priority
        return {
            position: PodChanges(removed=[pod for pod in nodes.pods(position) if pod.priority < priority])
            for position in np.flatnonzero(nodes.table.lowest_priority[nodes.rows] < priority).tolist()
        }

    def _filter_changed(self, nodes: Nodes, what_ifs: Mapping[int, PodChanges]) -> Verdicts:
        """Filter the nodes with what-ifs; reject all others."""
        positions = np.fromiter(what_ifs, dtype=np.intp, count=len(what_ifs))
        unchanged = np.ones(len(nodes), dtype=np.bool_)
        unchanged[positions] = False
        verdicts = Verdicts(nodes)
        verdicts.reject(Rejections.where(unchanged, NO_VICTIMS), "")
        if what_ifs:
            verdicts.replace(positions, self._filter(nodes.at(positions).changed(dict(enumerate(what_ifs.values())))))
        return verdicts

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
