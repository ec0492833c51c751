"""The CSI volumes that are attached to nodes, counted by driver and row of the node table.

The counts are updated for the rows whose pods changed, and for the rows that use a claim, volume, class or attachment
that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar

from lightkube.models.core_v1 import Volume
from lightkube.models.storage_v1 import VolumeAttachment

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from bayplan.api.volumes import full_name
from bayplan.cluster.columns import Int64
from bayplan.cluster.node_table import NodeTable
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.row_changes import KeyedColumns, RowChanges
from bayplan.framework.status import Status
from bayplan.plugins.node_volume_limits.volumes import NONE, CsiVolumeKey, CsiVolumes, PodVolumes

K = TypeVar("K", bound=Hashable)
_Source = tuple[str, str]
"""The name of a kind, and a key."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What is attached to one node.

    `in_use`: the volumes of its pods. `count`: by driver, the number of these volumes and of others with a
    VolumeAttachment. `error`: the first error of a volume.
    """

    in_use: CsiVolumes
    count: Counter[str]
    error: Status | None = None

    @classmethod
    def of(cls, of_pods: Iterable[CsiVolumes | Status], by_attachments: Iterable[CsiVolumeKey]) -> Attached:
        """Combine the volumes of a node's pods, in order, and those of its attachments."""
        in_use: dict[CsiVolumeKey, None] = {}
        for volumes in of_pods:
            if isinstance(volumes, Status):
                return cls(NONE, Counter(), volumes)
            in_use.update(volumes)
        return cls(in_use, Counter(driver for driver, _ in {**in_use, **dict.fromkeys(by_attachments)}))


@dataclass(frozen=True, slots=True)
class _OfPod:
    volumes: tuple[Volume, ...]
    """Of the version of the pod that this was determined for."""
    found: CsiVolumes | Status
    sources: Collection[_Source]


@dataclass(slots=True)
class _Row:
    node_name: str
    pods: dict[str, _OfPod]
    """By UID."""
    by_attachments: CsiVolumes
    attached: Attached
    sources: AbstractSet[_Source]


_NOTHING = _Row("", {}, NONE, Attached(NONE, Counter()), frozenset())


