"""The scheduler's side of plugins where there is no scheduler: in replays, benchmarks and tests."""

from __future__ import annotations

from bayplan.api import kinds
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.state import ClusterState


class OfflineHandle:
    """What plugins may ask where nothing is written. Implements framework.interface.Handle."""

    binder = None

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    @property
    def nodes(self) -> Nodes:
        """All nodes as they are now."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """Which pods are nominated where."""
        return self._state.nominations

    def objects(self, kind: kinds.Kind) -> ObjectStore:
        """The known objects of a kind by `namespace/name`."""
        return self._state.objects[kind]

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are still being evicted: never, where nothing is written."""
        return self._state.preemptions.going_on(uid)
