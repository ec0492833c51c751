"""The node table: nodes as rows, with one array per property, and the resources that the pods on them use.

The declaration of each array documents its meaning, shape, dtype and unit. Rows are reused. A column of a label is
built when the label is first asked for, and dropped with the last node that has it. Each row has a version
(`row_version`). Holds the data of framework.NodeInfo (pkg/scheduler/framework/types.go), by column instead of by node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.core.api import quantity, requests
from bayplan.core.api.tolerations import Taint
from bayplan.core.cluster.affinity_terms import ExistingTerms
from bayplan.core.cluster.claims_in_use import ClaimsInUse
from bayplan.core.cluster.columns import Bool, CodedColumn, Int64, LockedColumns, grown
from bayplan.core.cluster.host_ports import HostPorts
from bayplan.core.cluster.images import Images
from bayplan.core.cluster.pod_info import HostPort, PodInfo
from bayplan.core.cluster.pod_selectors import GroupKey
from bayplan.core.cluster.selector_groups import SelectorGroup, SelectorGroups
from bayplan.core.cluster.slots import Slots
from bayplan.core.cluster.volumes_in_use import VolumesInUse
from bayplan.foundations.shrinking import shrink

NO_PRIORITY = 2**31
"""Higher than every pod priority."""
INITIAL_CAPACITY = 64
"""The number of rows of a new table."""
_AMOUNTS = ("allocatable", "requested", "nonzero_requested", "pod_count", "allowed_pods")
_LARGE_AMOUNT = 2**53
"""Sums of amounts above it may exceed 64 bits."""
_PERMANENT_RESOURCES = 3
"""The first resources, which always have an index."""


class NodeTable:
    """A table with one row per node. Rows of deleted nodes are reused.

    A row is live while its node exists. A row that is not live may have pods, if they were observed before their node
    or after its deletion. The last axis of all arrays has length `capacity`; rows from `size` on are not used. `size`
    shrinks only when a node changes, so that it stays the same during an attempt.
    """

    def __init__(self) -> None:
        self.capacity = capacity = INITIAL_CAPACITY
        self.size = 0
        self.live_count = 0
        self.version = 0
        """Increases with every change of a row."""
        self.replaced = 0
        """How often any pod was replaced by a newer version."""
        self.nodes_version = 0
        """`version` at the last change of a node object."""
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        """By row: the pods on the node, by UID."""
        self.row_of_pod: dict[str, int] = {}
        """By UID: the row of a pod."""
        self.raw: dict[str, bytes] = {}
        """The JSON of nodes by name, for callers that keep it."""
        self.locked = LockedColumns(self)
        """The arrays below, for plugins."""
        self.live: Bool = np.zeros(capacity, dtype=np.bool_)
        self.row_version: Int64 = np.zeros(capacity, dtype=np.int64)
        """`version` at the last change of the row."""
        self.replacements: Int64 = np.zeros(capacity, dtype=np.int64)
        """How often a pod of the row was replaced by a newer version. Most replacements don't change `row_version`."""
        self.resources: dict[str, int] = {requests.CPU: 0, requests.MEMORY: 1, requests.EPHEMERAL_STORAGE: 2}
        """Maps the resources that nodes have or pods request to indexes of the first axis of `allocatable` and
        `requested`. Indexes are valid until the next change of a node or a pod."""
        self.allocatable: Int64 = np.zeros((3, capacity), dtype=np.int64)
        """Shape (resources or more, capacity); cpu in millicores, other resources in their base units."""
        self.requested: Int64 = np.zeros((3, capacity), dtype=np.int64)
        """The sum of the pods' requests; shape and units as for `allocatable`."""
        self.nonzero_requested: Int64 = np.zeros((2, capacity), dtype=np.int64)
        """cpu and memory, with scoring's defaults for containers without requests; units as for `allocatable`."""
        self.pod_count: Int64 = np.zeros(capacity, dtype=np.int64)
        self.allowed_pods: Int64 = np.zeros(capacity, dtype=np.int64)
        self.lowest_priority: Int64 = np.full(capacity, NO_PRIORITY, dtype=np.int64)
        """The lowest priority of the row's pods; NO_PRIORITY if it has none."""
        self.unschedulable: Bool = np.zeros(capacity, dtype=np.bool_)
        self.taints: CodedColumn[tuple[Taint, ...]] = CodedColumn(capacity, ())
        self.ports = HostPorts(capacity)
        self.images = Images(capacity)
        self.images_version = 0
        """Increases when the images of a node, or the number of nodes, change."""
        self.terms = ExistingTerms(capacity)
        """The affinity terms of the pods that are on nodes."""
        self.volumes = VolumesInUse()
        self.claims = ClaimsInUse()
        self._groups = SelectorGroups(capacity)
        self._labels: dict[str, CodedColumn[str | None]] = {}
        self._label_counts: Counter[str] = Counter()
        """By label key: the number of nodes that have the label."""
        self._no_label: CodedColumn[str | None] = CodedColumn(capacity, None)
        """The column of all labels that no node has."""
        self._resource_users: Counter[str] = Counter()
        """By resource, except the first three: the number of nodes that have it and of pods that request it."""
        self._resource_slots = Slots()
        for _ in self.resources:
            self._resource_slots.claim()
        self._slots = Slots()
        self._changes: list[int] = []
        """The changed rows of the latest versions, one per version, up to `version`."""
        self._ranges: dict[str, tuple[int, int]] = {}
        self._ranges_version = 0

    # Nodes

    def set_node(self, node: Node, raw: bytes | None = None) -> int:
        """Add or update a node, and return its row.

        `raw`: the node's JSON, to store it. Raises InvalidQuantity, and leaves the table unchanged.
        """
        metadata = node.metadata
        assert metadata is not None
        assert metadata.name is not None
        amounts = requests.parse_amounts((node.status.allocatable if node.status else None) or {})
        self._trim()
        row = self._claim_row(metadata.name)
        old = self.nodes[row]
        if old is None:
            self.live[row] = True
            self.live_count += 1
        if self.images.replace(row, old, node) or old is None:
            self.images_version += 1
        self.nodes[row] = node
        if raw is not None:
            self.raw[metadata.name] = raw
        self._set_allocatable(row, amounts)
        spec = node.spec
        self.unschedulable[row] = bool(spec and spec.unschedulable)
        taints = (spec.taints if spec else None) or ()
        self.taints.set(row, tuple((taint.key, taint.value or "", taint.effect) for taint in taints))
        self._set_labels(row, _labels(old), _labels(node))
        self._changed(row)
        self.nodes_version = self.version
        return row

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay on the row until they are removed. Unknown names are ignored."""
        row = self.row_of.get(name)
        if row is None or (node := self.nodes[row]) is None:
            return
        self.images.replace(row, node, None)
        self.images_version += 1
        self.nodes[row] = None
        self.raw.pop(name, None)
        self.live[row] = False
        self.live_count -= 1
        self._set_allocatable(row, {})
        self.unschedulable[row] = False
        self.taints.set(row, ())
        self._set_labels(row, _labels(node), {})
        self._changed(row)
        self.nodes_version = self.version
        self._release_row(row)
        self._trim()

    def name_of(self, row: int) -> str:
        """Return the name of the node that a row is for; "" for a row that is not used."""
        name = self.names[row] if row < self.size else ""
        return name if self.row_of.get(name) == row else ""

    def note(self, name: str) -> None:
        """Mark the row of a node as changed, for what other objects say of it. Unknown names are ignored."""
        row = self.row_of.get(name)
        if row is not None:
            self._changed(row)

    # Pods

    def add_pod(self, pod: PodInfo) -> None:
        """Add a pod to the row of its `node_name`. The row need not be live."""
        row = self._claim_row(pod.node_name)
        self.pods[row][pod.uid] = pod
        self.row_of_pod[pod.uid] = row
        if pod.priority < self.lowest_priority.item(row):
            self.lowest_priority[row] = pod.priority
        self._account(row, pod, 1)

    def pod(self, uid: str) -> PodInfo | None:
        """Return the pod with this UID; None if it is on no row."""
        row = self.row_of_pod.get(uid)
        return None if row is None else self.pods[row][uid]

    def remove_pod(self, uid: str) -> PodInfo:
        """Remove a pod from its row, and return it. Raises KeyError."""
        row = self.row_of_pod.pop(uid)
        shrink(self.row_of_pod)
        pods = self.pods[row]
        pod = pods.pop(uid)
        lowest = self.lowest_priority.item(row)
        if pod.priority == lowest and all(other.priority > lowest for other in pods.values()):
            self.lowest_priority[row] = min((other.priority for other in pods.values()), default=NO_PRIORITY)
        self._account(row, pod, -1)
        self._release_row(row)
        return pod

    def replace_pod(self, new: PodInfo) -> None:
        """Replace a pod by a newer version on the same row, with the same requests, claims, ports and affinity terms.

        Its labels often differ: when a pod is bound, the API server adds the topology labels of the node.
        """
        row = self.row_of_pod[new.uid]
        old = self.pods[row][new.uid]
        self.pods[row][new.uid] = new
        self.replacements[row] += 1
        self.replaced += 1
        self.volumes.replace(row, new)
        if old.labels != new.labels or old.terminating != new.terminating:
            self._groups.remove(row, old)
            self._groups.add(row, new)
            self._changed(row)

    def changed_since(self, version: int) -> list[int] | None:
        """Return the rows that have changed since a version, sorted; None if the version is too old to know."""
        number = self.version - version
        if number > len(self._changes):
            return None
        changed = set(self._changes[len(self._changes) - number :])
        return sorted([row for row in changed if row < self.size])

    # Columns

    def labels(self, key: str) -> CodedColumn[str | None]:
        """Return the column of a label, None for nodes without it. Use it before the next change of a node.

        A column is created at the first call, and kept up to date while a node has the label.
        """
        column = self._labels.get(key)
        if column is None:
            if key not in self._label_counts:
                return self._no_label
            column = self._labels[key] = CodedColumn(self.capacity, None)
            for row, node in enumerate(self.nodes):
                column.set(row, _labels(node).get(key))
        return column

    def label_keys(self) -> Collection[str]:
        """Return the keys of all labels of nodes."""
        return self._label_counts.keys()

    def allocatable_range(self, resource: str) -> tuple[int, int]:
        """Return the minimum and the maximum of `allocatable` over all rows. Rows that are not live count as 0."""
        if self._ranges_version != self.nodes_version:
            self._ranges.clear()
            self._ranges_version = self.nodes_version
        found = self._ranges.get(resource)
        if found is None:
            index = self.resources.get(resource)
            column = None if index is None else self.allocatable[index, : self.size]
            found = (0, 0) if column is None or not len(column) else (int(column.min()), int(column.max()))
            self._ranges[resource] = found
        return found

    def group(self, key: GroupKey) -> SelectorGroup:
        """Return the counts of the pods that match a key. Created at the first call, then kept up to date."""
        return self._groups.group(key)

    def port_conflicts(self, wanted: HostPort) -> Int64 | None:
        """Return how many host ports of each row conflict with `wanted`: int64, shape (size,); None for no row."""
        return self.ports.conflicts(wanted, self.size)

    # How a row changes

    def _account(self, row: int, pod: PodInfo, by: int) -> None:
        # Sums of amounts near the 64-bit limit wrap around, as in Go, so that removing a pod undoes adding it. Slices
        # wrap silently; single elements are faster, but warn.
        here: int | slice = row
        if max(pod.requested.values(), default=0) > _LARGE_AMOUNT:
            here = slice(row, row + 1)
        for name, amount in pod.requested.items():
            index = self.resources.get(name, _PERMANENT_RESOURCES)
            if index < _PERMANENT_RESOURCES:
                self.requested[index, here] += by * amount
            elif amount and by > 0:
                index = self._claim_resource(name)  # may replace the arrays
                self.requested[index, here] += amount
            elif amount:
                self.requested[index, here] -= amount
                self._release_resource(name)
        self.nonzero_requested[0, here] += by * pod.nonzero_cpu
        self.nonzero_requested[1, here] += by * pod.nonzero_memory
        self.pod_count[row] += by
        for port in pod.host_ports:
            self.ports.account(row, port, by)
        if by > 0:
            self._groups.add(row, pod)
        else:
            self._groups.remove(row, pod)
        self.terms.account(row, pod, by)
        self.volumes.account(row, pod, by)
        self.claims.account(row, pod, by)
        self._changed(row)

    def _set_labels(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Change the labels of a node in the columns. The last node without a label drops the label's column."""
        if old == new:
            return
        for key, value in new.items():
            if key not in old:
                self._label_counts[key] += 1
            if key in self._labels:
                self._labels[key].set(row, value)
        for key in old.keys() - new.keys():
            self._label_counts[key] -= 1
            if not self._label_counts[key]:
                del self._label_counts[key]
                self._labels.pop(key, None)
            elif key in self._labels:
                self._labels[key].set(row, None)

    def _set_allocatable(self, row: int, amounts: requests.Amounts) -> None:
        before = self.allocatable[:, row].tolist()
        old = [name for name, index in self.resources.items() if before[index]]
        new = {self._claim_resource(name): amount for name, amount in requests.counted(amounts).items() if amount}
        self.allocatable[:, row] = 0
        for index, amount in new.items():
            self.allocatable[index, row] = amount
        for name in old:
            self._release_resource(name)
        self.allowed_pods[row] = quantity.saturated(amounts.get(requests.PODS, 0) // quantity.NANO)

    def _changed(self, row: int) -> None:
        self.version += 1
        self.row_version[row] = self.version
        self._changes.append(row)
        if len(self._changes) > 4 * self.capacity:
            del self._changes[: 2 * self.capacity]

    # Resources

    def _claim_resource(self, name: str) -> int:
        """Return the index of a resource that a node or a pod uses from now on. May replace the arrays."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = self._resource_slots.claim()
            if index == len(self.allocatable):
                self._resize_resources(2 * index)
        if index >= _PERMANENT_RESOURCES:
            self._resource_users[name] += 1
        return index

    def _release_resource(self, name: str) -> None:
        """Undo `_claim_resource`. The index of a resource that is not used any more is reused."""
        index = self.resources[name]
        if index < _PERMANENT_RESOURCES:
            return
        self._resource_users[name] -= 1
        if self._resource_users[name]:
            return
        del self._resource_users[name], self.resources[name]
        self._resource_slots.release(index)
        size = self._resource_slots.trim()
        if 4 * size < len(self.allocatable):
            self._resize_resources(2 * size)

    def _resize_resources(self, number: int) -> None:
        for_all = np.zeros((2, number, self.capacity), dtype=np.int64)
        kept = min(number, len(self.allocatable))
        for_all[0, :kept], for_all[1, :kept] = self.allocatable[:kept], self.requested[:kept]
        self.allocatable, self.requested = for_all

    # Rows

    def _claim_row(self, name: str) -> int:
        row = self.row_of.get(name)
        if row is not None:
            return row
        row = self.row_of[name] = self._slots.claim()
        if row == self.capacity:
            self._grow()
        if row < self.size:
            self.names[row] = name
        else:
            self.size += 1
            self.names.append(name)
            self.nodes.append(None)
            self.pods.append({})
        return row

    def _release_row(self, row: int) -> None:
        if self.nodes[row] is None and not self.pods[row]:
            del self.row_of[self.names[row]]
            self._slots.release(row)

    def _trim(self) -> None:
        self.size = self._slots.trim()
        del self.names[self.size :], self.nodes[self.size :], self.pods[self.size :]

    def _grow(self) -> None:
        self.capacity *= 2
        for name in ("live", "row_version", "replacements", "unschedulable", *_AMOUNTS):
            setattr(self, name, grown(getattr(self, name), self.capacity))
        lowest_priority = np.full(self.capacity, NO_PRIORITY, dtype=np.int64)
        lowest_priority[: len(self.lowest_priority)] = self.lowest_priority
        self.lowest_priority = lowest_priority
        self.taints.grow(self.capacity)
        self.terms.grow(self.capacity)
        self._groups.grow(self.capacity)
        for column in (self._no_label, *self._labels.values()):
            column.grow(self.capacity)
        self.images.grow(self.capacity)
        self.ports.grow(self.capacity)


def _labels(node: Node | None) -> Mapping[str, str]:
    return (node.metadata.labels if node is not None and node.metadata else None) or {}
