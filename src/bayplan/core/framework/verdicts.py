"""Verdicts: the results of the filters for all nodes, as a column.

Each node has an integer code, an index into a table of statuses (plugin, code, reasons): there are many nodes, but few
distinct statuses. The message of an unschedulable pod is a `bincount` of it. The first plugin to reject a node counts.
A rejection is a value; a bug is an exception, which the runner turns into a `PluginError` with the plugin's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.core.cluster.columns import Bool, Int32, Rows, locked
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.foundations.failures import shown

_SUCCESS = Status(Code.SUCCESS)


_SEQUENCES = (tuple, Sequence)
"""A tuple is tried first, because it is what plugins pass, and the other test takes ten times as long."""


def _are_statuses(values: Sequence[object]) -> bool:
    for each in values:  # noqa: SIM110 # a third of the time of `all`
        if not isinstance(each, Status):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Rejections:
    """The result of `filter_nodes`.

    `index`: integers, shape (nodes,); 0 if the node is feasible, i if it is rejected with `statuses[i - 1]`.
    """

    index: Int32
    statuses: Sequence[Status]

    def __post_init__(self) -> None:
        """Check what a plugin has passed. Raises TypeError."""
        index, statuses = self.index, self.statuses
        if not isinstance(index, np.ndarray) or index.ndim != 1 or index.dtype.kind not in "iu":
            raise TypeError(f"the index of Rejections is {shown(index)}, expected an array of integers")
        if not isinstance(statuses, _SEQUENCES) or not _are_statuses(statuses):
            raise TypeError(f"the statuses of Rejections are {shown(statuses)}, expected a tuple of Status")

    @classmethod
    def where(cls, mask: Bool, answer: Status | str) -> Rejections:
        """Reject the nodes of the mask (bool, shape (nodes,)), all with the same status.

        A string is the reason of an unschedulable Status.
        """
        status = Status.unschedulable(answer) if isinstance(answer, str) else answer
        return cls(mask.astype(np.int32), (status,))

    def among(self, number: int, positions: Rows) -> Rejections:
        """Return the rejections for a selection of `number` nodes.

        The nodes of these rejections are at `positions` of that selection; its other nodes are feasible.
        """
        index = np.zeros(number, dtype=np.int32)
        index[positions] = self.index
        return Rejections(index, self.statuses)


class Verdicts:
    """The verdict on each node of a selection.

    `codes`: int32, shape (len(nodes),); 0 if the node is feasible or its row is not live, else an index into `table`.
    `feasible_mask`: bool, shape (len(nodes),); whether the node is still feasible.
    """

    __slots__ = ("_codes", "_counts", "_feasible", "_rejected", "feasible_mask", "nodes", "table")

    def __init__(self, nodes: Nodes, earlier: Verdicts | None = None) -> None:
        """Start with the verdicts of `earlier` on the same nodes, if there are any, else without rejections."""
        self.nodes = nodes
        self.feasible_mask: Bool = (nodes.live if earlier is None else earlier.feasible_mask).copy()
        self.table: list[Status] = [_SUCCESS] if earlier is None else earlier.table.copy()
        self._codes: Int32 = np.zeros(len(nodes), dtype=np.int32) if earlier is None else earlier.codes.copy()
        self._rejected: list[tuple[Int32, Bool, int]] = []
        """Rejections that `_codes` lacks: the index, the rejected nodes, and what to add to the index. Codes take
        longer than the rest of `reject`, and are needed only if no node is feasible or for a refresh."""
        self._feasible: Rows | None = None
        """The result of `feasible`, kept of frozen verdicts."""
        self._counts: list[tuple[Status, int]] | None = None
        """The result of `counts`, kept of frozen verdicts."""

    @property
    def codes(self) -> Int32:
        """The codes of all nodes, up to date."""
        if self._rejected:
            for index, rejected, offset in self._rejected:
                # The codes of feasible nodes are 0. Adding a product is several times as fast as copying with a mask.
                self._codes += (index + np.int32(offset)) * rejected
            self._rejected.clear()
            if not self.feasible_mask.flags.writeable:
                self._codes = locked(self._codes)
        return self._codes

    def reject(self, rejections: Rejections, plugin: str) -> None:
        """Reject nodes on behalf of a plugin. Statuses of nodes that are not feasible are ignored, errors included."""
        rejected = self.feasible_mask & (rejections.index > 0)
        if not np.count_nonzero(rejected):  # `any` takes several times as long
            return
        index = rejections.index.astype(np.int32, casting="same_kind")  # a copy: the plugin may use its array again
        if (last := index[index.argmax()]) > len(rejections.statuses):  # `max` takes several times as long
            raise PluginError(
                plugin, "Filter", f"the index has {last}, but there are {len(rejections.statuses)} statuses"
            )
        self._rejected.append((index, rejected, len(self.table) - 1))
        self.table.extend(status.by(plugin) for status in rejections.statuses)
        self.feasible_mask ^= rejected

    def set(self, position: int, status: Status) -> None:
        """Replace the verdict on one node by a rejection or an error."""
        self.codes[position] = len(self.table)
        self.table.append(status)
        self.feasible_mask[position] = False

    def settle(self, position: int, status: Status | None) -> None:
        """Replace the verdict on one node; None if it is feasible."""
        self.codes[position] = 0 if status is None else self._code_of(status)
        self.feasible_mask[position] = status is None

    def adopt(self, position: int, others: Verdicts) -> None:
        """Replace the verdict on one node by that of `others`, which are about the same nodes."""
        self.codes[position] = self._code_of(others.of(position))
        self.feasible_mask[position] = others.feasible_mask[position]

    def replace(self, positions: Rows, others: Verdicts) -> None:
        """Replace the verdicts on the nodes at `positions` by `others`, in the same order."""
        codes = np.array([0, *map(self._code_of, others.table[1:])], dtype=np.int32)
        self.codes[positions] = codes[others.codes]
        self.feasible_mask[positions] = others.feasible_mask

    def among(self, nodes: Nodes) -> Verdicts:
        """Return the verdicts on some of the nodes. These verdicts have to be about all rows of the table."""
        part = Verdicts(nodes)
        part._codes, part.feasible_mask = self.codes[nodes.rows], self.feasible_mask[nodes.rows]
        part.table = self.table
        return part

    def freeze(self, earlier: Verdicts | None = None) -> Verdicts:
        """Make the arrays read-only, for good, and return the verdicts.

        `earlier`: frozen verdicts on the same nodes. If they leave the same nodes feasible, the mask and the positions
        are the very same arrays.
        """
        self.feasible_mask = locked(self.feasible_mask)
        if not self._rejected:
            self._codes = locked(self._codes)
        if earlier is not None and not np.count_nonzero(self.feasible_mask ^ earlier.feasible_mask):
            self.feasible_mask, self._feasible = earlier.feasible_mask, earlier.feasible()
        return self

    def copy(self) -> Verdicts:
        """Return an independent copy."""
        return Verdicts(self.nodes, self)

    def feasible(self) -> Rows:
        """Return the positions of the feasible nodes, ascending."""
        if self._feasible is not None:
            return self._feasible
        positions: Rows = self.feasible_mask.nonzero()[0]
        if not self.feasible_mask.flags.writeable:
            self._feasible = positions = locked(positions)
        return positions

    def of(self, position: int) -> Status:
        """Return the status of one node."""
        return self.table[self.codes.item(position)]

    def counts(self) -> list[tuple[Status, int]]:
        """Return each status other than success with the number of its nodes."""
        if len(self.table) == 1:
            return []
        if self._counts is not None:
            return self._counts
        count = np.bincount(self.codes, minlength=len(self.table))
        counts = [(status, int(number)) for status, number in zip(self.table[1:], count[1:], strict=True) if number]
        if not self.feasible_mask.flags.writeable:
            self._counts = counts
        return counts

    def equal(self, other: Verdicts) -> bool:
        """Return whether other verdicts on the same nodes are the same."""
        if self is other:
            return True
        if len(self.codes) != len(other.codes) or self.table != other.table:
            return False
        return not np.count_nonzero(self.codes != other.codes)

    def error(self) -> Status | None:
        """Return the first status that reports an error; None if no node has one."""
        if len(self.table) == 1:
            return None
        errors = [code for code, status in enumerate(self.table) if status.code is Code.ERROR]
        return next((self.table[code] for code in errors if (self.codes == code).any()), None)

    def raise_error(self) -> None:
        """Raise PluginError if a node's status is an error: it is unknown whether the pod would fit there."""
        error = self.error()
        if error is not None:
            raise PluginError(error.plugin, "Filter", error.message)

    def rejected(self) -> Iterator[tuple[int, Status]]:
        """Yield the position and the status of each node that has a status other than success."""
        for position in np.flatnonzero(self.codes).tolist():
            yield position, self.of(position)

    def _code_of(self, status: Status) -> int:
        """Return the code of a status, which is added to the table if it is new."""
        try:
            return self.table.index(status)
        except ValueError:
            self.table.append(status)
            return len(self.table) - 1


