"""Verdicts that count nominated pods, kept up to date row by row.

A node with nominated pods is filtered twice, with and without them. That would cost each pod of a key as much as the
first one. So the verdicts are kept, and only rows are filtered again that changed, or whose nominations did.
"""

from __future__ import annotations

from collections.abc import Hashable

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.row_changes import RowChanges
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import Code
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.framework.what_if import filter_nominated


class NominatedVerdicts:
    """The verdicts of `filter_nominated` on all rows, for pods of one priority and one key.

    Only rows that changed, or whose nominated pods did, are filtered again.
    """

    def __init__(self) -> None:
        self._changes: RowChanges | None = None
        """None while there are no verdicts."""
        self._verdicts: Verdicts
        self._of: Hashable = None
        """The priority of the pods that the verdicts are valid for."""
        self._stale: set[int] = set()
        """Rows whose verdicts are not valid for all of these pods."""

    def of(
        self, profile: Profile, nominations: Nominations, cycle: CycleState, pod: PodInfo, plain: Verdicts
    ) -> Verdicts:
        """Return the verdicts for a pod, frozen. They are kept for the latest priority.

        `plain`: the verdicts without nominated pods.
        """
        self._find_stale(nominations, pod.priority, plain)
        table, stale = plain.nodes.table, self._stale
        own = table.row_of.get(nominations.node_of(pod.uid) or "")  # its own nomination doesn't count for the pod
        if own is not None:
            stale.add(own)
        if not stale:
            return self._verdicts
        verdicts, rows = self._verdicts.copy(), sorted(stale)
        for row in rows:
            verdicts.adopt(row, plain)
        names = [name for row in rows if (name := table.names[row]) in nominations.nodes]
        filter_nominated(profile, nominations, cycle, pod, verdicts, names)
        self._stale = {row for row in stale if verdicts.of(row).code is Code.ERROR}
        if own is not None:
            self._stale.add(own)
        self._verdicts = verdicts.freeze()
        return self._verdicts

    def _find_stale(self, nominations: Nominations, priority: int, plain: Verdicts) -> None:
        """Find the rows that changed, or whose nominated pods did."""
        table = plain.nodes.table
        changed = None
        if self._changes is not None and priority == self._of:
            changed = self._changes.take(table)
        if changed is None or len(changed) >= table.size:
            self._changes, self._of = RowChanges(table, nominations), priority
            self._verdicts, self._stale = plain, set()
            changed = [row for name in nominations.nodes if (row := table.row_of.get(name)) is not None]
        self._stale.update(row for row in changed if row < table.size)
