"""The view of the nodes that plugins get: a selection of rows as arrays, or one node at a time.

A selection may carry a what-if: pods that are added to or removed from single nodes, for nominated pods and preemption.
Plugins read actual and hypothetical nodes in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from lightkube.models.core_v1 import Node, NodeSpec, NodeStatus
from lightkube.models.meta_v1 import ObjectMeta
from numpy.typing import NDArray

from bayplan.core.api import requests
from bayplan.core.api.objects import bare, encode
from bayplan.core.api.tolerations import Taint
from bayplan.core.cluster.columns import Bool, Int64, Rows, locked
from bayplan.core.cluster.host_ports import conflicts_with
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.pod_changes import Amounts, NodesChanges, PodChanges
from bayplan.core.cluster.pod_info import HostPort, PodInfo

T = TypeVar("T", bound=np.generic)
_NONZERO = {requests.CPU: 0, requests.MEMORY: 1}
"""The indexes of `NodeTable.nonzero_requested`."""
_NONZERO_AMOUNTS: Sequence[Amounts] = (
    lambda pods: [pod.nonzero_cpu for pod in pods],
    lambda pods: [pod.nonzero_memory for pod in pods],
)
"""By these indexes."""


class Nodes:
    """A selection of rows of the node table, with one position per row.

    All arrays have shape (len(self),) and are read-only: those of the table, and `rows`, can't be made writable. Rows
    that are not live may be included; verdicts and scores of such rows are ignored. `changes` maps positions to
    what-ifs, which the columns take into account.
    """

    __slots__ = ("changes", "rows", "table")

    def __init__(
        self, table: NodeTable, rows: slice | Rows | None = None, changes: Mapping[int, PodChanges] | None = None
    ) -> None:
        self.table = table
        self.rows: slice | Rows = slice(0, table.size) if rows is None else rows
        if not isinstance(self.rows, slice) and self.rows.flags.writeable:
            self.rows = locked(self.rows)
        self.changes: Mapping[int, PodChanges] = changes or {}

    def __len__(self) -> int:
        return self.table.size if isinstance(self.rows, slice) else len(self.rows)

    def at(self, positions: Rows) -> Nodes:
        """Return the selection of the rows at the given positions, with their what-ifs."""
        changes: Mapping[int, PodChanges] = {}
        if isinstance(self.changes, NodesChanges):
            changes = self.changes.at(positions)
        elif self.changes:
            changes = {new: self.changes[old] for new, old in enumerate(positions.tolist()) if old in self.changes}
        return Nodes(self.table, positions if isinstance(self.rows, slice) else self.rows[positions], changes)

    def changed(self, changes: Mapping[int, PodChanges]) -> Nodes:
        """Return the same rows with other what-ifs."""
        return Nodes(self.table, self.rows, changes)

    # Columns

    @property
    def live(self) -> Bool:
        """Whether the row's node exists."""
        return _read_only(self.table.locked.of("live")[self.rows])

    @property
    def pod_count(self) -> Int64:
        """The number of pods on the node: int64."""
        return self._adjusted(self.table.locked.of("pod_count")[self.rows], "pods", lambda pods: [1] * len(pods))

    @property
    def allowed_pods(self) -> Int64:
        """The maximum number of pods of the node: int64."""
        return _read_only(self.table.locked.of("allowed_pods")[self.rows])

    @property
    def unschedulable(self) -> Bool:
        """Whether the node is cordoned."""
        return _read_only(self.table.locked.of("unschedulable")[self.rows])

    def allocatable(self, resource: str) -> Int64:
        """Return the node's allocatable amount: int64, in millicores of cpu or the base units of other resources."""
        index = self.table.resources.get(resource)
        return _read_only(self._zeros() if index is None else self.table.locked.of("allocatable")[index][self.rows])

    def allocatable_range(self, resource: str) -> tuple[int, int]:
        """Return bounds for `allocatable`: the minimum and the maximum over all rows of the table, even unused ones."""
        return self.table.allocatable_range(resource)

    def requested(self, resource: str) -> Int64:
        """Return the sum of the requests of the node's pods, in the units of `allocatable`."""
        index = self.table.resources.get(resource)
        column = self._zeros() if index is None else self.table.locked.of("requested")[index][self.rows]
        return self._adjusted(column, ("requested", resource), _requests_for(resource))

    def nonzero_requested(self, resource: str) -> Int64:
        """Return the requests that scoring uses: as `requested`, with defaults for containers without requests."""
        index = _NONZERO.get(resource)
        if index is None:
            return self.requested(resource)
        column = self.table.locked.of("nonzero_requested")[index][self.rows]
        return self._adjusted(column, ("nonzero", resource), _NONZERO_AMOUNTS[index])

    def counted(self, amounts_of: Amounts) -> Int64:
        """Return the difference that the node's what-if makes to the sum of an amount: int64.

        Pass the same function for the same amount, because what-ifs may cache amounts by it.
        """
        return self._adjusted(self._zeros(), amounts_of, amounts_of)

    def label_where(self, key: str, predicate: Callable[[str | None], bool]) -> Bool:
        """Return whether the node's value of a label, or None without the label, satisfies the predicate.

        The predicate is called once per distinct value.
        """
        return self.table.labels(key).where(predicate, self.rows)

    def label_in(self, key: str, values: Iterable[str]) -> Bool:
        """Return whether the node has the label with one of these values."""
        return self.table.labels(key).isin(values, self.rows)

    def label_values(self, key: str) -> list[str]:
        """Return the distinct values of a label."""
        column = self.table.labels(key)
        used = np.flatnonzero(np.bincount(column.codes[self.rows]))  # `np.unique` takes several times as long
        return [value for code in used.tolist() if (value := column.values[code]) is not None]

    def has_label(self, key: str) -> Bool:
        """Return whether the node has the label."""
        present: Bool = self.table.labels(key).codes[self.rows] != 0
        return present

    def taints_where(self, predicate: Callable[[tuple[Taint, ...]], bool]) -> Bool:
        """Return whether the node's taints satisfy the predicate, which is called once per distinct list of taints."""
        return self.table.taints.where(predicate, self.rows)

    def taints_counted(self, count: Callable[[tuple[Taint, ...]], int]) -> Int64:
        """Return a number for the node's taints: int64. `count` is called once per distinct list of taints."""
        return self.table.taints.map(count, self.rows)

    @property
    def tainted(self) -> bool:
        """Whether any node may have taints."""
        return len(self.table.taints.values) > 1

    def port_conflicts(self, wanted: HostPort) -> Bool | None:
        """Return whether a host port conflicts with one that the node's pods use; None if it does on no node.

        As upstream, a victim of a dry run frees its ports, even if another pod uses them and did not come later.
        """
        column = self.table.port_conflicts(wanted)
        if column is None and not self.changes:
            return None
        now = self._zeros() if column is None else column[self.rows]
        left = self._adjusted(now, ("port", wanted), _conflicts_with(wanted))
        conflicts = left > 0
        for position in np.flatnonzero(conflicts & (left < now)).tolist():
            changes = self.changes[position]
            if changes.returned is not None:
                freed = {port for pod in changes.removed for port in pod.host_ports}
                later = (port for pod in (*changes.added, *changes.returned) for port in pod.host_ports)
                taken = {port for pod in self.pods(position) for port in pod.host_ports} - freed.difference(later)
                conflicts[position] = conflicts_with(wanted, taken) > 0
        return _read_only(conflicts)

    # One node

    def name(self, position: int) -> str:
        """Return the name of the node at a position."""
        return self.table.names[self.row(position)]

    def row(self, position: int) -> int:
        """Return the row of the table at a position."""
        return position if isinstance(self.rows, slice) else int(self.rows[position])

    def position(self, name: str) -> int | None:
        """Return the position of a node; None if it is not live, or not in the selection."""
        row = self.table.row_of.get(name)
        if row is None or not self.table.live[row]:
            return None
        if isinstance(self.rows, slice):
            return row
        found = np.flatnonzero(self.rows == row)
        return int(found[0]) if len(found) else None

    def positions(self, names: Collection[str]) -> dict[str, int]:
        """Return the positions of those of the named nodes that are live and in the selection."""
        row_of, live = self.table.row_of, self.table.live
        if not isinstance(self.rows, slice) and len(self.rows) <= len(names):
            found = [(self.table.names[row], position) for position, row in enumerate(self.rows.tolist()) if live[row]]
            return {name: position for name, position in found if name in names}
        rows = {name: row for name in names if (row := row_of.get(name)) is not None and live[row]}
        if isinstance(self.rows, slice) or not rows:
            return rows
        selected = np.isin(self.rows, list(rows.values()))
        return {self.table.names[self.rows[position]]: position for position in np.flatnonzero(selected).tolist()}

    def pods(self, position: int) -> list[PodInfo]:
        """Return the pods of the node at a position."""
        pods = self.table.pods[self.row(position)]
        changes = self.changes.get(position)
        if changes is None:
            return list(pods.values())
        removed = {pod.uid for pod in changes.removed}
        return [pod for pod in pods.values() if pod.uid not in removed] + list(changes.added)

    def pods_with_volumes(self) -> Iterator[tuple[int, Sequence[PodInfo]]]:
        """Yield the positions of nodes whose pods have volumes that affect scheduling, with these pods.

        A position with a what-if is always yielded.
        """
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
                removed = {pod.uid for pod in changes.removed}
                kept = [pod for uid, pod in pods.items() if uid not in removed]
                yield position, (*kept, *(pod for pod in changes.added if pod.volumes))

    def info(self, position: int) -> NodeInfo:
        """Return the node at a position, for the per-node form of a plugin."""
        return NodeInfo(self, position)

    def _zeros(self) -> Int64:
        return np.zeros(len(self), dtype=np.int64)

    def _adjusted(self, column: Int64, key: Hashable, amounts_of: Amounts) -> Int64:
        """Add what the what-ifs change. `key`: identifies the amount."""
        changes = self.changes
        if not changes:
            return _read_only(column)
        if isinstance(changes, NodesChanges):
            return _read_only(column + changes.difference(key, amounts_of))
        column, count = column.copy(), len(changes)
        positions = np.fromiter(changes, dtype=np.intp, count=count)
        differences = (each.difference(amounts_of) for each in changes.values())
        column[positions] += np.fromiter(differences, dtype=np.int64, count=count)
        return _read_only(column)


