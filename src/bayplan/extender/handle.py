"""The extender's side of plugins: what they may ask of it."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.client import Client
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.state import ClusterState


class ExtenderHandle:
    """What plugins may ask of an extender. Implements framework.interface.Handle.

    `client` is None where there is no connection to the cluster: then nothing can be bound, and there are no objects.
    """

    def __init__(self, state: ClusterState, client: Client | None) -> None:
        self._state = state
        self._client = client

    @property
    def nodes(self) -> Nodes:
        """All nodes that are known."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """Which pods are nominated where: nobody tells an extender."""
        return self._state.nominations

    def objects(self, kind: Kind) -> ObjectStore:
        """The known objects of a kind by `namespace/name`."""
        return self._state.objects[kind]

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are still being evicted: that is the business of the scheduler in front."""
        return self._state.preemptions.going_on(uid)

    @property
    def binder(self) -> Client | None:
        """Where bindings are written."""
        return self._client
