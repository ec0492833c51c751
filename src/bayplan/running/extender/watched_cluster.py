"""The state of an extender with a connection to the cluster: nodes, pods and other objects that plugins use.

It is kept by the same handlers as a scheduler's (`bayplan.core.executor.handlers`), but has no queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.older_versions import OLDER
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.handlers import Receiver, SentNode
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.running.client.client import Client
from bayplan.running.client.list_watch import ListWatch
from bayplan.running.extender.problems import NotYet, Unanswerable
from bayplan.running.extender.sent_nodes import RequestedNodes, names_of
from bayplan.running.extender.wire import ExtenderArgs
from bayplan.running.service.informers import LIVE_PODS, NodeInformer, ObjectInformer, PodInformer

log = logging.getLogger(__name__)


class WatchedCluster:
    """Keeps the state in sync with the API server while `run` runs.

    `kinds` are watched in addition to nodes and pods. If the server lacks a kind, it is retried every `look_for_kind`
    seconds. `gates`: how pods count.
    """

    def __init__(
        self,
        client: Client,
        state: ClusterState,
        kinds: Iterable[Kind] = (),
        gates: FeatureGates = DEFAULT_GATES,
        *,
        look_for_kind: float = 10.0,
    ) -> None:
        self._receiver = Receiver.of_state(state, gates)
        self.pods: ListWatch[PodInfo] = ListWatch(
            client, POD, PodInformer(self._receiver), field_selector=LIVE_PODS, decode=PodInfo.from_raw
        )
        self._client = client
        self._state = state
        self._look_for_kind = look_for_kind
        self._kinds = sorted(set(kinds) - {NODE, POD}, key=lambda kind: kind.resource)
        self.synced = asyncio.Event()
        """Set after the first complete sync."""

    @property
    def ready(self) -> bool:
        """Whether the first sync is complete."""
        return self.synced.is_set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            nodes = ListWatch(self._client, NODE, NodeInformer(self._receiver), decode=SentNode.read)
            list_watches: list[ListWatch[Any]] = [nodes, self.pods]
            for kind in self._kinds:
                handler = ObjectInformer(kind, self._receiver)
                again, older = self._look_for_kind, OLDER.get(kind, ())
                list_watches.append(ListWatch(self._client, kind, handler, look_for_kind=again, older=older))
            for list_watch in list_watches:
                tasks.create_task(list_watch.run(), name="list_watch")
            for list_watch in list_watches:
                await list_watch.synced.wait()
            log.info("synced %d nodes and %d pods on them", self._state.table.live_count, self._state.pod_count)
            self.synced.set()

    def requested(self, args: ExtenderArgs) -> RequestedNodes:
        """The nodes of a request. Only the names of whole nodes are used, because the watched state is newer."""
        if not self.ready:
            raise NotYet
        if args.NodeNames is not None:
            return RequestedNodes(args.NodeNames)
        if args.Nodes is not None:
            return RequestedNodes(names_of(args.Nodes.items))
        raise Unanswerable("the request has neither Nodes nor NodeNames")
