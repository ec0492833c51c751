"""Source: where a server gets its cluster from: a file that is read again when it changes, or watches of an API server.

A source has a version, which increases with every change, and a snapshot. It lives on the server's event loop, and
hands out snapshots, which never change, to the worker thread. Without a connection, the last one stays, and the source
says since when.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from bayplan.answers.snapshots import Gap, Snapshot, SnapshotError
from bayplan.answers.snapshots.cluster import SELECTORS, read_kind
from bayplan.answers.snapshots.documents import stored
from bayplan.answers.snapshots.feeds import FollowedFeeds
from bayplan.answers.snapshots.held_places import with_held_places
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT, EFFECTS, FOLLOWED, REQUIRED
from bayplan.answers.snapshots.served import LISTING_PAUSE, FollowedKind
from bayplan.core.api.kinds import LEASE, NODE, Kind
from bayplan.core.framework.feeds import Feed
from bayplan.faces.asking.events import Events, server_events, snapshot_events
from bayplan.running.client.client import Client
from bayplan.running.client.server_version import server_version

FILE_PAUSE = 1.0
"""Seconds between two looks at a file."""
LISTED_WITHIN = 5.0
"""Seconds within which an API server has to list leases, or to say its version."""
VERSION_PAUSE = 300.0
"""Seconds between two questions for the server's version."""

_HEARTBEAT = re.compile(rb'"(?:resourceVersion|lastHeartbeatTime)":"[^"]*"')
"""The fields that a heartbeat changes."""


class Source(Protocol):
    """A cluster that may change.

    Attributes:
        live: whether the cluster can change.
        followed: whether it is a cluster that is followed by watches, and not a file of one.
        version: increases with every change.
    """

    live: bool
    followed: bool
    version: int

    @property
    def problems(self) -> list[str]:
        """What is wrong now, one line each: kinds that can't be read, or a file that is no longer valid."""

    @property
    def lost(self) -> str:
        """Why the cluster can't be followed any longer, and since when; "" if it can."""

    @property
    def now(self) -> datetime:
        """The time from which ages count: that of the cluster."""

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is now, or as it was when it was lost."""

    async def with_leases(self) -> Snapshot:
        """Return the cluster as it is now with its leases, which change too often for a version of their own."""

    async def events(self, kind: Kind, key: str, uid: str) -> Events:
        """Return the events about an object, as far as they are known."""

    async def ready(self) -> None:
        """Wait for the first complete snapshot."""

    async def run(self) -> None:
        """Follow the cluster until cancelled."""


class FileSource:
    """A snapshot of a file or a folder; see `Snapshot.open`. `path`: None if the file can't change, as for stdin."""

    lost = ""
    followed = False

    def __init__(self, snapshot: Snapshot, path: str | Path | None = None) -> None:
        self.live = path is not None
        self.version = 1
        self.problems: list[str] = []
        self._snapshot = snapshot
        self._path = path
        self._seen = stamp(path)

    @property
    def now(self) -> datetime:
        """When the snapshot was taken, if that is known; else the time now."""
        return self._snapshot.taken or datetime.now(UTC)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the last file that could be read."""
        return self._snapshot

    async def with_leases(self) -> Snapshot:
        """See Source: a file that has leases has them always."""
        return self._snapshot

    async def events(self, kind: Kind, key: str, uid: str) -> Events:
        """Return the events that the snapshot has."""
        return snapshot_events(self._snapshot, kind, key)

    async def ready(self) -> None:
        """Return at once: the file has been read."""

    async def run(self) -> None:
        """Read the file again after every change. If that fails, the last good snapshot stays."""
        while self._path is not None:
            await asyncio.sleep(FILE_PAUSE)
            seen = await asyncio.to_thread(stamp, self._path)
            if seen == self._seen:
                continue
            self._seen = seen
            try:
                self._snapshot = await asyncio.to_thread(Snapshot.open, self._path)
                self.problems = []
            except SnapshotError as error:
                self.problems = [f"the last change could not be read: {error}"]
            self.version += 1


def stamp(path: str | Path | None) -> tuple[tuple[str, int, int], ...]:
    """Return the times and sizes of a file, or of all files of a folder."""
    if path is None:
        return ()
    root = Path(path)
    files = sorted(root.rglob("*")) if root.is_dir() else [root]
    stamps = []
    for file in files:
        try:
            status = file.stat()
        except OSError:  # it is being replaced
            continue
        stamps.append((str(file), status.st_mtime_ns, status.st_size))
    return tuple(stamps)


class ClusterSource:
    """A cluster that is followed by watches, with the kinds that a snapshot has and those of plugins. It only reads.

    `feeds`: of plugins; their sources are asked every 30 seconds.
    """

    live = followed = True

    def __init__(
        self, client: Client, name: str = "the cluster", kinds: Iterable[Kind] = (), feeds: Iterable[Feed] = ()
    ) -> None:
        self.version = 0
        self._client = client
        self._name = name
        self._kinds = tuple(dict.fromkeys((*FOLLOWED, *kinds)))
        self._follows: dict[Kind, _Follow] = {}
        self._kubernetes = ""
        """The version of Kubernetes that the server says it has; "" if it doesn't say."""
        self._feeds = FollowedFeeds(client, feeds, self._changed)
        self._cached: tuple[int, Snapshot] | None = None
        self._listed = asyncio.Event()

    @property
    def problems(self) -> list[str]:
        """Why kinds and feeds can't be read, one line each; none while the whole cluster is `lost`."""
        if self.lost:
            return []
        return [*filter(None, [each.problem for each in self._follows.values()]), *self._feeds.problems]

    @property
    def lost(self) -> str:
        """Why neither nodes nor pods, which were known before, can be read, and since when; "" if they can."""
        failing = [follow for kind, follow in self._follows.items() if kind in REQUIRED and follow.failing_since]
        if len(failing) < len(REQUIRED):
            return ""
        since = max(follow.failing_since for follow in failing if follow.failing_since).astimezone()
        return (
            f"The cluster can't be read since {since:%H:%M:%S} ({failing[0].problem}). The page shows how it was then."
        )

    @property
    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.now(UTC)

    async def events(self, kind: Kind, key: str, uid: str) -> Events:
        """Ask the API server for the events: the source follows only those that questions read."""
        return await server_events(self._client, kind, key, uid)

    def snapshot(self) -> Snapshot:
        """Return the cluster as the watches know it. Kinds that could not be listed are its gaps."""
        if self._cached is None or self._cached[0] != self.version:
            gaps = tuple(
                Gap(kind, follow.problem, EFFECTS.get(kind, CUSTOM_EFFECT))
                for kind, follow in self._follows.items()
                if follow.problem and not follow.synced
            )
            gaps += tuple(
                gap for gap in self._feeds.gaps if not any(kind is gap.kind for kind, _ in self._feeds.objects)
            )
            documents = {kind: follow.frozen() for kind, follow in self._follows.items()}
            for (kind, key), raw in self._feeds.objects.items():
                documents[kind] = {**documents.get(kind, {}), key: raw}
            snapshot = Snapshot(
                MappingProxyType(with_held_places(documents)),
                self._name,
                datetime.now(UTC),
                gaps,
                version=self._kubernetes,
            )
            self._cached = self.version, snapshot
        return self._cached[1]

    async def with_leases(self) -> Snapshot:
        """See Source. Leases are listed now, and are at most LISTED_WITHIN seconds older than the snapshot's time.

        Where they can't be listed, that is one more gap.
        """
        try:
            async with asyncio.timeout(LISTED_WITHIN):
                leases, problem = await read_kind(self._client, LEASE)
        except TimeoutError:
            leases, problem = {}, f"the API server did not list {LEASE.resource} within {LISTED_WITHIN:g} s"
        snapshot = self.snapshot()
        return replace(
            snapshot,
            documents=MappingProxyType({**snapshot.documents, LEASE: leases}),
            taken=snapshot.taken if self.lost else self.now,
            gaps=(*snapshot.gaps, *([Gap(LEASE, problem, EFFECTS[LEASE])] if problem else [])),
        )

    async def ready(self) -> None:
        """Wait until nodes and pods are listed, the other kinds are listed or can't be, and all feeds were asked."""
        await self._listed.wait()

    async def run(self) -> None:
        """Follow all kinds until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds:
                follow = self._follows[kind] = _Follow(self._client, kind, self._changed)
                tasks.create_task(follow.run(), name=f"follow {kind.resource}")
            tasks.create_task(self._feeds.run(), name="ask feeds")
            tasks.create_task(self._follow_version(), name="follow the version")

    async def _follow_version(self) -> None:
        """Wait for the lists, and ask for the server's version then, and again from time to time."""
        while not self._all_read:  # noqa: ASYNC110 - a problem sets no event
            await asyncio.sleep(LISTING_PAUSE)
        self._kubernetes = await self._server_version()
        self.version += 1
        self._listed.set()
        while True:
            await asyncio.sleep(VERSION_PAUSE)
            found = await self._server_version()
            if found not in {"", self._kubernetes}:  # the cluster was upgraded
                self._kubernetes = found
                self.version += 1

    @property
    def _all_read(self) -> bool:
        """Whether all kinds were listed, and all feeds asked, as far as they can be."""
        return self._feeds.asked and all(follow.ready for follow in self._follows.values())

    async def _server_version(self) -> str:
        try:
            async with asyncio.timeout(LISTED_WITHIN):
                return await server_version(self._client)
        except TimeoutError:
            return ""

    def _changed(self) -> None:
        self.version += 1


