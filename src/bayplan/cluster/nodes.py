"""What plugins are given of the nodes: a selection of rows as arrays, or one node at a time.

A selection may carry a what-if: pods added to or taken from single rows in thought, as nominated pods and preemption
need. Plugins read it alike, so that the same code decides what is and what would be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from lightkube.models.core_v1 import Node, NodeSpec, NodeStatus
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api import requests
from bayplan.api.objects import bare, encode
from bayplan.api.tolerations import Taint
from bayplan.cluster.columns import Bool, Int64, Rows
from bayplan.cluster.node_table import NodeTable
from bayplan.cluster.pod_info import ANY_IP, HostPort, PodInfo

Count = Callable[[Collection[PodInfo]], int]
"""How many of some pods count for something; of several pods it is the sum of what it is of each."""


class PodChanges:
    """The what-if of one row: pods that are thought to be there, and those thought to be gone, as keys in order.

    `requested` is what the row's pods request more than they do, by resource. It follows the pods that come back and
    go, and so does every count that was asked for.
    """

    __slots__ = ("_counts", "added", "removed", "requested")

    def __init__(self, added: Iterable[PodInfo] = (), removed: Iterable[PodInfo] = ()) -> None:
        self.added = tuple(added)
        self.removed: dict[PodInfo, None] = dict.fromkeys(removed)
        self._counts: dict[Count, int] = {}
        requested: dict[str, int] = {}
        for pod in self.removed:
            for resource, amount in pod.requested.items():
                requested[resource] = requested.get(resource, 0) - amount
        for pod in self.added:
            for resource, amount in pod.requested.items():
                requested[resource] = requested.get(resource, 0) + amount
        self.requested = requested

    def counted(self, count: Count) -> int:
        """How many more of the row's pods count than do. What counts, is known by the identity of the function."""
        more = self._counts.get(count)
        if more is None:
            more = self._counts[count] = count(self.added) - count(self.removed)
        return more

    def bring_back(self, pod: PodInfo) -> None:
        """Let a pod that was thought to be gone be there."""
        del self.removed[pod]
        self._follow(pod, 1)

    def take_away(self, pod: PodInfo) -> None:
        """Let one of the row's pods be gone."""
        self.removed[pod] = None
        self._follow(pod, -1)

    def _follow(self, pod: PodInfo, sign: int) -> None:
        for resource, amount in pod.requested.items():
            self.requested[resource] = self.requested.get(resource, 0) + sign * amount
        for count in self._counts:
            self._counts[count] += sign * count((pod,))

    def signed(self) -> Iterator[tuple[PodInfo, int]]:
        """Every changed pod with -1 or +1."""
        yield from ((pod, -1) for pod in self.removed)
        yield from ((pod, 1) for pod in self.added)


