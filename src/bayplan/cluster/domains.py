"""Topology domains: the nodes that share the value of a label, and numbers summed over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import Bool, Int64, Rows
from bayplan.cluster.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one topology key.

    `codes`: the domain of every row of the node table, int32; 0 for a row without the label. What is summed by domain
    is indexed by code, so that index 0 holds the rows without the label.
    """

    key: str
    codes: NDArray[np.int32]
    count: int
    """How many codes there are, 0 included."""

    @classmethod
    def of(cls, key: str, nodes: Nodes) -> Domains:
        """The domains of a key over the whole node table."""
        table = nodes.table
        column = table.labels(key)
        return cls(key, column.codes[: table.size], len(column.values))

    def at(self, nodes: Nodes) -> NDArray[np.int32]:
        """The domain of each of the selected nodes."""
        return self.codes[nodes.rows]

    def sum(self, numbers: NDArray[np.int32] | Int64, where: Bool) -> Int64:
        """The sum of `numbers` (one a row) over the rows of each domain that the mask picks. int64, one a code."""
        picked = self.codes[where]
        # bincount sums in float64, which is exact far beyond any number of pods.
        return np.bincount(picked, weights=numbers[where], minlength=self.count).astype(np.int64)

    def present(self, where: Bool) -> Bool:
        """Which domains have a row that the mask picks. bool, one a code."""
        present = np.zeros(self.count, dtype=np.bool_)
        present[self.codes[where]] = True
        return present

    def of_row(self, row: Rows | int) -> int:
        """The domain of one row."""
        return int(self.codes[row])
