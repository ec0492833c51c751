"""Topology domains: the nodes that share the value of a label, and pods counted by them."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.tally import Tally


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one topology key.

    `codes`: the domain of every row of the node table; 0 for a row without the label, which rows that are not live
    are. The array never changes. What is summed by domain is indexed by code.
    """

    key: str
    codes: Rows
    count: int
    """How many codes there are, 0 included."""
    empty: int
    """The code of the empty value; -1 where no node has ever had it."""

    @classmethod
    def of(cls, key: str, nodes: Nodes) -> Domains:
        """The domains of a key over the whole node table."""
        table = nodes.table
        column = table.labels(key)
        return cls(key, column.frozen(table.size), len(column.values), column.code(""))

    def at(self, nodes: Nodes) -> Rows:
        """The domain of each of the selected nodes."""
        return self.codes[nodes.rows]

    def sum(self, tally: Tally) -> Int64:
        """The sum over the rows of each domain; 0 for rows without the label."""
        sums = tally.sum_by(self.codes, self.count)
        sums[0] = 0
        return sums