class Nodes:
    """Rows of the node table, in the order of `rows`. All arrays are as long as the selection, and read-only by habit.

    `changes` maps positions in the selection to their what-ifs. Rows that are not live may be among them, and what is
    said of those is ignored.
    """

    __slots__ = ("changes", "rows", "table")

    def __init__(
        self, table: NodeTable, rows: slice | Rows | None = None, changes: Mapping[int, PodChanges] | None = None
    ) -> None:
        self.table = table
        self.rows: slice | Rows = slice(0, table.size) if rows is None else rows
        self.changes: Mapping[int, PodChanges] = changes or {}

    def __len__(self) -> int:
        return self.table.size if isinstance(self.rows, slice) else len(self.rows)

    def at(self, positions: Rows) -> Nodes:
        """The part of the selection at the given positions, what-ifs kept."""
        changes = {}
        if self.changes:
            changes = {new: self.changes[old] for new, old in enumerate(positions.tolist()) if old in self.changes}
        return Nodes(self.table, positions if isinstance(self.rows, slice) else self.rows[positions], changes)

    def changed(self, changes: Mapping[int, PodChanges]) -> Nodes:
        """The same rows under a what-if."""
        return Nodes(self.table, self.rows, changes)

    # Columns

    @property
    def live(self) -> Bool:
        """Whether the row's node exists."""
        return self.table.live[self.rows]

    @property
    def pod_count(self) -> Int64:
        """Pods on the node."""
        return self._adjusted(
            self.table.pod_count[self.rows], lambda changes: len(changes.added) - len(changes.removed)
        )

    @property
    def allowed_pods(self) -> Int64:
        """How many pods the node takes."""
        return self.table.allowed_pods[self.rows]

    @property
    def unschedulable(self) -> Bool:
        """Whether the node is cordoned."""
        return self.table.unschedulable[self.rows]

    def allocatable(self, resource: str) -> Int64:
        """What the node has for pods: cpu in thousandths, all others in whole units; 0 where it has none."""
        index = self.table.resources.get(resource)
        return self._zeros() if index is None else self.table.allocatable[index][self.rows]

    def allocatable_range(self, resource: str) -> tuple[int, int]:
        """The least and the greatest that any node has of a resource, at least: 0 if a row was ever left unused."""
        return self.table.allocatable_range(resource)

    def requested(self, resource: str) -> Int64:
        """What the node's pods request, in units as `allocatable`."""
        index = self.table.resources.get(resource)
        column = self._zeros() if index is None else self.table.requested[index][self.rows]
        return self._adjusted(column, lambda changes: changes.requested.get(resource, 0))

    def nonzero_requested(self, resource: str) -> Int64:
        """What scoring takes the node's pods to request: as `requested`, but with defaults for cpu and memory."""
        if resource == requests.CPU:
            column = self.table.nonzero_requested[0][self.rows]
            return self._adjusted(column, lambda changes: sum(sign * pod.nonzero_cpu for pod, sign in changes.signed()))
        if resource == requests.MEMORY:
            column = self.table.nonzero_requested[1][self.rows]
            return self._adjusted(
                column, lambda changes: sum(sign * pod.nonzero_memory for pod, sign in changes.signed())
            )
        return self.requested(resource)

    def counted(self, count: Count) -> Int64:
        """How many more of the node's pods count under its what-if than do."""
        return self._adjusted(self._zeros(), lambda changes: changes.counted(count))

    def label_where(self, key: str, predicate: Callable[[str | None], bool]) -> Bool:
        """Whether the node's value of a label (None where it has none) satisfies the predicate."""
        return self.table.labels(key).where(predicate, self.rows)

    def label_in(self, key: str, values: Iterable[str]) -> Bool:
        """Whether the node has a label with one of these values."""
        return self.table.labels(key).among(values, self.rows)

    def has_label(self, key: str) -> Bool:
        """Whether the node has a label."""
        present: Bool = self.table.labels(key).codes[self.rows] != 0
        return present

    def taints_where(self, predicate: Callable[[tuple[Taint, ...]], bool]) -> Bool:
        """Whether the node's taints satisfy the predicate, which is asked once per distinct set of taints."""
        return self.table.taints.where(predicate, self.rows)

    def taints_counted(self, count: Callable[[tuple[Taint, ...]], int]) -> Int64:
        """A number for the node's taints, which is asked for once per distinct set of taints."""
        return self.table.taints.mapped(count, self.rows)

    @property
    def tainted(self) -> bool:
        """Whether any node may have taints: False spares looking."""
        return len(self.table.taints.values) > 1

    def port_conflicts(self, wanted: HostPort) -> Bool | None:
        """Whether a host port clashes with one in use; None for nowhere."""
        column = self.table.port_conflicts(wanted)
        conflicts = None if column is None else column[self.rows]
        if not self.changes:
            return conflicts
        conflicts = np.zeros(len(self), dtype=np.bool_) if conflicts is None else conflicts.copy()
        for position, changes in self.changes.items():
            if changes.added or changes.removed:
                taken = (port for pod in self.pods(position) for port in pod.host_ports)
                conflicts[position] = any(clash(wanted, port) for port in taken)
        return conflicts

    # One node

    def name(self, position: int) -> str:
        """The node's name."""
        return self.table.names[self.row(position)]

    def row(self, position: int) -> int:
        """The row of the table behind a position."""
        return position if isinstance(self.rows, slice) else int(self.rows[position])

    def position(self, name: str) -> int | None:
        """Where a node is in the selection; None where it is not, or is not live."""
        row = self.table.row_of.get(name)
        if row is None or not self.table.live[row]:
            return None
        if isinstance(self.rows, slice):
            return row
        found = np.flatnonzero(self.rows == row)
        return int(found[0]) if len(found) else None

    def pods(self, position: int) -> list[PodInfo]:
        """The pods on a node, what-ifs applied."""
        pods = self.table.pods[self.row(position)]
        changes = self.changes.get(position)
        if changes is None:
            return list(pods.values())
        gone = {pod.uid for pod in changes.removed}
        return [pod for pod in pods.values() if pod.uid not in gone] + list(changes.added)

    def pods_with_volumes(self) -> Iterator[tuple[int, Sequence[PodInfo]]]:
        """The positions at which pods have volumes that decisions depend on, and these pods, what-ifs applied."""
        on_rows = self.table.volumes.pods
        if isinstance(self.rows, slice):
            positions = set(on_rows)
        else:
            positions = {position for position, row in enumerate(self.rows.tolist()) if row in on_rows}
        for position in positions | self.changes.keys():
            changes = self.changes.get(position)
            pods = on_rows.get(self.row(position), {})
            if changes is None:
                yield position, tuple(pods.values())
            else:
                gone = {pod.uid for pod in changes.removed}
                there = [pod for uid, pod in pods.items() if uid not in gone]
                yield position, (*there, *(pod for pod in changes.added if pod.volumes))

    def info(self, position: int) -> NodeInfo:
        """A node as the per-node form of a plugin sees it."""
        return NodeInfo(self, position)

    def _zeros(self) -> Int64:
        return np.zeros(len(self), dtype=np.int64)

    def _adjusted(self, column: Int64, more: Callable[[PodChanges], int]) -> Int64:
        if not self.changes:
            return column
        column, count = column.copy(), len(self.changes)
        positions = np.fromiter(self.changes, dtype=np.intp, count=count)
        column[positions] += np.fromiter(map(more, self.changes.values()), dtype=np.int64, count=count)
        return column