class _Follow(FollowedKind):
    """The objects of one kind, in the first version of the kind that the server has."""

    def __init__(self, client: Client, kind: Kind, changed: Callable[[], None]) -> None:
        super().__init__(client, kind, SELECTORS.get(kind, ("",))[0])  # of events, those about pods that are missing
        self._changed = changed
        self._objects: dict[str, bytes] = {}
        self._frozen: Mapping[str, bytes] | None = None

    @property
    def failing_since(self) -> datetime | None:
        """Since when the kind, which was known before, can't be read; None if it can."""
        return self._watch.problem_since if self._watch is not None and self.synced and self._watch.problem else None

    def frozen(self) -> Mapping[str, bytes]:
        """Return the objects as they are now; the same mapping if nothing has changed."""
        if self._frozen is None:
            self._frozen = MappingProxyType(dict(self._objects))
        return self._frozen

    def decode(self, raw: bytes) -> bytes:
        """Return the JSON as a snapshot keeps it."""
        return stored(self.kind, raw)[1]

    def put(self, key: str, new: bytes) -> None:
        """Keep a new version. A heartbeat of a node is no change: large clusters have hundreds per second."""
        old = self._objects.get(key)
        if old is not None and self.kind is NODE and _HEARTBEAT.sub(b"", old) == _HEARTBEAT.sub(b"", new):
            return
        self._objects[key] = new
        self._touch()

    def removed(self, key: str) -> None:
        """Forget an object that is gone."""
        self._objects.pop(key, None)
        self._touch()

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Ignore an object without a name. The world reports other objects that it can't read."""

    def _touch(self) -> None:
        self._frozen = None
        self._changed()
