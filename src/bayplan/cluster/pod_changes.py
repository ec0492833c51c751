"""What-ifs of nodes: pods that are hypothetically on them, or gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from typing import NamedTuple

import numpy as np

from bayplan.api.quantity import LARGEST
from bayplan.cluster.columns import Bool, Int64, Rows
from bayplan.cluster.pod_info import PodInfo

Amounts = Callable[[Sequence[PodInfo]], Sequence[int]]
"""Returns a number for each pod, of which a node has the sum over its pods: a request, or 1 for pods that match."""


class PodChanges(NamedTuple):
    """The what-if of one node.

    Attributes:
        added: pods that are hypothetically on the node.
        removed: pods of the node that are hypothetically gone.
    """

    added: Sequence[PodInfo] = ()
    removed: Sequence[PodInfo] = ()

    def difference(self, amounts_of: Amounts) -> int:
        """Return the difference that the what-if makes to the sum of an amount, as an int64, which may have wrapped."""
        difference = sum(amounts_of(self.added)) - sum(amounts_of(self.removed))
        return difference if abs(difference) <= LARGEST else (difference + 2**63) % 2**64 - 2**63

    def adding(self, pods: Sequence[PodInfo]) -> PodChanges:
        """Return the what-if that adds more pods."""
        return PodChanges((*self.added, *pods), self.removed)

    def signed(self) -> Iterator[tuple[PodInfo, int]]:
        """Yield the changed pods: removed ones with -1, added ones with 1."""
        yield from ((pod, -1) for pod in self.removed)
        yield from ((pod, 1) for pod in self.added)


class Removals(Mapping[int, PodChanges]):
    """What-ifs that remove pods from many nodes, as arrays. First, all of the given pods are removed.

    Attributes:
        pods: the pods of each node.
        sizes: their numbers: int64, shape (len(self),).
        removed: which of them are removed now: bool, shape (len(self), the largest size), False beyond the size.
    """

    __slots__ = ("_amounts", "_present", "pods", "removed", "sizes")

    def __init__(self, pods: Sequence[Sequence[PodInfo]]) -> None:
        self.pods = pods
        self.sizes: Int64 = np.fromiter(map(len, pods), dtype=np.int64, count=len(pods))
        self._present: Bool = np.arange(max(map(len, pods), default=0)) < self.sizes[:, None]
        self.removed: Bool = self._present.copy()
        self._amounts: dict[Hashable, Int64] = {}
        """By key: an amount of each pod, in the shape of `removed`."""

    def at(self, positions: Rows) -> Removals:
        """Return a copy of the what-ifs of some nodes."""
        some = Removals.__new__(Removals)
        some.pods = [self.pods[position] for position in positions.tolist()]
        some.sizes, some.removed = self.sizes[positions], self.removed[positions]
        some._present = self._present[positions]  # noqa: SLF001 - of this class
        some._amounts = {key: amounts[positions] for key, amounts in self._amounts.items()}  # noqa: SLF001
        return some

    def ordered(self, order: Rows) -> Removals:
        """Return what-ifs that remove all of these pods, with the pods of each node in another order.

        `order`: indexes in the concatenation of `pods`; each node's pods stay together.
        """
        everything = list(chain.from_iterable(self.pods))
        pods = map(everything.__getitem__, order.tolist())
        other = Removals([list(islice(pods, size)) for size in self.sizes.tolist()])
        for key, amounts in self._amounts.items():
            other._amounts[key] = moved = np.zeros_like(amounts)
            moved[self._present] = amounts[self._present][order]
        return other

    def difference(self, key: Hashable, amounts_of: Amounts) -> Int64:
        """Return the difference that the what-ifs make to the sums of an amount. `key`: identifies the amount."""
        amounts = self._amounts.get(key)
        if amounts is None:
            amounts = self._amounts[key] = np.zeros(self.removed.shape, dtype=np.int64)
            amounts[self._present] = amounts_of(list(chain.from_iterable(self.pods)))
        difference: Int64 = -np.add.reduce(amounts * self.removed, axis=1)
        return difference

    def __getitem__(self, position: int) -> PodChanges:
        if position >= len(self.pods):
            raise KeyError(position)
        return PodChanges((), tuple(compress(self.pods[position], self.removed[position].tolist())))

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.pods)
