"""What-ifs of nodes: pods that are hypothetically on them, or gone.

`PodChanges` is the what-if of one node. `Removals` has those of many nodes as flat arrays: in a dry run of preemption,
all nodes take each step together. `AllRemoved` has those of all rows, which stay as they are. Plugins that read sums
(requests, counts) ask for the difference, and never copy a node.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from typing import NamedTuple

import numpy as np

from bayplan.core.api.quantity import LARGEST
from bayplan.core.cluster.columns import Bool, Int64, Rows
from bayplan.core.cluster.pod_info import PodInfo

Amounts = Callable[[Sequence[PodInfo]], Sequence[int]]
"""Returns a number for each pod: a request, or 1 for pods that match. A node has the sum over its pods."""


class PodChanges(NamedTuple):
    """The what-if of one node.

    Attributes:
        added: pods that are hypothetically on the node.
        removed: pods of the node that are hypothetically gone.
        returned: in a dry run of preemption, the pods of the node that were gone for a while; else None.
    """

    added: Sequence[PodInfo] = ()
    removed: Sequence[PodInfo] = ()
    returned: Sequence[PodInfo] | None = None

    def difference(self, amounts_of: Amounts) -> int:
        """Return the difference that the what-if makes to the sum of an amount, as an int64, which may have wrapped."""
        difference = sum(amounts_of(self.added)) - sum(amounts_of(self.removed))
        return difference if abs(difference) <= LARGEST else (difference + 2**63) % 2**64 - 2**63

    def adding(self, pods: Sequence[PodInfo]) -> PodChanges:
        """Return the what-if that adds more pods."""
        return self._replace(added=(*self.added, *pods))

    def signed(self) -> Iterator[tuple[PodInfo, int]]:
        """Yield the changed pods: removed ones with -1, added ones with 1."""
        yield from ((pod, -1) for pod in self.removed)
        yield from ((pod, 1) for pod in self.added)


class NodesChanges(Mapping[int, PodChanges]):
    """The what-ifs of many nodes, by position."""

    __slots__ = ()

    @abstractmethod
    def at(self, positions: Rows) -> NodesChanges:
        """Return the what-ifs of some nodes."""

    @abstractmethod
    def difference(self, key: Hashable, amounts_of: Amounts) -> Int64:
        """Return the difference that the what-ifs make to the sums of an amount. `key`: identifies the amount."""


class Removals(NodesChanges):
    """What-ifs that remove pods from many nodes, as arrays. First, all of the given pods are removed.

    All arrays are flat: they have one element per pod, in the order of the concatenation of `pods`. So no shape depends
    on which nodes are together.

    Attributes:
        pods: the pods of each node.
        sizes: their numbers: int64, shape (len(self),).
        starts: the index of each node's first pod in flat arrays: int64, shape (len(self),).
        removed: which pods are removed now: bool, flat.
    """

    __slots__ = ("_amounts", "pods", "removed", "sizes", "starts")

    def __init__(self, pods: Sequence[Sequence[PodInfo]]) -> None:
        self.pods = pods
        self.sizes: Int64 = np.fromiter(map(len, pods), dtype=np.int64, count=len(pods))
        self.starts: Int64 = np.cumsum(self.sizes) - self.sizes
        self.removed: Bool = np.ones(self.sizes.sum(), dtype=np.bool_)
        self._amounts: dict[Hashable, Int64] = {}
        """By key: an amount of each pod, flat."""

    def at(self, positions: Rows) -> Removals:
        """Return a copy of the what-ifs of some nodes."""
        some = Removals([self.pods[position] for position in positions.tolist()])
        places = self.places(positions)
        some.removed = self.removed[places]
        some._amounts = {key: amounts[places] for key, amounts in self._amounts.items()}
        return some

    def ordered(self, order: Rows) -> Removals:
        """Return what-ifs that remove all of these pods, with the pods of each node in another order.

        `order`: indexes in flat arrays; each node's pods stay together.
        """
        everything = list(chain.from_iterable(self.pods))
        pods = map(everything.__getitem__, order.tolist())
        other = Removals([list(islice(pods, size)) for size in self.sizes.tolist()])
        other._amounts = {key: amounts[order] for key, amounts in self._amounts.items()}
        return other

    def places(self, positions: Rows) -> Rows:
        """Return the indexes of the pods of some nodes in flat arrays."""
        sizes = self.sizes[positions]
        ends = np.cumsum(sizes)
        return np.repeat(self.starts[positions] - (ends - sizes), sizes) + np.arange(sizes.sum())

    def difference(self, key: Hashable, amounts_of: Amounts) -> Int64:
        """Return the difference that the what-ifs make to the sums of an amount. `key`: identifies the amount."""
        amounts = self._amounts.get(key)
        if amounts is None:
            amounts = np.array(amounts_of(list(chain.from_iterable(self.pods))), dtype=np.int64)
            self._amounts[key] = amounts
        sums = np.zeros(len(amounts) + 1, dtype=np.int64)  # a sum that wraps has wrapped back at the difference of two
        np.cumsum(amounts * self.removed, out=sums[1:])
        difference: Int64 = sums[self.starts] - sums[self.starts + self.sizes]
        return difference

    def __getitem__(self, position: int) -> PodChanges:
        if position >= len(self.pods):
            raise KeyError(position)
        pods = self.pods[position]
        start = self.starts.item(position)
        removed = self.removed[start : start + len(pods)]
        return PodChanges((), tuple(compress(pods, removed.tolist())), tuple(compress(pods, (~removed).tolist())))

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.pods)


class AllRemoved(NodesChanges):
    """What-ifs that remove pods from all rows of the node table, and sums that are kept until these pods change.

    `pods`: those of each row. `rows`: which rows these what-ifs are about, in their order; None for all.
    """

    __slots__ = ("_sums", "pods", "rows")

    def __init__(self, pods: list[Sequence[PodInfo]], rows: Rows | None = None) -> None:
        self.pods = pods
        self.rows = rows
        self._sums: dict[Hashable, tuple[Amounts, Int64]] = {}
        """By key: an amount of a pod, and its sums: int64, shape (len(pods),)."""

    def at(self, positions: Rows) -> AllRemoved:
        """Return the what-ifs of some nodes. The sums are common to all of them."""
        some = AllRemoved(self.pods, positions if self.rows is None else self.rows[positions])
        some._sums = self._sums
        return some

    def replace(self, pods: Mapping[int, Sequence[PodInfo]]) -> None:
        """Remove other pods from some rows, by row."""
        for row, others in pods.items():
            self.pods[row] = others
            for amounts_of, sums in self._sums.values():
                sums[row] = PodChanges(removed=others).difference(amounts_of)

    def copy(self) -> AllRemoved:
        """Return an independent copy."""
        other = AllRemoved(list(self.pods), self.rows)
        other._sums = {key: (amounts_of, sums.copy()) for key, (amounts_of, sums) in self._sums.items()}
        return other

    def difference(self, key: Hashable, amounts_of: Amounts) -> Int64:
        """Return the difference that the what-ifs make to the sums of an amount. `key`: identifies the amount."""
        known = self._sums.get(key)
        if known is None:
            known = self._sums[key] = amounts_of, Removals(self.pods).difference(key, amounts_of)
        return known[1] if self.rows is None else known[1][self.rows]

    def __getitem__(self, position: int) -> PodChanges:
        if position >= len(self):
            raise KeyError(position)
        return PodChanges((), self.pods[position if self.rows is None else self.rows.item(position)])

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.pods) if self.rows is None else len(self.rows)
