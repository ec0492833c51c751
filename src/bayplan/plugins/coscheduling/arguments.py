"""The arguments of Coscheduling. Mirrors CoschedulingArgs (scheduler-plugins, apis/config/v1/types.go)."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import field_errors
from bayplan.api.field_errors import FieldError
from bayplan.plugins.arguments import PluginArgs


class CoschedulingArgs(PluginArgs, kw_only=True):
    """How long members wait for the others, and what becomes of a group of which one fits nowhere.

    `permitWaitingTimeSeconds`: how long a member waits in Permit at most, where its group does not say; 0 means 60.
    `podGroupBackoffSeconds`: for how long a group that did not fit is not tried again; 0: it may be at once.
    `podGroupRejectPercentage`: if no more than this part of a group is missing when a member fits nowhere, those that
    wait go on waiting.
    """

    permitWaitingTimeSeconds: int = 60
    podGroupBackoffSeconds: int = 0
    podGroupRejectPercentage: int = 10

    def faults(self) -> Iterator[FieldError]:
        """What is wrong with the values."""
        for name in ("permitWaitingTimeSeconds", "podGroupBackoffSeconds"):
            if getattr(self, name) < 0:
                yield field_errors.invalid(name, getattr(self, name), "must not be negative")
        if not 0 <= self.podGroupRejectPercentage <= 100:
            problem = "must be between 0 and 100"
            yield field_errors.invalid("podGroupRejectPercentage", self.podGroupRejectPercentage, problem)
