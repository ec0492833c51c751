"""Topology domains: sets of nodes with the same value of a label, and pod counts by domain.

Domain 0 has the rows without the label; its sums are 0. PodTopologySpread and InterPodAffinity sum their tallies
(`tally.py`) by domain here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayplan.core.cluster.columns import Int64, Rows
from bayplan.core.cluster.nodes import Nodes


class Countable(Protocol):
    """Numbers by row; a Tally or ActivePods."""

    def sum_by(self, codes: Rows, count: int) -> Int64:
        """Return the sum of the rows of each code. See `Tally.sum_by`."""
        ...


@dataclass(slots=True)  # not frozen: each attempt makes several, and freezing triples the time to create one
class Domains:
    """The domains of one topology key. Arrays of sums by domain have shape (count,) and are indexed by code.

    Attributes:
        key: the topology key. codes: intp, shape (table.size,); the domain of each row of the node table. 0 if the node
        lacks the label, or the
            row is not live. The array is never modified.
        count: the number of codes, including 0. empty: the code of the empty value; -1 if no node has ever had it.
        everywhere: whether every row of the table is in a domain.
    """

    key: str
    codes: Rows
    count: int
    empty: int
    everywhere: bool

    @classmethod
    def of(cls, key: str, nodes: Nodes) -> Domains:
        """Return the domains of a key over the whole node table."""
        table = nodes.table
        column = table.labels(key)
        everywhere = column.present == table.size
        return cls(key, column.frozen(table.size), len(column.values), column.code(""), everywhere)

    def at(self, nodes: Nodes) -> Rows:
        """Return the domain of each selected node: intp, shape (len(nodes),)."""
        return self.codes[nodes.rows]

    def positions(self, nodes: Nodes) -> dict[int, Rows]:
        """Return the positions of the selected live nodes of each domain that has some, by code, ascending."""
        codes = np.where(nodes.live, self.at(nodes), 0)
        small = np.min_scalar_type(self.count)  # numbers of 16 bits are sorted in linear time
        grouped: Rows = np.argsort(codes.astype(small), kind="stable")
        counts = np.bincount(codes, minlength=self.count)
        ends = counts.cumsum()
        return {int(code): grouped[ends[code - 1] : ends[code]] for code in np.flatnonzero(counts) if code}

    def sum(self, tally: Countable) -> Int64:
        """Sum a tally by domain: int64, shape (count,). The sum of code 0 is 0."""
        sums = tally.sum_by(self.codes, self.count)
        sums[0] = 0
        return sums

    def sum_rows(self, numbers: Mapping[int, int]) -> Int64:
        """Sum numbers by row by domain, as `sum` does."""
        rows = np.fromiter(numbers, dtype=np.intp, count=len(numbers))
        weights = np.fromiter(numbers.values(), dtype=np.int64, count=len(numbers))
        inside = rows < len(self.codes)
        sums = np.bincount(self.codes[rows[inside]], weights=weights[inside], minlength=self.count).astype(np.int64)
        sums[0] = 0
        return sums
