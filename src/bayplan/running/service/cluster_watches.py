"""ClusterWatches: the lists and watches of all kinds that a scheduler's decisions rest on.

Nodes come first, then the kinds that plugins need, and last the pods, which depend on all of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from bayplan.core.api.kinds import NODE, POD, Kind, kind_of
from bayplan.core.api.older_versions import OLDER
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.core.executor.handlers import Receiver, SentNode
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework import events
from bayplan.core.framework.profile import Profile
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError
from bayplan.running.client.list_watch import ListWatch
from bayplan.running.client.pace import Pace
from bayplan.running.client.permissions import missing_permissions
from bayplan.running.service.handle import SchedulerHandle
from bayplan.running.service.informers import LIVE_PODS, NodeInformer, ObjectInformer, PodInformer
from bayplan.running.service.settings import Peers, Settings
from bayplan.running.service.supervisor import Supervisor
from bayplan.running.service.tasks import first
from bayplan.running.service.watch_failures import WatchFailures, report


class ClusterWatches:
    """Follows a cluster for a scheduler with these profiles. `synced`: whether the scheduler has listed all kinds.

    Attributes:
        failures: reports what fails, while it runs.
    """

    def __init__(
        self,
        client: Client,
        handle: SchedulerHandle,
        profiles: Iterable[Profile],
        peers: Peers,
        synced: Callable[[], bool],
    ) -> None:
        self._client = client
        self._handle = handle
        self._peers = peers
        self._readers = _plugins_by_kind(handle.watched, profiles)
        self.failures = WatchFailures(client, self._readers, synced)
        self._listing: ListWatch[Any] | None = None
        """The kind that is being listed for the first time."""

    @property
    def problem(self) -> str:
        """Why the last kind has not been listed yet; "" if nothing has failed."""
        return "" if self._listing is None else self._listing.problem

    async def report_permissions(self, denied: ApiError) -> str:
        """Return the message about all kinds that may not be listed or watched, for one denied request.

        "" if the API server doesn't report the missing permission.
        """
        missing = await missing_permissions(self._client, self._readers)
        return report(missing, self._readers, denied, synced=False) if missing else ""

    async def start(self, runtime: Runtime, settings: Settings, services: Supervisor, stop: asyncio.Event) -> None:
        """Start to list and watch one kind after the other: each when the one before is listed, or `stop` is set."""
        for list_watch in self._list_watches(runtime, settings):
            self._listing = list_watch
            services.start(f"the watch of {list_watch.kind.plural}", list_watch.run)
            await first(list_watch.synced.wait(), stop.wait())

    def _list_watches(self, runtime: Runtime, settings: Settings) -> list[ListWatch[Any]]:
        receiver, extenders = Receiver.of(runtime), self._peers.extenders
        for kind, feed in self._handle.feeds.items():
            feed.sink = self._noted(kind, ObjectInformer(kind, receiver))
        follow = partial(
            ListWatch[Any],
            self._client,
            pace=Pace(idle_seconds=settings.watch_idle, clock=settings.clock.monotonic),
            failures=runtime.failures,
            reports=self.failures,
        )
        decode = SentNode.keep if extenders is not None and extenders.want_nodes else SentNode.read
        list_watches = [follow(NODE, self._noted(NODE, NodeInformer(receiver)), decode=decode)]
        for kind in sorted(self._readers.keys() - {POD, NODE}, key=lambda kind: kind.resource):
            handler, again = self._noted(kind, ObjectInformer(kind, receiver)), settings.look_for_kind
            list_watches.append(follow(kind, handler, look_for_kind=again, older=OLDER.get(kind, ())))
        pods = self._noted(POD, PodInformer(receiver, runtime.ports.recorder))
        list_watches.append(follow(POD, pods, field_selector=LIVE_PODS, decode=PodDecoder().decode))
        return list_watches

    def _noted(self, kind: Kind, sink: Any) -> Any:
        """The sink of a kind's objects; with a recorder, one that notes what it gets first."""
        recorder = self._peers.recorder
        return sink if recorder is None else recorder.sink(kind, sink)


def _plugins_by_kind(watched: Iterable[Kind], profiles: Iterable[Profile]) -> Mapping[Kind, set[str]]:
    """The kinds that plugins read or register events of, with the names of the plugins that register them."""
    plugins: dict[Kind, set[str]] = {kind: set() for kind in watched}
    read = {kind.kind: kind for kind in plugins}  # an event doesn't say whether its custom kind has namespaces
    for profile in profiles:
        for name, hints in profile.events().items():
            for hint in hints:
                if hint.event.resource != events.ANY:
                    kind = read.get(hint.event.resource) or kind_of(hint.event.resource)
                    plugins.setdefault(kind, set()).add(name)
    return plugins
