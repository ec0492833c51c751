"""Status: what an extension point answers.

Mirrors fwk.Status (k8s.io/kube-scheduler/framework/interface.go). "No" is a value; a bug is an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """The kinds of answer, with upstream's names."""

    SUCCESS = 0
    ERROR = 1
    """Something is broken: the attempt fails and is repeated after a backoff."""
    UNSCHEDULABLE = 2
    """Not now; removing other pods might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Not now, and removing pods would not help."""
    WAIT = 4
    """Permit only: not yet."""
    SKIP = 5
    """The plugin has nothing to say about this pod: its later points need not be asked."""
    PENDING = 6
    """The pod waits for something that the plugin knows to come."""

    def __str__(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))


@dataclass(frozen=True, slots=True)
class Status:
    """An answer with its reasons, and the plugin that gave it (filled in by the runner)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        """Not on this node (or not now); preempting other pods might help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        """Not on this node (or not now), and preempting other pods would not help."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, *reasons: str) -> Status:
        """Something is broken."""
        return cls(Code.ERROR, reasons)

    @property
    def message(self) -> str:
        """The reasons in one text."""
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        """Whether the pod was turned down, as opposed to accepted or failed."""
        return self.code in {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}

    def by(self, plugin: str) -> Status:
        """The same answer, given by a plugin."""
        return Status(self.code, self.reasons, plugin)


SKIP = Status(Code.SKIP)
"""The answer of a plugin that has nothing to say about a pod."""


class PluginError(Exception):
    """A plugin raised, or answered something that its extension point does not know."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"plugin {plugin} failed in {point}: {problem}")
        self.plugin = plugin
        self.point = point
