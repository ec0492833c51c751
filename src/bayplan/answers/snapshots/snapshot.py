"""Snapshot: what a scheduler knows of a cluster at one moment, as a value that never changes.

    snapshot.of_kind(POD)                 # keys, `namespace/name`
    changed = snapshot.but(...)           # another snapshot, which shares what is equal

Objects are bytes of JSON. A snapshot that is made of another one shares the bytes that are equal, so a world moves from
one to the other by the difference alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan.answers.snapshots.documents import collect, identify
from bayplan.answers.snapshots.held_places import with_held_places
from bayplan.answers.snapshots.reading import Documents, Gap, Progress, Reading, SnapshotError
from bayplan.core.api.kinds import DAEMON_SET, POD, Kind, custom_kind, name_of
from bayplan.core.api.objects import encode
from bayplan.core.api.pod_groups import COMPOSITES
from bayplan.core.versions import FollowedVersion, of_composites, version_followed

if TYPE_CHECKING:
    from bayplan.core.framework.feeds import Feed
    from bayplan.running.client.client import Client
    from bayplan_devcluster.cluster import DevCluster


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The objects of a cluster at one moment. It is immutable; `but` makes another one cheaply.

    Pod groups and custom resources have the kind `bayplan.core.api.kinds.custom_kind("plural.version.group")`, which is
    how plugins read them.
    """

    documents: Documents = field(default_factory=dict)
    """Kind -> key -> the object's JSON, without `managedFields`.

    Objects of built-in kinds have no `kind` and `apiVersion` either. The key is `namespace/name`, or `name` for an
    object without a namespace.
    """
    source: str = ""
    """Where the objects come from, for messages: `cluster kind-dev`, `file pods.yaml`."""
    taken: datetime | None = None
    """When the cluster was read; None if that isn't known."""
    gaps: tuple[Gap, ...] = ()
    """The kinds that could not be read."""
    problems: tuple[str, ...] = ()
    """Objects of files that can't be used, one line each. They are left out."""

    version: str | None = None
    """The version that the API server said, such as v1.37.2; "" if it said none, and None for files."""

    @classmethod
    def of(
        cls,
        objects: Iterable[Mapping[str, Any]],
        *,
        source: str = "",
        taken: datetime | None = None,
        gaps: Iterable[Gap] = (),
    ) -> Snapshot:
        """The snapshot of the given objects: documents with `apiVersion` and `kind`. Lists stand for their items.

        Of two objects with the same kind, namespace and name, the last one counts. Raises SnapshotError.
        """

        def identified() -> Iterator[tuple[Kind, str, bytes]]:
            for number, obj in enumerate(flattened(objects), start=1):
                try:
                    yield identify(obj)
                except SnapshotError as error:
                    raise SnapshotError(f"object {number}: {error}") from None

        return cls._from(Reading(collect(identified()), source, taken, tuple(gaps)))

    @classmethod
    def from_cluster(
        cls,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        *,
        kinds: Iterable[Kind] = (),
        feeds: Iterable[Feed] = (),
        progress: Progress | None = None,
    ) -> Snapshot:
        """The cluster that kubectl would use (see `bayplan.running.client.load_kubeconfig`). It is only listed, once.

        `kinds` are custom kinds that plugins read, and `feeds` their feeds, whose sources are asked once. `progress` is
        called with the plural of a kind and the number of its objects read so far. A kind that may not be listed is one
        of the `gaps`; kinds that the server lacks are left out. Raises SnapshotError if the server can't be reached, or
        if nodes or pods can't be listed.
        """
        from bayplan.answers.snapshots.cluster import read_kubeconfig

        return cls._from(read_kubeconfig(kubeconfig, context, kinds, progress, feeds))

    @classmethod
    async def from_client(
        cls,
        client: Client,
        *,
        kinds: Iterable[Kind] = (),
        feeds: Iterable[Feed] = (),
        progress: Progress | None = None,
    ) -> Snapshot:
        """`from_cluster` through a client of the caller's."""
        from bayplan.answers.snapshots.cluster import read_client

        return cls._from(await read_client(client, kinds, progress, feeds=feeds))

    @classmethod
    def from_files(cls, *paths: str | Path, progress: Progress | None = None) -> Snapshot:
        """The objects in files and folders of YAML or JSON, such as manifests and the output of `kubectl get -o json`.

        `-` is standard input. Objects that can't be used are left out (see `problems`). Raises SnapshotError with the
        file, the document and the line for a file that can't be parsed, or if none of its objects can be used.
        """
        from bayplan.answers.snapshots.files import read_files

        return cls._from(read_files(paths, progress))

    @classmethod
    def from_dev_cluster(cls, cluster: DevCluster) -> Snapshot:
        """The objects of a running embedded cluster."""
        from bayplan.answers.snapshots.dev_cluster import read_dev_cluster

        return cls._from(read_dev_cluster(cluster))

    @classmethod
    def load(cls, path: str | Path) -> Snapshot:
        """A snapshot that `save` wrote. Raises SnapshotError for any other file."""
        from bayplan.answers.snapshots.archive import read_archive

        return cls._from(read_archive(path))

    @classmethod
    def open(cls, path: str | Path, *, progress: Progress | None = None) -> Snapshot:
        """A saved snapshot, or whatever `from_files` reads. Raises SnapshotError."""
        from bayplan.answers.snapshots.archive import is_archive, read_archive

        return cls._from(read_archive(path)) if is_archive(path) else cls.from_files(path, progress=progress)

    def save(self, path: str | Path, *, redact: bool = False) -> None:
        """Write the snapshot to one compressed file, which replaces an existing one. Raises SnapshotError.

        Only the owner can read it, unless it is redacted. `redact` leaves out what scheduling doesn't depend on, and
        replaces all names (see `sources.redaction`).
        """
        from bayplan.answers.snapshots.archive import write_archive

        reading = Reading(self.documents, self.source, self.taken, self.gaps, version=self.version)
        if redact:
            from bayplan.answers.snapshots.redaction.redacting import redacted

            reading = redacted(reading)
        write_archive(path, reading, private=not redact)

    @classmethod
    def _from(cls, reading: Reading) -> Snapshot:
        return cls(
            frozen(with_held_places(reading.documents)),
            reading.source,
            reading.taken,
            reading.gaps,
            reading.problems,
            reading.version,
        )

    @property
    def followed(self) -> FollowedVersion:
        """The version of Kubernetes that questions about it decide as, unless they are told another one.

        For files, the oldest one; with CompositePodGroups, the first one that has them.
        """
        found = version_followed(self.version or "", self.source or "the snapshot")
        if self.version is not None:
            return found
        return FollowedVersion(of_composites() if self.of_kind(custom_kind(COMPOSITES)) else found.version)

    def but(
        self,
        *,
        add: Iterable[Mapping[str, Any]] = (),
        remove: Iterable[tuple[Kind, str]] = (),
        change: Iterable[Mapping[str, Any]] = (),
    ) -> Snapshot:
        """This snapshot with other objects; the kinds without changes are shared.

        `remove` is (kind, key) pairs, `add` new objects, and `change` new versions of existing ones. Objects are
        removed first. Raises SnapshotError if an object to add exists, or one to remove or to change doesn't.
        """
        documents: dict[Kind, Mapping[str, bytes]] = dict(self.documents)
        copies: dict[Kind, dict[str, bytes]] = {}

        def copy_of(kind: Kind) -> dict[str, bytes]:
            if kind not in copies:
                copies[kind] = dict(self.documents.get(kind, {}))
            return copies[kind]

        for kind, key in remove:
            if copy_of(kind).pop(key, None) is None:
                raise SnapshotError(f"there is no {kind.kind} {key} to remove")
        for obj in flattened(add):
            kind, key, raw = identify(obj)
            if copy_of(kind).setdefault(key, raw) is not raw:
                raise SnapshotError(f"{kind.kind} {key} exists already")
        for obj in flattened(change):
            kind, key, raw = identify(obj)
            if key not in copy_of(kind):
                raise SnapshotError(f"there is no {kind.kind} {key} to change")
            copies[kind][key] = raw
        return replace(self, documents=frozen(documents | copies))

    def with_objects(self, objects: Iterable[tuple[Kind, str, Any]]) -> Snapshot:
        """This snapshot with other versions of objects, as a world holds them; None for one that is gone."""
        documents: dict[Kind, Mapping[str, bytes]] = dict(self.documents)
        copies: dict[Kind, dict[str, bytes]] = {}
        for kind, key, obj in objects:
            if kind not in copies:
                copies[kind] = dict(self.of_kind(kind))
            if obj is None:
                copies[kind].pop(key, None)
            else:
                copies[kind][key] = obj.raw if kind is POD else encode(obj)
        return replace(self, documents=frozen(documents | copies))

    def of_kind(self, kind: Kind) -> Mapping[str, bytes]:
        """The objects of a kind by key, as JSON; empty if there are none."""
        return self.documents.get(kind, _NONE)

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.source or "the snapshot"

    def may_have_daemon_set(self, key: str) -> bool:
        """Whether a DaemonSet exists; True if the snapshot has none at all, as a dump of nodes and pods."""
        known = self.of_kind(DAEMON_SET)
        return not known or key in known

    def document(self, kind: Kind, key: str) -> dict[str, Any] | None:
        """An object as a document with `apiVersion` and `kind`; None if there is no such object."""
        raw = self.of_kind(kind).get(key)
        header = {"apiVersion": kind.api_version, "kind": name_of(kind)}
        return None if raw is None else header | msgspec.json.decode(raw)

    def objects(self) -> Iterator[dict[str, Any]]:
        """All objects as documents with `apiVersion` and `kind`."""
        for kind, known in self.documents.items():
            for key in known:
                document = self.document(kind, key)
                assert document is not None
                yield document

    def __len__(self) -> int:
        return sum(map(len, self.documents.values()))

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(known)} {kind.resource}" for kind, known in self.documents.items())
        return f"<Snapshot of {self.source or 'objects'}: {counts or 'empty'}>"


def frozen(documents: Mapping[Kind, Mapping[str, bytes]]) -> Documents:
    """The same documents, read-only."""
    return MappingProxyType(
        {
            kind: known if isinstance(known, MappingProxyType) else MappingProxyType(known)
            for kind, known in documents.items()
        }
    )


def flattened(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The objects, with the items in place of lists. Those of a typed list need no `apiVersion` and `kind`."""
    for obj in objects:
        name, items = str(obj.get("kind")), obj.get("items")
        if not name.endswith("List") or not isinstance(items, list):
            yield obj
            continue
        kind = name.removesuffix("List")
        header = {"apiVersion": obj.get("apiVersion"), "kind": kind} if kind else {}
        yield from flattened({**header, **item} for item in items)


_NONE: Mapping[str, bytes] = MappingProxyType({})
