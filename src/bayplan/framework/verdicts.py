"""Verdicts: what the filters said of every node, as a column.

One small integer a node points into a short table of statuses, because nodes are many and distinct answers are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.columns import Bool, Int32, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.framework.status import Code, PluginError, Status


@dataclass(frozen=True, slots=True)
class Rejections:
    """A whole-table filter's answer. `index`: int, one a node; 0 passes, i means `statuses[i - 1]`."""

    index: Int32
    statuses: Sequence[Status]

    @classmethod
    def where(cls, mask: Bool, answer: Status | str) -> Rejections:
        """The same answer for every node of the mask; a string is the reason why the nodes are unschedulable."""
        status = Status.unschedulable(answer) if isinstance(answer, str) else answer
        return cls(mask.astype(np.int32), (status,))

    def among(self, number: int, positions: Rows) -> Rejections:
        """The same answers where the nodes stand at some positions among others, which pass."""
        index = np.zeros(number, dtype=np.int32)
        index[positions] = self.index
        return Rejections(index, self.statuses)


class Verdicts:
    """The verdict of every node of a selection.

    `codes`: int32, one a node; 0 for a node that still stands (or whose row is not live), else an index into `table`.
    `standing`: bool, one a node. The first plugin to turn a node down is the one that counts.
    """

    __slots__ = ("codes", "nodes", "standing", "table")

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.codes: Int32 = np.zeros(len(nodes), dtype=np.int32)
        self.standing: Bool = nodes.live.copy()
        self.table: list[Status] = [Status(Code.SUCCESS)]

    def reject(self, rejections: Rejections, plugin: str) -> None:
        """Turn nodes down that still stand. An answer about any other node is ignored, errors included."""
        rejected = self.standing & (rejections.index > 0)
        if not rejected.any():
            return
        np.copyto(self.codes, rejections.index + (len(self.table) - 1), where=rejected, casting="same_kind")
        self.table.extend(status.by(plugin) for status in rejections.statuses)
        self.standing ^= rejected

    def set(self, position: int, status: Status) -> None:
        """Turn one node down, whatever was said of it before."""
        self.codes[position] = len(self.table)
        self.table.append(status)
        self.standing[position] = False

    def settle(self, position: int, status: Status | None) -> bool:
        """Say anew what became of one node, None for one that stands. Returns whether it stood before and now does not,
        or the other way round.
        """
        stood = bool(self.standing[position])
        if status is None:
            code = 0
        elif status in self.table:
            code = self.table.index(status)
        else:
            code = len(self.table)
            self.table.append(status)
        self.codes[position] = code
        self.standing[position] = status is None
        return stood is not (status is None)

    def replace(self, positions: Rows, others: Verdicts) -> None:
        """Take over what was said anew of the nodes at some positions; `others` are those, in that order."""
        codes = np.zeros(len(others.table), dtype=np.int32)
        for code, status in enumerate(others.table[1:], start=1):
            if status not in self.table:
                self.table.append(status)
            codes[code] = self.table.index(status)
        self.codes[positions] = codes[others.codes]
        self.standing[positions] = others.standing

    def among(self, nodes: Nodes) -> Verdicts:
        """What was said of some nodes; these verdicts are about all rows."""
        part = Verdicts(nodes)
        part.codes, part.standing = self.codes[nodes.rows], self.standing[nodes.rows]
        part.table = self.table
        return part

    def copy(self) -> Verdicts:
        """The same verdicts, to be changed on their own."""
        copied = Verdicts(self.nodes)
        copied.codes, copied.standing, copied.table = self.codes.copy(), self.standing.copy(), self.table.copy()
        return copied

    def feasible(self) -> Rows:
        """The positions of the nodes that still stand."""
        return np.flatnonzero(self.standing)

    def of(self, position: int) -> Status:
        """What was said of a node."""
        return self.table[int(self.codes[position])]

    def counts(self) -> list[tuple[Status, int]]:
        """Every answer that turned a node down, with the number of nodes."""
        if len(self.table) == 1:
            return []
        count = np.bincount(self.codes, minlength=len(self.table))
        return [(status, int(number)) for status, number in zip(self.table[1:], count[1:], strict=True) if number]

    def error(self) -> Status | None:
        """The first answer that is an error, if any node got one."""
        errors = [code for code, status in enumerate(self.table) if status.code is Code.ERROR]
        return next((self.table[code] for code in errors if (self.codes == code).any()), None)

    def raise_error(self) -> None:
        """Raise PluginError if a filter failed on a node: whether the pod fits there is unknown."""
        error = self.error()
        if error is not None:
            raise PluginError(error.plugin, "Filter", error.message)

    def rejected(self) -> Iterator[tuple[int, Status]]:
        """Every node that was turned down, by position, with its answer."""
        for position in np.flatnonzero(self.codes).tolist():
            yield position, self.of(position)


@dataclass(slots=True)
class Diagnosis:
    """Why no node, or not every node, takes a pod. Mirrors framework.Diagnosis.

    `verdicts` covers the nodes that were looked at, out of `total`; all others have the status `absent`.
    """

    total: int
    verdicts: Verdicts | None = None
    absent: Status | None = None
    pre_filter_message: str = ""
    post_filter_message: str = ""
    post_filter_failed: bool = False
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()

    def status_of(self, node_name: str) -> Status:
        """What was said of a node; of one that does not exist, that nothing helps."""
        position = self.verdicts.nodes.position(node_name) if self.verdicts is not None else None
        if self.verdicts is not None and position is not None:
            return self.verdicts.of(position)
        return self.absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def explain(self) -> str:
        """The text of the PodScheduled condition and of the FailedScheduling event. Mirrors FitError.Error."""
        text = f"0/{self.total} nodes are available:"
        if self.pre_filter_message:
            text += f" {self.pre_filter_message}."
        elif reasons := self._reasons():
            text += " " + ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items())) + "."
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text

    def _reasons(self) -> Counter[str]:
        reasons: Counter[str] = Counter()
        looked_at = 0
        for status, number in self.verdicts.counts() if self.verdicts else ():
            looked_at += number
            for reason in status.reasons:
                reasons[reason] += number
        if self.absent is not None and looked_at < self.total:
            for reason in self.absent.reasons:
                reasons[reason] += self.total - looked_at
        return reasons