class NodeInfo:
    """One node with its pods: what a per-node plugin method is called with.

    `labels`, `spec`, `status` and `metadata` are the node's own; `allocatable` and `requested` are in thousandths of a
    cpu and whole units of everything else.
    """

    __slots__ = ("_nodes", "_position", "_row", "name")

    def __init__(self, nodes: Nodes, position: int) -> None:
        self._nodes = nodes
        self._position = position
        self._row = nodes.row(position)
        self.name = nodes.table.names[self._row]

    @property
    def object(self) -> Node:
        """The node itself."""
        node = self._nodes.table.nodes[self._row]
        assert node is not None
        return node

    @property
    def raw(self) -> bytes:
        """The node as JSON, as `api.objects.bare` has it: all that the server sent, where that was kept."""
        return self._nodes.table.raw.get(self.name) or bare(encode(self.object))

    @property
    def metadata(self) -> ObjectMeta:
        """The node's metadata."""
        metadata = self.object.metadata
        assert metadata is not None
        return metadata

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations."""
        return self.metadata.annotations or {}

    @property
    def spec(self) -> NodeSpec:
        """The node's spec."""
        return self.object.spec or NodeSpec()

    @property
    def status(self) -> NodeStatus:
        """The node's status."""
        return self.object.status or NodeStatus()

    @property
    def pods(self) -> Sequence[PodInfo]:
        """The pods that are on the node, assumed ones included."""
        return self._nodes.pods(self._position)

    @property
    def allocatable(self) -> Mapping[str, int]:
        """What the node has for pods, by resource."""
        return {name: self.allocatable_of(name) for name in self._nodes.table.resources}

    @property
    def requested(self) -> Mapping[str, int]:
        """What its pods request, by resource."""
        total = dict.fromkeys(self._nodes.table.resources, 0)
        for pod in self.pods:
            for name, amount in pod.requested.items():
                total[name] = total.get(name, 0) + amount
        return total

    @property
    def allowed_pods(self) -> int:
        """How many pods the node takes."""
        return self._nodes.table.allowed_pods.item(self._row)

    @property
    def pod_count(self) -> int:
        """Pods on the node."""
        count = self._nodes.table.pod_count.item(self._row)
        changes = self._nodes.changes.get(self._position)
        return count if changes is None else count + len(changes.added) - len(changes.removed)

    def allocatable_of(self, resource: str) -> int:
        """What the node has of one resource."""
        table = self._nodes.table
        index = table.resources.get(resource)
        return 0 if index is None else table.allocatable.item(index, self._row)

    def requested_of(self, resource: str) -> int:
        """What its pods request of one resource."""
        table = self._nodes.table
        index = table.resources.get(resource)
        requested = 0 if index is None else table.requested.item(index, self._row)
        changes = self._nodes.changes.get(self._position)
        return requested if changes is None else requested + changes.requested.get(resource, 0)

    def nonzero_requested_of(self, resource: str) -> int:
        """What scoring takes its pods to request of one resource: with defaults for cpu and memory."""
        if resource not in {requests.CPU, requests.MEMORY}:
            return self.requested_of(resource)
        cpu = resource == requests.CPU
        requested = self._nodes.table.nonzero_requested.item(0 if cpu else 1, self._row)
        changes = self._nodes.changes.get(self._position)
        if changes is None:
            return requested
        return requested + sum(
            sign * (pod.nonzero_cpu if cpu else pod.nonzero_memory) for pod, sign in changes.signed()
        )

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"


def clash(one: HostPort, other: HostPort) -> bool:
    """Whether two host ports cannot be taken on one node."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.ip == other.ip or ANY_IP in {one.ip, other.ip}
