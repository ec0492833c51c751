"""What CSINodes report about their nodes, as columns: drivers, their limits, and the migrated in-tree plugins.

A view of the store of CSINodes, which all plugins and profiles share. Call `refresh` first; it reads only nodes and
CSINodes that changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from lightkube.models.storage_v1 import CSINode

from bayplan.core.api.volumes import MIGRATED_PLUGINS, annotations_of
from bayplan.core.cluster.columns import Bool, Int64, grown
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.row_changes import KeyedColumns, RowChanges

NO_LIMIT = 2**62
"""The limit of a driver that reports none."""


class CsiNodes:
    """A view of the CSINodes. Use `refresh` before the columns, which have the shape (len(nodes),)."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._changes = RowChanges()
        self._stale: set[str] = set()
        """The names of nodes whose CSINode changed."""
        self._on_row: dict[int, CSINode] = {}
        """By row: the CSINode that the columns have."""
        self._limits: KeyedColumns[str] = KeyedColumns(NO_LIMIT)
        self._migrated: KeyedColumns[str] = KeyedColumns()
        self._installed: KeyedColumns[str] = KeyedColumns()
        self._known: Bool = np.zeros(0, dtype=np.bool_)
        self._limited: Bool = np.zeros(0, dtype=np.bool_)
        self._limited_rows = 0
        store.listen(self._changed)

    def refresh(self, table: NodeTable) -> None:
        """Apply the changes of nodes and CSINodes since the last call."""
        if len(self._known) < table.capacity:
            self._known, self._limited = (grown(each, table.capacity) for each in (self._known, self._limited))
        changed = self._changes.take(table)
        if not changed and not self._stale:
            return
        rows = set(changed)
        rows.update(row for name in self._stale if (row := table.row_of.get(name)) is not None)
        self._stale.clear()
        for row in rows:
            self._show(row, self._store.get(table.name_of(row)), table.capacity)

    def known(self, nodes: Nodes) -> Bool:
        """Whether the node has a CSINode."""
        return self._known[nodes.rows]

    def limited(self, nodes: Nodes) -> Bool:
        """Whether any driver has a limit on the node."""
        return self._limited[nodes.rows]

    @property
    def any_limits(self) -> bool:
        """Whether any driver has a limit on any node."""
        return self._limited_rows > 0

    def has_limits(self, driver: str) -> bool:
        """Whether a driver has a limit on any node."""
        return driver in self._limits

    def limit(self, driver: str, nodes: Nodes) -> Int64:
        """The maximum number of volumes of a driver; NO_LIMIT without a limit."""
        return self._limits.get(driver, nodes.rows, nodes.table.size)

    def installed(self, driver: str, nodes: Nodes) -> Bool:
        """Whether the node has a driver."""
        if driver not in self._installed:
            return np.zeros(len(nodes), dtype=np.bool_)
        installed: Bool = self._installed.get(driver, nodes.rows, nodes.table.size) > 0
        return installed

    def migrated(self, plugin: str, nodes: Nodes) -> Bool | None:
        """Whether the CSINode lists an in-tree plugin as migrated to its CSI driver; None if no CSINode does."""
        if plugin not in self._migrated:
            return None
        migrated: Bool = self._migrated.get(plugin, nodes.rows, nodes.table.size) > 0
        return migrated

    def _changed(self, before: CSINode | None, now: CSINode | None) -> None:
        for csi_node in (before, now):
            if csi_node is not None and csi_node.metadata is not None and csi_node.metadata.name:
                self._stale.add(csi_node.metadata.name)

    def _show(self, row: int, csi_node: CSINode | None, capacity: int) -> None:
        old = self._on_row.get(row)
        if old is csi_node:
            return
        if old is not None:
            del self._on_row[row]
            for driver in limits_of(old):
                self._limits.set(driver, row, NO_LIMIT, capacity)
            for plugin in migrated_plugins(old):
                self._migrated.set(plugin, row, 0, capacity)
            for each in old.spec.drivers or ():
                self._installed.set(each.name, row, 0, capacity)
        limits: Mapping[str, int] = {}
        if csi_node is not None:
            self._on_row[row] = csi_node
            limits = limits_of(csi_node)
            for driver, limit in limits.items():
                self._limits.set(driver, row, limit, capacity)
            for plugin in migrated_plugins(csi_node):
                self._migrated.set(plugin, row, 1, capacity)
            for each in csi_node.spec.drivers or ():
                self._installed.set(each.name, row, 1, capacity)
        self._limited_rows += bool(limits) - self._limited.item(row)
        self._known[row], self._limited[row] = csi_node is not None, bool(limits)


def limits_of(csi_node: CSINode) -> Mapping[str, int]:
    """The limits of a CSINode, by driver."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def migrated_plugins(csi_node: CSINode) -> frozenset[str]:
    """The in-tree plugins that a CSINode lists as migrated."""
    return frozenset(annotations_of(csi_node).get(MIGRATED_PLUGINS, "").split(",")) - {""}
