"""NodeMetadata: prefers the nodes with the highest or lowest number, or the newest or oldest time, in their metadata.

Mirrors pkg/nodemetadata/node_metadata.go of scheduler-plugins. Times are compared as they are, and not by their age, so
that no clock is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator

import numpy as np

from bayplan.plugin import CycleState, FieldError, NodeInfo, Nodes, Plugin, PluginArgs, PodInfo, field_errors
from bayplan_plugins.node_metadata.layouts import RFC3339, InvalidTime, parse
from bayplan_plugins.scaling import Scores, scale_to_range

NUMBER, TIMESTAMP = "Number", "Timestamp"
LABEL, ANNOTATION = "Label", "Annotation"
HIGHEST, LOWEST, NEWEST, OLDEST = "Highest", "Lowest", "Newest", "Oldest"
INVALID = -(2**63)
"""The raw score of a node without a valid value."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)


class NodeMetadataArgs(PluginArgs, kw_only=True):
    """Arguments of NodeMetadata.

    Attributes:
        metadataKey: the key of the label or annotation.
        metadataSource: `Label` or `Annotation`.
        metadataType: what the values are, `Number` or `Timestamp`.
        scoringStrategy: of numbers, `Highest` or `Lowest`; of times, `Newest` or `Oldest`.
        timestampFormat: how times are written, as a layout of Go; by default, as in RFC 3339.
    """

    metadataKey: str = ""
    metadataSource: str = ""
    metadataType: str = ""
    scoringStrategy: str = ""
    timestampFormat: str = ""

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        strategy, type_ = self.scoringStrategy, self.metadataType
        if not self.metadataKey:
            yield field_errors.invalid("metadataKey", "", "metadataKey cannot be empty")
        if self.metadataSource not in {LABEL, ANNOTATION}:
            problem = 'metadataSource must be either "Label" or "Annotation"'
            yield field_errors.invalid("metadataSource", self.metadataSource, problem)
        if type_ not in {NUMBER, TIMESTAMP}:
            yield field_errors.invalid("metadataType", type_, 'metadataType must be either "Number" or "Timestamp"')
        if strategy not in {HIGHEST, LOWEST, NEWEST, OLDEST}:
            problem = 'scoringStrategy must be one of "Highest", "Lowest", "Newest", or "Oldest"'
            yield field_errors.invalid("scoringStrategy", strategy, problem)
        for own, others, pair in ((NUMBER, {NEWEST, OLDEST}, TIMESTAMP), (TIMESTAMP, {HIGHEST, LOWEST}, NUMBER)):
            if type_ == own and strategy in others:
                first, second = (NEWEST, OLDEST) if own == NUMBER else (HIGHEST, LOWEST)
                problem = f'scoringStrategy "{first}" and "{second}" are only valid for metadataType "{pair}"'
                yield field_errors.invalid("scoringStrategy", strategy, problem)


class NodeMetadata(Plugin):
    """Scores nodes by a value in their metadata. Nodes without a valid one come after all others."""

    name = "NodeMetadata"
    arguments = NodeMetadataArgs
    reads_pods = False

    def __init__(self, args: NodeMetadataArgs) -> None:
        self._args = args
        self._sign = -1 if args.scoringStrategy in {LOWEST, OLDEST} else 1
        self._layout = args.timestampFormat or RFC3339

    def sign(self, pod: PodInfo) -> Hashable:
        """Read nothing of the pod."""
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return the value of a node, or INVALID."""
        values = node.labels if self._args.metadataSource == LABEL else node.annotations
        text = values.get(self._args.metadataKey)
        value = None if text is None else self._value(text)
        return INVALID if value is None else self._sign * value

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Scale valid scores to 1 to 100; invalid ones become 0."""
        valid = scores != INVALID
        scaled = np.zeros_like(scores)
        scaled[valid] = scale_to_range(scores[valid], least=1)
        return scaled

    def _value(self, text: str) -> int | None:
        """Return a value as an integer; None if it isn't valid."""
        if self._args.metadataType == NUMBER:
            number = float(text) if _NUMBER.fullmatch(text) else math.nan
            return int(number) if abs(number) < 2**63 else None
        try:
            return int(parse(self._layout, text).timestamp())
        except (InvalidTime, OverflowError):
            return None
