"""Dry runs: which pods would have to go for a pod to fit, on many nodes at once.

Mirrors DryRunPreemption and SelectVictimsOnNode. What is tried on one node does not touch another, so that all nodes
take every step together: first all pods of lower priority are gone, then each is brought back in turn.
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
    """A node that takes the pod with all pods of lower priority gone, and how far bringing them back has come.

    `position`: in the selection that is tried. `gone`: who is gone at present. `pods`: in the order in which they are
    brought back; the first `violating` of them are protected by a budget. `victims`: those that had to go again.
    """

    position: int
    gone: PodChanges
    pods: list[PodInfo]
    violating: int
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0


class DryRun:
    """Tries nodes, in their order, for a pod that fits on none of them as it is.

    `verdicts`: what was said of the nodes that are no candidates. `errors`: what went wrong on some.
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
        """So many candidates, one of which breaks no budget, as far as there are; those that break none come first."""
        harmless: list[Candidate] = []
        violating: list[Candidate] = []
        for start in range(0, len(self._nodes), max(1, wanted)):
            for candidate in self._try(np.arange(start, min(start + wanted, len(self._nodes)))):
                if candidate.violations == 0:
                    harmless.append(candidate)
                elif len(violating) < wanted:
                    violating.append(candidate)
                if harmless and len(harmless) + len(violating) >= wanted:
                    return harmless + violating
        return harmless + violating

    def _try(self, positions: Rows) -> list[Candidate]:
        nodes = self._nodes.at(positions)
        gone = self._lower_gone(nodes)
        verdicts = self._without(nodes, gone)
        self.verdicts.replace(positions, verdicts)
        self.errors += [status.message for _, status in verdicts.rejected() if status.code is Code.ERROR]
        reprieves = [self._reprieve(position, gone[position]) for position in verdicts.feasible().tolist()]
        turn = 0
        while still := [each for each in reprieves if turn < len(each.pods)]:
            self._bring_back(nodes, still, turn)
            turn += 1
        return [candidate for each in reprieves if (candidate := self._candidate(nodes, each)) is not None]

    def _lower_gone(self, nodes: Nodes) -> dict[int, PodChanges]:
        """The nodes with pods of lower priority, by position, and that all of those are gone."""
        priority = self._pod.priority
        return {
            position: PodChanges(removed=[pod for pod in nodes.pods(position) if pod.priority < priority])
            for position in np.flatnonzero(nodes.table.lowest_priority[nodes.rows] < priority).tolist()
        }

    def _without(self, nodes: Nodes, gone: Mapping[int, PodChanges]) -> Verdicts:
        """What is said of the nodes with these pods gone; those that lose none are out."""
        positions = np.fromiter(gone, dtype=np.intp, count=len(gone))
        nobody = np.ones(len(nodes), dtype=np.bool_)
        nobody[positions] = False
        verdicts = Verdicts(nodes)
        verdicts.reject(Rejections.where(nobody, NO_VICTIMS), "")
        if gone:
            verdicts.replace(positions, self._filter(nodes.at(positions).changed(dict(enumerate(gone.values())))))
        return verdicts

    def _reprieve(self, position: int, gone: PodChanges) -> Reprieve:
        violating, others = self._budgets.split(most_important_first(gone.removed))
        return Reprieve(position, gone, violating + others, len(violating))

    def _bring_back(self, nodes: Nodes, reprieves: list[Reprieve], turn: int) -> None:
        """One more pod comes back on each node, and has to go again where the pod does not fit beside it."""
        for each in reprieves:
            each.gone.restore(each.pods[turn])
        positions = np.array([each.position for each in reprieves], dtype=np.intp)
        what_ifs = {index: each.gone for index, each in enumerate(reprieves)}
        fits = self._filter(nodes.at(positions).changed(what_ifs)).standing
        for each, fit in zip(reprieves, fits.tolist(), strict=True):
            if not fit:
                each.gone.remove(each.pods[turn])
                each.victims.append(each.pods[turn])
                each.violations += turn < each.violating

    def _candidate(self, nodes: Nodes, reprieve: Reprieve) -> Candidate | None:
        name = nodes.name(reprieve.position)
        if not reprieve.victims:  # it was turned down as it is, and yet nobody has to go
            self.errors.append(f'expected at least one victim pod on node "{name}"')
            return None
        victims = reprieve.victims
        if 0 < reprieve.violating < len(reprieve.pods):
            victims = most_important_first(victims)
        return Candidate(name, tuple(victims), reprieve.violations)

    def _filter(self, nodes: Nodes) -> Verdicts:
        return self._what_if.filter(self._cycle, self._pod, nodes)
