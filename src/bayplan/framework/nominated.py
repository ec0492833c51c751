"""Verdicts that count nominated pods, kept up to date row by row."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Profile
from bayplan.framework.status import Code
from bayplan.framework.verdicts import Verdicts
from bayplan.framework.what_if import filter_nominated


class NominatedVerdicts:
    """The verdicts of `filter_nominated` on all rows, for pods with the same verdicts without nominated pods.

    `plain`: the verdicts without nominated pods. Their owner updates them in place, whenever a row changes. Only rows
    that changed since, or whose nominated pods did, are filtered again.
    """

    def __init__(self, plain: Verdicts) -> None:
        self._plain = plain
        self._verdicts = plain
        self._known: tuple[int, int] | None = None
        """The versions of the table and of the nominations that the verdicts are valid for; None for none."""
        self._kind: Hashable = None
        """The pods that the verdicts are valid for: their priority, and what filters read of them besides."""
        self._stale: set[int] = set()
        """Rows whose verdicts are not valid for all of these pods."""

    def of(
        self, profile: Profile, nominations: Nominations, cycle: CycleState, pod: PodInfo, kind: Hashable
    ) -> Verdicts:
        """Return the verdicts for a pod. They are read-only.

        `kind`: equal for pods that filters treat alike on each node. Verdicts are kept for the latest kind.
        """
        self._find_stale(nominations, (pod.priority, kind))
        table, stale = self._plain.nodes.table, self._stale
        own = table.row_of.get(nominations.node_of(pod.uid) or "")  # its own nomination doesn't count for the pod
        if own is not None:
            stale.add(own)
        if not stale:
            return self._verdicts
        verdicts, rows = self._verdicts, sorted(stale)
        for row in rows:
            verdicts.adopt(row, self._plain)
        names = [name for row in rows if (name := table.names[row]) in nominations.nodes]
        filter_nominated(profile, nominations, cycle, pod, verdicts, names)
        self._stale = {row for row in stale if verdicts.of(row).code is Code.ERROR}
        if own is not None:
            self._stale.add(own)
        return verdicts

    def _find_stale(self, nominations: Nominations, kind: Hashable) -> None:
        """Find the rows that changed, or whose nominated pods did."""
        table = self._plain.nodes.table
        rows = names = None
        if self._known is not None and kind == self._kind:
            rows, names = table.changed_since(self._known[0]), nominations.changed_since(self._known[1])
        if rows is None or names is None:
            self._verdicts, self._stale = self._plain.copy(), set()
            rows, names = np.zeros(0, dtype=np.intp), nominations.nodes.keys()
        self._stale.update(rows.tolist())
        self._stale.update([row for name in names if (row := table.row_of.get(name)) is not None])
        self._known, self._kind = (table.version, nominations.version), kind
