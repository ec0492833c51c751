"""Reads a snapshot from an API server: every kind is listed once, in pages. Nothing is watched or written."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bayplan.answers.snapshots.documents import stored
from bayplan.answers.snapshots.feeds import ask_feeds
from bayplan.answers.snapshots.older_versions import OLDER, updated
from bayplan.answers.snapshots.reading import Gap, Progress, Reading, SnapshotError
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT, EFFECTS, REQUIRED
from bayplan.core.api.kinds import CORE_EVENT, LEASE, POD, Kind
from bayplan.core.framework.feeds import Feed
from bayplan.running.client.client import Client
from bayplan.running.client.connection import connect
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.client.server_version import server_version

T = TypeVar("T")

SELECTORS = {
    POD: ("status.phase!=Succeeded,status.phase!=Failed",),
    CORE_EVENT: ("reason=FailedCreate", "reason=Preempted"),
    LEASE: ("metadata.namespace=kube-system",),
}
"""Field selectors by kind: terminated pods use nothing, and of events, questions read only those about pods that could
not be created. There may be many others. Of leases, those of nodes aren't read."""

PAGE_SIZE = 500
_CONCURRENT_LISTS = 6
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE = 401, 403, 404, 410


def read_kubeconfig(
    kubeconfig: str | Path | None,
    context: str | None,
    kinds: Iterable[Kind],
    progress: Progress | None,
    feeds: Iterable[Feed] = (),
) -> Reading:
    """Read the cluster that kubectl would use. Works also while an event loop runs, as in a notebook."""

    async def read() -> Reading:
        try:
            async with connect(kubeconfig, context) as client:
                access = client.access
                where = f"{access.server} ({access.source})"
                reading = await read_client(client, kinds, progress, where=where, feeds=feeds)
                return replace(reading, source=f"cluster {access.server}")
        except ConfigError as error:
            raise SnapshotError(str(error)) from error

    return _run(read())


async def read_client(
    client: Client,
    kinds: Iterable[Kind] = (),
    progress: Progress | None = None,
    *,
    where: str = "the API server",
    feeds: Iterable[Feed] = (),
) -> Reading:
    """Read a cluster through a client. `kinds` are read in addition to those of `rights.EFFECTS`; `feeds` are asked.

    Kinds that the server doesn't serve are left out, or read in an older version. Raises SnapshotError if the server
    can't be reached, or nodes or pods can't be listed.
    """
    taken = datetime.now(UTC)
    lists = _Lists(client, progress or _silent, where)
    for kind in REQUIRED:  # one after the other: a wrong address or a missing right is reported once
        await lists.read(kind)
    others = [kind for kind in dict.fromkeys((*EFFECTS, *kinds)) if kind not in REQUIRED]
    limit = asyncio.Semaphore(_CONCURRENT_LISTS)
    try:
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(ask_feeds(client, feeds))
            for kind in others:
                tasks.create_task(lists.read_within(limit, kind))
    except ExceptionGroup as failures:  # not `except*`: Python 3.11.2 wraps in a group what that raises
        raise failures.exceptions[0] from None
    # The order does not depend on which list ended first.
    documents = {kind: lists.documents[kind] for kind in (*REQUIRED, *others) if lists.documents.get(kind)}
    fed, lacking = asked.result()
    for (kind, key), raw in fed.items():
        documents[kind] = {**documents.get(kind, {}), key: raw}
    gaps = tuple(sorted([*lists.gaps, *lacking], key=lambda gap: gap.kind.resource))
    return Reading(documents, where, taken, gaps, version=await server_version(client))


async def read_kind(client: Client, kind: Kind, where: str = "the API server") -> tuple[Mapping[str, bytes], str]:
    """List the objects of one kind that a snapshot has. Returns them, and why they can't be read, or ""."""
    lists = _Lists(client, _silent, where)
    try:
        await lists.read(kind)
    except SnapshotError as error:
        return {}, str(error)
    return lists.documents.get(kind, {}), "; ".join(gap.reason for gap in lists.gaps)


def _silent(what: str, count: int) -> None:
    """Report no progress."""


class _Lists:
    """The lists of one reading, and what they have returned so far."""

    def __init__(self, client: Client, progress: Progress, where: str) -> None:
        self.documents: dict[Kind, dict[str, bytes]] = {}
        self.gaps: list[Gap] = []
        self._client = client
        self._progress = progress
        self._where = where

    async def read_within(self, limit: asyncio.Semaphore, kind: Kind) -> None:
        async with limit:
            await self.read(kind)

    async def read(self, kind: Kind) -> None:
        """List a kind in the first version that the server has."""
        try:
            for version in (kind, *OLDER.get(kind, ())):
                try:
                    self.documents[kind] = await self._list(kind, version)
                except ApiError as error:
                    if error.status != _NOT_FOUND:
                        raise
                else:
                    return
        except ApiError as error:
            if error.status != _FORBIDDEN or await self._serves(kind):
                self._fail(kind, error)
        except TransportError as error:
            raise SnapshotError(f"cannot read {kind.resource} of {self._where}: {error}") from error
        if kind in REQUIRED:
            raise SnapshotError(f"{self._where} serves no {kind.resource}: it is not a Kubernetes API server")

    async def _list(self, kind: Kind, version: Kind) -> dict[str, bytes]:
        """All objects of a kind. If the list expires between two pages, it starts over, the second time in one page."""

        def keep(raw: bytes) -> tuple[str, bytes]:
            return stored(kind, updated(version, raw))

        for size in (PAGE_SIZE, PAGE_SIZE, 0):
            found: dict[str, bytes] = {}
            try:
                for selector in SELECTORS.get(kind, ("",)):
                    pages = self._client.pages(version, field_selector=selector, limit=size, decode=keep)
                    async with aclosing(pages):
                        async for page in pages:
                            found.update(page.items)
                            self._progress(kind.plural, len(found))
            except ApiError as error:
                if error.status != _GONE or not size:
                    raise
            else:
                return found
        raise AssertionError("the last attempt returns or raises")

    async def _serves(self, kind: Kind) -> bool:
        """Whether the server has the kind's group and version: it denies access to kinds that it lacks, too."""
        if not kind.group:
            return True
        try:
            groups = msgspec.json.decode(await self._client.request("GET", "/apis"), type=_Groups)
        except (ApiError, msgspec.MsgspecError):
            return True
        versions = {version.groupVersion for group in groups.groups for version in group.versions}
        return not versions.isdisjoint(each.api_version for each in (kind, *OLDER.get(kind, ())))

    def _fail(self, kind: Kind, error: ApiError) -> None:
        """Note a gap, or raise SnapshotError if there is no answer without the kind."""
        if error.status == _UNAUTHORIZED:
            raise SnapshotError(f"{self._where}: {error}")
        denied = error.status == _FORBIDDEN
        reason = f"no right to list {kind.resource}" if denied else f"cannot be listed ({error})"
        if kind in REQUIRED:
            hint = "; `bayplan manifests --insight` prints the ClusterRole with the rights that are needed"
            raise SnapshotError(f"{self._where}: {reason}{hint if denied else ''}")
        self.gaps.append(Gap(kind, reason, EFFECTS.get(kind, CUSTOM_EFFECT)))


class _Version(msgspec.Struct):
    groupVersion: str


class _Group(msgspec.Struct):
    versions: list[_Version]


class _Groups(msgspec.Struct):
    """The groups of an API server, as `/apis` lists them."""

    groups: list[_Group]


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in another thread if this one has a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "snapshot") as thread:
        return thread.submit(asyncio.run, work).result()
