"""RetryTimes: when a pod that was rejected has its next attempt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryTimes:
    """When a rejected pod has its next attempt, in seconds.

    `initial_backoff` and `max_backoff`: how long it waits after an event that helps (see `AttemptBackoff`).
    `unschedulable_timeout`: after how long it is attempted without an event. `keeps_order`: whether it keeps its place
    in the order, with the backoff of its first rejection alone, and only events requeue it: as if every pod that waits
    were tried again each time, while one of those that are alike is. A further rejection then changes nothing, so a pod
    is not attempted if hints say by its turn that no event helps it any more.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable_timeout: float = 300.0
    keeps_order: bool = False