class AttachedVolumes:
    """What is attached to the nodes. Use `refresh` before anything else."""

    def __init__(
        self,
        pod_volumes: PodVolumes,
        claims: ObjectStore,
        volumes: ObjectStore,
        classes: ObjectStore,
        attachments: ObjectStore,
    ) -> None:
        self._pod_volumes = pod_volumes
        self._volumes = volumes
        self._changes = RowChanges()
        self._rows: dict[int, _Row] = {}
        """The rows with pods with volumes, or with attachments."""
        self._counts: KeyedColumns[str] = KeyedColumns()
        """By driver."""
        self._with_error: set[int] = set()
        self._using: dict[CsiVolumeKey, set[int]] = {}
        """By volume: the rows with pods that use it."""
        self._depending: dict[_Source, set[int]] = {}
        """By object: the rows to update when it changes."""
        self._stale: set[int] = set()
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        """By name of the node, then by name."""
        self._stale_nodes: set[str] = set()
        """The names of nodes whose attachments changed."""
        for kind, store in ((PERSISTENT_VOLUME_CLAIM, claims), (PERSISTENT_VOLUME, volumes), (STORAGE_CLASS, classes)):
            store.listen(self._listener(kind))
        attachments.listen(self._attachment_changed)

    def refresh(self, table: NodeTable) -> None:
        """Apply all changes since the last call."""
        by_name = (row for name in self._stale_nodes if (row := table.row_of.get(name)) is not None)
        stale = self._stale.union(by_name)
        self._stale_nodes.clear()
        self._stale = set()
        for row in stale.union(self._changes.take(table)):
            pods = table.volumes.pods.get(row, {}) if row < table.size else {}
            name = table.name_of(row)
            old = self._rows.get(row)
            if row in stale or old is None or old.node_name != name or not _same_pods(old.pods, pods):
                known = {} if old is None or row in stale else old.pods
                self._replace(row, old or _NOTHING, self._read(name, pods, known), table.capacity)

    def count(self, driver: str, nodes: Nodes) -> Int64:
        """The number of attached volumes of a driver: int64, one per node. Without the what-ifs of nodes."""
        return self._counts.get(driver, nodes.rows, nodes.table.size)

    def rows_using(self, volume: CsiVolumeKey) -> Collection[int]:
        """The rows with pods that use a volume."""
        return self._using.get(volume, ())

    def errors(self) -> Iterator[tuple[int, Status]]:
        """The rows with a volume that has an error, with the first one."""
        for row in self._with_error:
            error = self._rows[row].attached.error
            assert error is not None
            yield row, error

    def hypothetical(self, row: int, pods: Iterable[PodInfo]) -> Attached:
        """What is attached to the node of a row if its pods with volumes are these."""
        found = self._rows.get(row)
        known = {} if found is None else found.pods
        of_pods = (known[pod.uid].found if pod.uid in known else self._pod_volumes.of_placed(pod) for pod in pods)
        return Attached.of(of_pods, NONE if found is None else found.by_attachments)

    def _read(self, node_name: str, pods: dict[str, PodInfo], known: dict[str, _OfPod]) -> _Row:
        attachments = self._attachments.get(node_name, {}).values()
        of_pods = {
            uid: each if (each := known.get(uid)) is not None and each.volumes == pod.volumes else self._of_pod(pod)
            for uid, pod in pods.items()
        }
        sources = {source for each in of_pods.values() for source in each.sources}
        sources.update((PERSISTENT_VOLUME.kind, _volume_of(attachment)) for attachment in attachments)
        by_attachments = dict.fromkeys(self._of_attachments(attachments))
        attached = Attached.of((each.found for each in of_pods.values()), by_attachments)
        return _Row(node_name, of_pods, by_attachments, attached, sources)

    def _replace(self, row: int, old: _Row, new: _Row, capacity: int) -> None:
        """Store a row, and update the indexes by what differs: one pod among many that stay."""
        if new.pods or new.sources:
            self._rows[row] = new
        else:
            self._rows.pop(row, None)
        for driver in {**old.attached.count, **new.attached.count}:
            self._counts.set(driver, row, new.attached.count[driver], capacity)
        _move(self._using, row, old.attached.in_use.keys(), new.attached.in_use.keys())
        _move(self._depending, row, old.sources, new.sources)
        if new.attached.error is not None:
            self._with_error.add(row)
        else:
            self._with_error.discard(row)

    def _of_pod(self, pod: PodInfo) -> _OfPod:
        return _OfPod(pod.volumes, self._pod_volumes.of_placed(pod), tuple(self._pod_volumes.sources(pod)))

    def _of_attachments(self, attachments: Iterable[VolumeAttachment]) -> Iterable[CsiVolumeKey]:
        for attachment in attachments:
            volume = self._volumes.get(_volume_of(attachment))
            if attachment.spec.attacher and volume is not None and volume.spec and volume.spec.csi is not None:
                yield attachment.spec.attacher, volume.spec.csi.volumeHandle

    def _listener(self, kind: Kind) -> Callable[[Any, Any], None]:
        def changed(before: Any, now: Any) -> None:
            self._stale |= self._depending.get((kind.kind, full_name(now if before is None else before)), set())

        return changed

    def _attachment_changed(self, before: VolumeAttachment | None, now: VolumeAttachment | None) -> None:
        for attachment in (before, now):
            if attachment is not None:
                self._stale_nodes.add(attachment.spec.nodeName)
        if before is not None:
            on_node = self._attachments[before.spec.nodeName]
            del on_node[full_name(before)]
            if not on_node:
                del self._attachments[before.spec.nodeName]
        if now is not None:
            self._attachments.setdefault(now.spec.nodeName, {})[full_name(now)] = now


def _same_pods(known: dict[str, _OfPod], pods: dict[str, PodInfo]) -> bool:
    return known.keys() == pods.keys() and all(known[uid].volumes == pod.volumes for uid, pod in pods.items())


def _volume_of(attachment: VolumeAttachment) -> str:
    return attachment.spec.source.persistentVolumeName or ""


def _move(rows_of: dict[K, set[int]], row: int, before: AbstractSet[K], after: AbstractSet[K]) -> None:
    """Move a row from the sets of some keys to those of others. Empty sets are dropped."""
    for key in before - after:
        rows = rows_of[key]
        rows.discard(row)
        if not rows:
            del rows_of[key]
    for key in after - before:
        rows_of.setdefault(key, set()).add(row)
