"""The CSI volumes that are attached to nodes, counted by driver and row of the node table.

The counts are updated for the rows whose pods changed, and for the rows that use a claim, volume, class or attachment
that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lightkube.models.core_v1 import Volume
from lightkube.models.storage_v1 import VolumeAttachment

from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from bayplan.core.api.volumes import full_name
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.row_changes import KeyedColumns, RowChanges
from bayplan.core.framework.status import Status
from bayplan.core.plugins.node_volume_limits.volumes import NONE, CsiVolumeKey, CsiVolumes, VolumeLookup

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
    """The pods and attachments of one row, and how many of them use what."""

    node_name: str = ""
    pods: dict[str, _OfPod] = field(default_factory=dict)
    """By UID."""
    by_attachments: CsiVolumes = field(default_factory=dict)
    attachment_sources: AbstractSet[_Source] = frozenset()
    users: Counter[CsiVolumeKey] = field(default_factory=Counter)
    """By volume: the number of pods."""
    sources: Counter[_Source] = field(default_factory=Counter)
    """By object: the number of pods, and one for attachments."""
    count: Counter[str] = field(default_factory=Counter)
    """By driver: the number of volumes with users or attachments."""
    errors: int = 0
    """The number of pods with an error."""


class AttachedVolumes:
    """What is attached to the nodes. Use `refresh` before anything else."""

    def __init__(
        self,
        pod_volumes: VolumeLookup,
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
        changed = self._changes.take(table)
        if not (changed or self._stale or self._stale_nodes):
            return
        by_name = (row for name in self._stale_nodes if (row := table.row_of.get(name)) is not None)
        stale = self._stale.union(by_name)
        self._stale_nodes.clear()
        self._stale = set()
        for row in stale.union(changed):
            pods = table.volumes.pods.get(row, {}) if row < table.size else {}
            self._update(row, table.name_of(row), pods, table.capacity, again=row in stale)

    def count(self, driver: str, nodes: Nodes) -> Int64:
        """The number of attached volumes of a driver: int64, one per node. Without the what-ifs of nodes."""
        return self._counts.get(driver, nodes.rows, nodes.table.size)

    def rows_using(self, volume: CsiVolumeKey) -> Collection[int]:
        """The rows with pods that use a volume."""
        return self._using.get(volume, ())

    def errors(self) -> Iterator[tuple[int, Status]]:
        """The rows with a volume that has an error, with the first one."""
        for row in self._with_error:
            yield row, next(each.found for each in self._rows[row].pods.values() if isinstance(each.found, Status))

    def hypothetical(self, row: int, pods: Iterable[PodInfo]) -> Attached:
        """What is attached to the node of a row if its pods with volumes are these."""
        found = self._rows.get(row)
        known = {} if found is None else found.pods
        of_pods = (known[pod.uid].found if pod.uid in known else self._pod_volumes.of_placed(pod) for pod in pods)
        return Attached.of(of_pods, NONE if found is None else found.by_attachments)

    def _update(self, row: int, node_name: str, pods: dict[str, PodInfo], capacity: int, *, again: bool) -> None:
        """Apply what differs from the known state of a row: often one pod among many that stay.

        `again`: whether objects have changed that the row depends on.
        """
        found = self._rows.get(row)
        if found is None:
            if not pods and node_name not in self._attachments:
                return
            found = self._rows[row] = _Row()
        if again or found.node_name != node_name:
            found.node_name = node_name
            self._attach(row, found, self._attachments.get(node_name, {}).values())
        for uid in found.pods.keys() - pods.keys():
            self._account(row, found, found.pods.pop(uid), -1)
        for uid, pod in pods.items():
            known = found.pods.get(uid)
            if known is not None:
                if known.volumes == pod.volumes and not again:
                    continue
                self._account(row, found, known, -1)
            new = found.pods[uid] = self._of_pod(pod)
            self._account(row, found, new, 1)
        if found.errors:
            found.pods = {uid: found.pods[uid] for uid in pods}  # the first error counts
            self._with_error.add(row)
        else:
            self._with_error.discard(row)
        for driver, number in tuple(found.count.items()):
            self._counts.set(driver, row, number, capacity)
            if not number:
                del found.count[driver]
        if not found.pods and not found.sources:
            del self._rows[row]

    def _attach(self, row: int, found: _Row, attachments: Collection[VolumeAttachment]) -> None:
        """Replace the attachments of a row."""
        volumes = dict.fromkeys(self._of_attachments(attachments))
        for volume in found.by_attachments.keys() ^ volumes.keys():
            if volume not in found.users:
                found.count[volume[0]] += 1 if volume in volumes else -1
        sources = {(PERSISTENT_VOLUME.kind, _volume_of(attachment)) for attachment in attachments}
        for source in found.attachment_sources ^ sources:
            _tally(found.sources, source, 1 if source in sources else -1, self._depending, row)
        found.by_attachments, found.attachment_sources = volumes, sources

    def _account(self, row: int, found: _Row, each: _OfPod, by: int) -> None:
        """Count a pod that was added to a row (`by` 1), or removed from it (-1)."""
        for source in each.sources:
            _tally(found.sources, source, by, self._depending, row)
        if isinstance(each.found, Status):
            found.errors += by
            return
        for volume in each.found:
            if _tally(found.users, volume, by, self._using, row) and volume not in found.by_attachments:
                found.count[volume[0]] += by

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


def _volume_of(attachment: VolumeAttachment) -> str:
    return attachment.spec.source.persistentVolumeName or ""


def _tally(numbers: Counter[K], key: K, by: int, rows_of: dict[K, set[int]], row: int) -> bool:
    """Add to a row's number of a key. Returns whether the row joins or leaves the rows with this key."""
    number = numbers[key] + by
    numbers[key] = number
    if by > 0:
        if number == 1:
            rows_of.setdefault(key, set()).add(row)
        return number == 1
    if number:
        return False
    del numbers[key]
    rows = rows_of[key]
    rows.discard(row)
    if not rows:
        del rows_of[key]
    return True
