"""The container images that nodes have, as columns.

An image takes memory only while a node has it. ImageLocality scores by its size and by how many nodes have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from lightkube.models.core_v1 import ContainerImage, Node

from bayplan.core.cluster.columns import Bool, grown


@dataclass(slots=True)
class ImageColumn:
    """The nodes that have an image.

    `size`: in bytes, as reported by the first node that had it. `present`: bool, shape (capacity,). `nodes`: the number
    of nodes that have it.
    """

    size: int
    present: Bool
    nodes: int = 0


class Images(dict[str, ImageColumn]):
    """The images that at least one node has, by name."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def replace(self, row: int, old: Node | None, new: Node | None) -> bool:
        """Replace a row's images by those of another version of its node. Returns whether they differ."""
        before, after = _images(old), _images(new)
        if before == after:
            return False
        self._remove(row, before)
        self._add(row, after)
        return True

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for column in self.values():
            column.present = grown(column.present, capacity)

    def _add(self, row: int, images: Sequence[ContainerImage]) -> None:
        for image in images:
            for name in image.names or ():
                column = self.get(name)
                if column is None:
                    column = self[name] = ImageColumn(image.sizeBytes or 0, np.zeros(self._capacity, dtype=np.bool_))
                if not column.present[row]:
                    column.present[row] = True
                    column.nodes += 1

    def _remove(self, row: int, images: Sequence[ContainerImage]) -> None:
        for image in images:
            for name in image.names or ():
                column = self.get(name)
                if column is not None and column.present[row]:
                    column.present[row] = False
                    column.nodes -= 1
                    if column.nodes == 0:
                        del self[name]


def _images(node: Node | None) -> Sequence[ContainerImage]:
    return (node.status.images if node is not None and node.status else None) or ()
