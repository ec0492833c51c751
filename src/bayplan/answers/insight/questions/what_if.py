"""what-if: which pods would be placed, pending or elsewhere after changes of the cluster or the configuration.

Both sides are outcomes (`outcomes.py`): the pending pods have had their turn. `edits.py` makes the changed snapshot,
the world moves there and back. With `--replace-all`, pods give up their nodes in the world, after the move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import Progress, listed, plural, silent
from bayplan.answers.insight.limits import AdditionLimit, Limits
from bayplan.answers.insight.questions.comparing import changes_table, summary
from bayplan.answers.insight.questions.edits import Changes, Edited, edited
from bayplan.answers.insight.questions.new_objects import bind_immediately
from bayplan.answers.insight.questions.outcomes import (
    Order,
    OutcomeComparison,
    PodChange,
    after_scheduling,
    by_workload,
    compare,
    pending_in,
)
from bayplan.answers.insight.questions.replacing import by_workload_in_turn, replace_all, stays
from bayplan.answers.insight.questions.requests_effect import RequestsEffect
from bayplan.answers.insight.questions.rolling_out import RolledOut, replace_at_once, roll_out
from bayplan.answers.insight.questions.tolerated_for_a_time import ToleratedForATime, tolerated_for_a_time
from bayplan.answers.insight.questions.utilization import before_and_after
from bayplan.answers.insight.tables import labelled
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf(OutcomeComparison):
    """How a cluster differs after hypothetical changes.

    `steps`: the changes, in the order in which they were made. `emptied`: nodes on which only pods of DaemonSets and
    static pods are left. `leaving`: placed pods that would be evicted again. `rollouts`: those of the changed
    workloads. `problems`: recommendations that can't be used.
    `requests`: what new requests bring; None if none are asked about.
    """

    steps: tuple[str, ...]
    emptied: tuple[str, ...] = ()
    leaving: tuple[ToleratedForATime, ...] = ()
    rollouts: tuple[RolledOut, ...] = ()
    problems: tuple[str, ...] = ()
    requests: RequestsEffect | None = None

    @property
    def interrupted(self) -> bool:
        """Whether not all changes of requests were tried alone."""
        return self.requests is not None and self.requests.interrupted

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md. `summary`: what changes, in one sentence."""
        return {"summary": summary(self._changed(), self.pending), **OutcomeComparison.to_dict(self)}

    def _changed(self) -> list[PodChange]:
        """The pods that don't only have another message."""
        return [pod for pod in self.pods if pod.states != ("pending", "pending")]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, the changes, the workloads and pods, and the utilization."""
        changed = self.pods if wide else self._changed()
        names = listed(self.emptied, len(self.emptied) if wide or not self.shown else self.shown)
        emptied = [Text(f"{plural(len(self.emptied), 'node')} would be empty: {names}")] if self.emptied else []
        stuck = [Text(str(each), style="bold") for each in self.rollouts if each.stuck]
        limit = 0 if wide else self.shown
        return Lines(
            Text(summary(changed, self.pending), style="bold"),
            Text(f"if you {', then '.join(self.steps)}" if self.steps else "what you ask for is there already"),
            *stuck,
            *emptied,
            *labelled("note", [str(each) for each in self.leaving], limit),
            *labelled("left out", self.problems, limit, "yellow"),
            *(() if self.requests is None else self.requests.render(limit)),
            *changes_table(changed, self.workloads, self.shown, wide=wide),
            Text(),
            before_and_after(self.before, self.after, ("BEFORE", "AFTER")),
        )


def what_if(
    world: World,
    other: World,
    snapshot: Snapshot,
    changes: Changes,
    seed: int = 0,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    *,
    shown: int = 20,
    observe: Callable[[World], object] = lambda _: None,
    progress: Progress = silent,
) -> WhatIf:
    """Compare a snapshot, which `world` holds, with the changed one, in the world `other`.

    `other` may be the same world, and then ends as it began. `observe` is called with the world of each side after its
    pending pods have been attempted, first with the unchanged one. Raises QuestionError for impossible changes,
    LimitError, and Stopped if `progress` does.
    """
    edit = edited(world, snapshot, changes, seed, AdditionLimit(limits, progress))
    used: list[frozenset[str]] = []
    leaving: list[ToleratedForATime] = []

    def look(seen: World) -> None:
        if used:
            leaving.extend(tolerated_for_a_time(seen, snapshot, edit.snapshot))
        used.append(nodes_in_use(seen))
        observe(seen)

    before, usage_before = after_scheduling(world, look, progress)
    with carried_out(world, other, snapshot, edit, progress) as (rollouts, order):
        left = frozenset(edit.snapshot.of_kind(NODE))
        after, usage_after = after_scheduling(other, look, progress, order)
    steps = edit.steps if other is world else (*edit.steps, "use the other configuration")
    pods = compare(before, after)
    return WhatIf(
        steps=steps,
        emptied=tuple(sorted((used[0] - used[1]) & left)),
        leaving=tuple(leaving),
        rollouts=tuple(rollouts),
        problems=edit.problems,
        pods=pods,
        workloads=by_workload(pods, before, after),
        pending=pending_in(after),
        before=usage_before,
        after=usage_after,
        shown=shown,
    )


@contextmanager
def carried_out(
    world: World, other: World, snapshot: Snapshot, edit: Edited, progress: Progress = silent
) -> Iterator[tuple[list[RolledOut], Order | None]]:
    """Let `other` hold a changed snapshot, with its rollouts carried out and the pending pods as they are.

    Yields the rollouts, and the order in which the pending pods have their turn. `world` holds `snapshot`; if it is
    `other`, too, it does so again afterwards. Raises Stopped if `progress` does.
    """
    now = world.handle.time
    other.move(edit.snapshot.documents, now)
    try:
        for key in edit.new_claims:
            if key in other.state.objects[PERSISTENT_VOLUME_CLAIM]:
                bind_immediately(other, key)
        with other.what_if():
            if edit.replaces_all:
                replace_at_once(other, edit.coming)
                replace_all(other)
                yield [], partial(by_workload_in_turn, other)
            else:
                yield roll_out(other, edit.coming, progress), None
    finally:
        if other is world:
            world.move(snapshot.documents, now)


def changed_snapshot(world: World, snapshot: Snapshot, changes: Changes, seed: int, room: AdditionLimit) -> Snapshot:
    """Return a snapshot, which `world` holds, as it is after changes and the rollouts that they lead to.

    Raises QuestionError, LimitError, and Stopped.
    """
    edit = edited(world, snapshot, changes, seed, room)
    with carried_out(world, world, snapshot, edit, room.progress):
        return edit.snapshot.with_objects(world.changed_objects())


def nodes_in_use(world: World) -> frozenset[str]:
    """Return the names of the nodes that have pods other than those of DaemonSets and static ones."""
    nodes = world.state.nodes
    rows = np.flatnonzero(nodes.live & (nodes.pod_count > 0)).tolist()
    return frozenset(nodes.name(row) for row in rows if not all(map(stays, nodes.pods(row))))