@dataclass(slots=True)
class Diagnosis:
    """Why a pod does not fit on some or all nodes. Mirrors framework.Diagnosis.

    `verdicts` covers the nodes that the filters were run on, out of `total`; all others have the status `absent`.
    `narrowed_by`: the plugins whose PreFilter named the candidate nodes, if any did. `post_filters`: the names of the
    PostFilter plugins that were called, in order.
    """

    total: int
    verdicts: Verdicts | None = None
    absent: Status | None = None
    narrowed_by: frozenset[str] = frozenset()
    pre_filter_message: str = ""
    post_filter_message: str = ""
    post_filter_failed: bool = False
    post_filters: tuple[str, ...] = ()
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()

    def status_of(self, node_name: str) -> Status:
        """Return the status of a node. A node that does not exist is unresolvable."""
        position = self.verdicts.nodes.position(node_name) if self.verdicts is not None else None
        if self.verdicts is not None and position is not None:
            return self.verdicts.of(position)
        return self.absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def explain(self) -> str:
        """Return the message of the PodScheduled condition and the FailedScheduling event. Mirrors FitError.Error."""
        if self.pre_filter_message:
            text = f"0/{self.total} nodes are available: {self.pre_filter_message}."
        else:
            text = fit_error(self.total, self._reasons())
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text

    def _reasons(self) -> Counter[str]:
        reasons: Counter[str] = Counter()
        rejected = 0
        for status, number in self.verdicts.counts() if self.verdicts else ():
            rejected += number
            for reason in status.reasons:
                reasons[reason] += number
        if self.absent is not None and rejected < self.total:
            for reason in self.absent.reasons:
                reasons[reason] += self.total - rejected
        return reasons


def fit_error(total: int, reasons: Mapping[str, int]) -> str:
    """Return the message that a pod fits on none of `total` nodes. `reasons`: the number of nodes by reason."""
    text = f"0/{total} nodes are available:"
    if reasons:
        text += " " + ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items())) + "."
    return text
