"""Rules of autoscalers, with two presets. docs/compare.md says what they leave out of the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """How an autoscaler decides. Times are in seconds.

    `scan`: how often it looks for waiting pods. `scan_idle`: how often it looks for nodes that can go. `consolidate`:
    whether any node may go; else, only nodes whose requests are below `threshold` of what is allocatable. `idle`: how
    long a node was so before it goes, if its pods fit elsewhere. `replace`: whether a node also goes if a cheaper one
    takes its place. `after_scale_up`: how long no node goes after one was added. `most_empty`: how many empty nodes go
    at once; a share below 1 is one of all nodes. `recheck`: how long a node stays that could not go. `tries`: how many
    nodes with pods are tried in one scan. `patience`: how long a node is drained before it is kept. `careful`: whether
    pods with local data, without an owner, and of kube-system keep their node.
    """

    scan: float = 10.0
    scan_idle: float = 60.0
    consolidate: bool = False
    replace: bool = False
    threshold: float = 0.5
    idle: float = 600.0
    after_scale_up: float = 600.0
    most_empty: float = 10
    recheck: float = 300.0
    tries: int = 10
    patience: float = 600.0
    careful: bool = True

    def changed(self, fields: Mapping[str, float | bool]) -> Rules:
        """Return rules with other values of some fields."""
        return replace(self, **{name: type(getattr(self, name))(value) for name, value in fields.items()})


PRESETS = {
    "cluster-autoscaler": Rules(),
    "karpenter": Rules(
        scan=2.0,
        scan_idle=10.0,
        consolidate=True,
        replace=True,
        threshold=1.0,
        idle=15.0,
        after_scale_up=0.0,
        most_empty=0.1,
        tries=3,
        careful=False,
    ),
}
"""The defaults of two autoscalers."""
