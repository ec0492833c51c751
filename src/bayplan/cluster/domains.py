"""Topology domains: the nodes that share the value of a label, and numbers summed over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import Int32, Int64
from bayplan.cluster.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one topology key.

    `codes`: the domain of every row of the node table, int32; 0 for a row without the label, which rows that are not
    live are. What is summed by domain is indexed by code.
    """

    key: str
    codes: Int32
    count: int
    """How many codes there are, 0 included."""
    empty: int
    """The code of the empty value; -1 where no node has ever had it."""

    @classmethod
    def of(cls, key: str, nodes: Nodes) -> Domains:
        """The domains of a key over the whole node table."""
        table = nodes.table
        column = table.labels(key)
        return cls(key, column.codes[: table.size], len(column.values), column.code(""))

    def at(self, nodes: Nodes) -> Int32:
        """The domain of each of the selected nodes."""
        return self.codes[nodes.rows]

    def sum(self, numbers: Int32 | Int64) -> Int64:
        """The sum of `numbers` (one a row) over the rows of each domain; 0 for rows without the label."""
        sums = sum_by(self.codes, numbers, self.count)
        sums[0] = 0
        return sums


def sum_by(codes: NDArray[np.integer], numbers: Int32 | Int64, count: int) -> Int64:
    """The sum of the numbers of each code. int64, shape (count,)."""
    # bincount sums in float64, which is exact far beyond any number of pods.
    return np.bincount(codes, weights=numbers, minlength=count).astype(np.int64)
