"""NodeMetadata: prefers nodes by a number or a time in one of their labels or annotations.

Mirrors pkg/nodemetadata/node_metadata.go of scheduler-plugins. Times are compared with each other, and never with the
clock: the order is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator

import numpy as np

from bayplan.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    FieldError,
    NodeColumn,
    NodeInfo,
    Nodes,
    Plugin,
    PluginArgs,
    PodInfo,
    field_errors,
    time_reader,
)
from bayplan_plugins.go_arithmetic import Scores, scaled

_RFC3339 = "2006-01-02T15:04:05Z07:00"
_DIGITS, _HEX = r"\d+(?:_\d+)*", r"[\da-f]+(?:_[\da-f]+)*"
_DECIMAL = re.compile(
    rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?", re.ASCII | re.IGNORECASE
)
_HEXADECIMAL = re.compile(rf"[+-]?0x(?:_?{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})p[+-]?{_DIGITS}", re.ASCII | re.IGNORECASE)
_WORST_INT = -(1 << 63)
"""Upstream's score of a node without a valid value."""
_NUMBERS, _TIMES = ("Highest", "Lowest"), ("Newest", "Oldest")


class NodeMetadataArgs(PluginArgs, kw_only=True):
    """Arguments of NodeMetadata. `timestampFormat`: as in Go's package `time`."""

    metadataKey: str = ""
    metadataSource: str = ""
    metadataType: str = ""
    scoringStrategy: str = ""
    timestampFormat: str = ""

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        if not self.metadataKey:
            yield field_errors.invalid("metadataKey", self.metadataKey, "metadataKey cannot be empty")
        if self.metadataSource not in {"Label", "Annotation"}:
            problem = 'metadataSource must be either "Label" or "Annotation"'
            yield field_errors.invalid("metadataSource", self.metadataSource, problem)
        if self.metadataType not in {"Number", "Timestamp"}:
            problem = 'metadataType must be either "Number" or "Timestamp"'
            yield field_errors.invalid("metadataType", self.metadataType, problem)
        strategy = self.scoringStrategy
        if strategy not in {*_NUMBERS, *_TIMES}:
            problem = 'scoringStrategy must be one of "Highest", "Lowest", "Newest", or "Oldest"'
            yield field_errors.invalid("scoringStrategy", strategy, problem)
        if self.metadataType == "Number" and strategy in _TIMES:
            problem = 'scoringStrategy "Newest" and "Oldest" are only valid for metadataType "Timestamp"'
            yield field_errors.invalid("scoringStrategy", strategy, problem)
        if self.metadataType == "Timestamp" and strategy in _NUMBERS:
            problem = 'scoringStrategy "Highest" and "Lowest" are only valid for metadataType "Number"'
            yield field_errors.invalid("scoringStrategy", strategy, problem)


class NodeMetadata(Plugin):
    """Scores a node by the value of a label or an annotation. A node without a valid value gets 0, others 1 to 100."""

    name = "NodeMetadata"
    arguments = NodeMetadataArgs
    reads_pods = False

    def __init__(self, args: NodeMetadataArgs) -> None:
        self._key = args.metadataKey
        self._of_labels = args.metadataSource == "Label"
        self._sign = -1 if args.scoringStrategy in {"Lowest", "Oldest"} else 1
        self._read: Callable[[str], int | None] = _number
        if args.metadataType == "Timestamp":
            self._read = time_reader(args.timestampFormat or _RFC3339)
        self._values = NodeColumn(self._value, np.int64, reads_pods=False)

    def sign(self, pod: PodInfo) -> Hashable:
        """Read nothing of the pod: the scores are the same for all pods."""
        return ()

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Return the values, so that the best one is the largest."""
        return self._values.of(nodes)

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Scale the valid values from 1 to 100."""
        valid = scores != _WORST_INT
        normalized = np.zeros_like(scores)
        normalized[valid] = scaled(scores[valid], 1, MAX_NODE_SCORE)
        return normalized

    def _value(self, node: NodeInfo) -> int:
        text = (node.labels if self._of_labels else node.annotations).get(self._key)
        value = None if text is None else self._read(text)
        return _WORST_INT if value is None else self._sign * value


def _number(text: str) -> int | None:
    """The whole part of a number as Go writes it; None for others, and for those that 64 bits can't hold."""
    digits = text.replace("_", "")
    try:
        if _DECIMAL.fullmatch(text):
            number = float(digits)
        elif _HEXADECIMAL.fullmatch(text):
            number = float.fromhex(digits)
        else:
            return None
    except OverflowError:
        return None
    return int(number) if -(2.0**63) < number < 2.0**63 else None
