"""Topology domains: sets of nodes with the same value of a label, and pod counts by domain."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.tally import Tally


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one topology key. Arrays of sums by domain have shape (count,) and are indexed by code.

    Attributes:
        key: the topology key. codes: intp, shape (table.size,); the domain of each row of the node table. 0 if the node
        lacks the label, or the
            row is not live. The array is never modified.
        count: the number of codes, including 0. empty: the code of the empty value; -1 if no node has ever had it.
    """

    key: str
    codes: Rows
    count: int
    empty: int

    @classmethod
    def of(cls, key: str, nodes: Nodes) -> Domains:
        """Return the domains of a key over the whole node table."""
        table = nodes.table
        column = table.labels(key)
        return cls(key, column.frozen(table.size), len(column.values), column.code(""))

    def at(self, nodes: Nodes) -> Rows:
        """Return the domain of each selected node: intp, shape (len(nodes),)."""
        return self.codes[nodes.rows]

    def sum(self, tally: Tally) -> Int64:
        """Sum a tally by domain: int64, shape (count,). The sum of code 0 is 0."""
        sums = tally.sum_by(self.codes, self.count)
        sums[0] = 0
        return sums
