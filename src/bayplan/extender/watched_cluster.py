"""The state of an extender with a connection to the cluster: nodes, pods and other objects that plugins use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from lightkube.models.core_v1 import Node

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.client import Client, ListWatch
from bayplan.client.answers import Identity
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.extender.problems import NotYet, Unanswerable
from bayplan.extender.sent_nodes import RequestedNodes, names_of
from bayplan.extender.wire import ExtenderArgs
from bayplan.log_fields import about_node, pod_named
from bayplan.service.informers import LIVE_PODS

log = logging.getLogger(__name__)


class WatchedCluster:
    """Keeps the state in sync with the API server while `run` runs.

    `kinds` are watched in addition to nodes and pods. If the server lacks a kind, it is retried every `look_for_kind`
    seconds.
    """

    def __init__(
        self, client: Client, state: ClusterState, kinds: Iterable[Kind] = (), *, look_for_kind: float = 10.0
    ) -> None:
        self.pods: ListWatch[PodInfo] = ListWatch(
            client, POD, _PodHandler(state), field_selector=LIVE_PODS, decode=PodInfo.from_raw
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
            list_watches: list[ListWatch[Any]] = [ListWatch(self._client, NODE, _NodeHandler(self._state)), self.pods]
            for kind in self._kinds:
                handler = _ObjectHandler(kind, self._state)
                list_watches.append(ListWatch(self._client, kind, handler, look_for_kind=self._look_for_kind))
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


class _NodeHandler:
    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._store = state.objects[NODE]

    def put(self, key: str, new: Node) -> None:
        try:
            self._state.set_node(new)
        except ValueError as error:
            log.error("ignoring an invalid version of node %s: %s", about_node(key), error)  # noqa: TRY400 - bad input is not a bug
        else:
            self._store.set(key, new)

    def removed(self, key: str) -> None:
        self._store.remove(key)
        self._state.remove_node(key)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        log.error("ignoring node %s, which cannot be decoded: %s", about_node(Identity.of(raw).key), error)


class _PodHandler:
    """Keeps all pods in the store, and pods with a node also on their node."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._store = state.objects[POD]

    def put(self, key: str, new: PodInfo) -> None:
        self._store.set(key, new)
        if new.node_name:
            self._state.set_pod(new)
            new.release()

    def removed(self, key: str) -> None:
        old: PodInfo | None = self._store.get(key)
        if old is not None:
            self._store.remove(key)
            self._state.remove_pod(old.uid)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        namespace, _, name = Identity.of(raw).key.rpartition("/")
        log.error("ignoring pod %s, which cannot be decoded: %s", pod_named(namespace, name), error)


class _ObjectHandler:
    def __init__(self, kind: Kind, state: ClusterState) -> None:
        self._kind = kind
        self._store = state.objects[kind]

    def put(self, key: str, new: Any) -> None:
        self._store.set(key, new)

    def removed(self, key: str) -> None:
        self._store.remove(key)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        log.error("ignoring %s %s, which cannot be decoded: %s", self._kind.kind, Identity.of(raw).key, error)