def _requests_for(resource: str) -> Amounts:
    return lambda pods: [pod.requested.get(resource, 0) for pod in pods]


def _conflicts_with(wanted: HostPort) -> Amounts:
    return lambda pods: [conflicts_with(wanted, pod.host_ports) if pod.host_ports else 0 for pod in pods]


def _read_only(column: NDArray[T]) -> NDArray[T]:
    """Protect a column against plugins that write. `column`: a locked view of the table, or a copy."""
    column.setflags(write=False)
    return column


class NodeInfo:
    """One node with its pods, as passed to `filter` and `score`. It takes what-ifs into account, and is read-only.

    Amounts are in millicores of cpu, and in base units of other resources.
    """

    __slots__ = ("_changes", "_nodes", "_position", "_row", "name")

    def __init__(self, nodes: Nodes, position: int) -> None:
        self._nodes = nodes
        self._position = position
        self._row = nodes.row(position)
        self._changes = nodes.changes.get(position) if nodes.changes else None
        self.name = nodes.table.names[self._row]

    @property
    def changes(self) -> PodChanges | None:
        """The what-if of the node; None if there is none."""
        return self._changes

    @property
    def alone(self) -> Nodes:
        """The selection of this node, with its what-if."""
        return self._nodes.at(np.array([self._position]))

    @property
    def position(self) -> int:
        """Its position in `among`."""
        return self._position

    @property
    def among(self) -> Nodes:
        """The selection that the node is taken from: in an extension point, all nodes."""
        return self._nodes

    @property
    def object(self) -> Node:
        """The node object."""
        node = self._nodes.table.nodes[self._row]
        assert node is not None
        return node

    @property
    def raw(self) -> bytes:
        """The node as JSON, as received from the server if that was kept; see `api.objects.bare`."""
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
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return tuple((taint.key, taint.value or "", taint.effect) for taint in self.spec.taints or ())

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
        """The pods on the node, assumed pods included."""
        return self._nodes.pods(self._position)

    @property
    def allocatable(self) -> Mapping[str, int]:
        """The allocatable amounts, by resource."""
        return {name: self.allocatable_of(name) for name in self._nodes.table.resources}

    @property
    def requested(self) -> Mapping[str, int]:
        """The sums of the pods' requests, by resource."""
        total = dict.fromkeys(self._nodes.table.resources, 0)
        for pod in self.pods:
            for name, amount in pod.requested.items():
                total[name] = total.get(name, 0) + amount
        return total

    @property
    def allowed_pods(self) -> int:
        """The maximum number of pods."""
        return self._nodes.table.allowed_pods.item(self._row)

    @property
    def pod_count(self) -> int:
        """The number of pods on the node."""
        count = self._nodes.table.pod_count.item(self._row)
        changes = self._changes
        return count if changes is None else count + len(changes.added) - len(changes.removed)

    def allocatable_of(self, resource: str) -> int:
        """Return the allocatable amount of one resource; 0 if the node has none."""
        table = self._nodes.table
        index = table.resources.get(resource)
        return 0 if index is None else table.allocatable.item(index, self._row)

    def requested_of(self, resource: str) -> int:
        """Return the sum of the pods' requests for one resource."""
        table = self._nodes.table
        index = table.resources.get(resource)
        requested = 0 if index is None else table.requested.item(index, self._row)
        if self._changes is not None:
            requested += self._changes.difference(_requests_for(resource))
        return requested

    def nonzero_requested_of(self, resource: str) -> int:
        """Return the requests that scoring uses, with defaults for pods that request no cpu or memory."""
        index = _NONZERO.get(resource)
        if index is None:
            return self.requested_of(resource)
        requested = self._nodes.table.nonzero_requested.item(index, self._row)
        if self._changes is not None:
            requested += self._changes.difference(_NONZERO_AMOUNTS[index])
        return requested

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"
