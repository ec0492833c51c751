"""KeptNodes: whether a gang keeps the nodes that it has found, while pods on these come back one after the other.

The members have to be `apart` (`GangSearch.apart`): then a node's answer depends on the pods on it alone, and is kept
until another one of these is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.extenders import Question
from bayplan.core.scheduling.decision import Decision
from bayplan.core.scheduling.fit import GangFit
from bayplan.core.scheduling.gang_search import GangSearch


class KeptNodes:
    """The nodes that the members of a gang have found in `first`."""

    def __init__(self, search: GangSearch, first: GangFit) -> None:
        self._search = search
        self._first = first
        self._members: dict[str, list[Decision]] = {}
        for decision in first.placed:
            self._members.setdefault(decision.node or "", []).append(decision)
        self._answers: dict[tuple[str, frozenset[str]], bool] = {}
        """By node and the uids of the pods that are gone from it."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(self._members)

    def fit(self, gone: Collection[PodInfo]) -> Generator[Question | None, Any, bool]:
        """Return whether all members fit on their nodes. `gone`: the pods that the state doesn't have now."""
        if not self._first.fits:
            return False
        gone_from = defaultdict(list)
        for pod in gone:
            gone_from[pod.node_name].append(pod.uid)
        for node, members in self._members.items():
            key = node, frozenset(gone_from[node])
            if key not in self._answers:
                found = yield from self._search.again(self._first, members)
                self._answers[key] = len(found.placed) == len(members)
            if not self._answers[key]:
                return False
        return True
