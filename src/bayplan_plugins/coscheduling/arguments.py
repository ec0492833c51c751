"""The arguments of Coscheduling. Mirrors CoschedulingArgs (scheduler-plugins, apis/config/v1/types.go)."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.plugin import FieldError, PluginArgs, field_errors


class CoschedulingArgs(PluginArgs, kw_only=True):
    """Arguments of Coscheduling.

    Attributes:
        permitWaitingTimeSeconds: how long a member waits in Permit, unless its PodGroup says otherwise; 0 means 60.
        podGroupBackoffSeconds: how long a group that did not fit is not retried; 0 disables the backoff.
        podGroupRejectPercentage: when a member is unschedulable, the waiting members are rejected only if more than
            this percentage of the group is missing.
    """

    permitWaitingTimeSeconds: int = 60
    podGroupBackoffSeconds: int = 0
    podGroupRejectPercentage: int = 10

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        for name in ("permitWaitingTimeSeconds", "podGroupBackoffSeconds"):
            if getattr(self, name) < 0:
                yield field_errors.invalid(name, getattr(self, name), "must be greater than 0")
        if not 0 <= self.podGroupRejectPercentage <= 100:
            problem = "must be between 0 and 100"
            yield field_errors.invalid("podGroupRejectPercentage", self.podGroupRejectPercentage, problem)
