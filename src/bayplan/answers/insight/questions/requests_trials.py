"""A what-if, and the trials of its new requests: all of them, one workload's alone, and all but one workload's.

Each trial is a what-if of its own, with the rollouts that the change leads to (`what_if.carried_out`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from bayplan.answers.insight.answers import Progress, Stopped, silent
from bayplan.answers.insight.limits import AdditionLimit, Limits
from bayplan.answers.insight.questions.edits import Changes, Edited, edited
from bayplan.answers.insight.questions.node_search import PoolLimits
from bayplan.answers.insight.questions.outcomes import schedule_pending
from bayplan.answers.insight.questions.requests_effect import (
    ClusterNeed,
    MoreNodes,
    PriceOf,
    RequestsEffect,
    RequestTrials,
    need_of,
    pending_of,
    placed_since,
)
from bayplan.answers.insight.questions.scale_up import scale_up
from bayplan.answers.insight.questions.what_if import WhatIf, carried_out, what_if
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo

_ROUNDS = 10
"""How often more nodes are added at most, until rollouts end."""


@dataclass(frozen=True, slots=True)
class ChangesQuestion:
    """A cluster, and changes of it. `world` holds `snapshot`; `other` is that of the scheduler then."""

    world: World
    other: World
    snapshot: Snapshot
    changes: Changes
    seed: int = 0
    limits: Limits = Limits()  # noqa: RUF009 - immutable
    price_of: PriceOf | None = None

    def answer(self, shown: int = 20, progress: Progress = silent) -> WhatIf:
        """Return which pods change, and what new requests bring.

        Raises QuestionError, LimitError, and Stopped before anything is known.
        """
        found = what_if(
            self.world,
            self.other,
            self.snapshot,
            self.changes,
            self.seed,
            self.limits,
            shown=shown,
            progress=progress,
        )
        asked = self.changes.requests or self.changes.scale_requests
        return replace(found, requests=self._effect(progress)) if asked else found

    def _effect(self, progress: Progress) -> RequestsEffect:
        """What new requests bring."""
        edit = self._edited(None, progress)
        pods = Counter(workload_of(pod) for pod in self.world.state.objects[POD].values() if not pod.terminating)
        trials = RequestTrials(partial(self._need, progress), partial(self._more_nodes, progress), progress)
        return trials.effect(edit.requests, pods, edit.coming.rollouts)

    def _more_nodes(self, progress: Progress, before: ClusterNeed) -> MoreNodes:
        """The new nodes with which no pod is pending that was not before: more, as long as rollouts get stuck."""
        added: Counter[str] = Counter()
        limits = PoolLimits() if self.price_of is None else PoolLimits(price_of=self.price_of)
        lacks: tuple[str, ...] = ()
        for _ in range(_ROUNDS):
            new = [f"{number}xlike:{like}" for like, number in added.items()]
            changes = replace(self.changes, add_nodes=[*self.changes.add_nodes, *new])
            edit = self._edited(None, progress, changes)
            with carried_out(self.world, self.other, self.snapshot, edit, progress) as (_, order):
                states = schedule_pending(self.other, order or self.other.in_queue_order, progress)
                lacks = placed_since(pending_of(states), before.pending)
                if not lacks:
                    break
                matches = partial(_is_one_of, frozenset(lacks))
                found = scale_up(self.other, matches=matches, limits=limits, progress=progress)
            if found.interrupted:
                raise Stopped
            if not found.enough:
                break
            for each in found.enough:
                added[each.like] += each.nodes
        return MoreNodes(dict(added), len(lacks))

    def _edited(self, requests_of: frozenset[str] | None, progress: Progress, changes: Changes | None = None) -> Edited:
        room = AdditionLimit(self.limits, progress)
        return edited(self.world, self.snapshot, changes or self.changes, self.seed, room, requests_of)

    def _need(self, progress: Progress, requests_of: frozenset[str]) -> ClusterNeed:
        edit = self._edited(requests_of, progress)
        with carried_out(self.world, self.other, self.snapshot, edit, progress) as (_, order):
            states = schedule_pending(self.other, order or self.other.in_queue_order, progress)
            return need_of(self.other, states, self.price_of, progress)


def _is_one_of(keys: frozenset[str], pod: PodInfo) -> bool:
    return pod.key in keys
