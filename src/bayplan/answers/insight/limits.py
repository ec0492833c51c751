"""What one question may add to a cluster, so that a link or a typo doesn't take the machine.

A question counts in an `AdditionLimit` what it is going to create, before it creates it. Long loops call its
`progress`, through which the caller ends a question (`Stopped`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from bayplan.answers.insight.answers import Progress, QuestionError, silent


class LimitError(QuestionError):
    """A question that asks for more than its limits allow. The message names the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one question may add to a cluster."""

    nodes: int = 5_000
    """New nodes."""
    pods: int = 50_000
    """New pods: replicas of workloads, and those of DaemonSets on new nodes."""
    objects: int = 50_000
    """Other new objects, such as claims."""
    memory: int = 256 * 2**20
    """Bytes of JSON of all these. A cluster in memory needs about ten times as much."""


UNLIMITED = Limits(nodes=sys.maxsize, pods=sys.maxsize, objects=sys.maxsize, memory=sys.maxsize)

EXAMPLES = 5
"""The largest causes are explained by an example."""
MOST_NEW_NODES = 1000
"""The most new nodes of a pool that are tried, unless the question says otherwise."""
LARGEST_POOL = 5000
"""The most new nodes of a pool that programs and the page may ask for."""


@dataclass(slots=True)
class AdditionLimit:
    """What one question has added so far. It is asked before anything is created."""

    limits: Limits = field(default_factory=Limits)
    progress: Progress = silent
    """Called for everything that is added. May raise Stopped."""
    nodes: int = 0
    pods: int = 0
    objects: int = 0
    memory: int = 0

    def check(self, where: str, *, nodes: int = 0, pods: int = 0, objects: int = 0, memory: int = 0) -> None:
        """Check whether so much more may be created. Raises LimitError. `where`: the part of the question that asks."""
        wanted = {"nodes": self.nodes + nodes, "pods": self.pods + pods, "objects": self.objects + objects}
        for name, number in wanted.items():
            most = getattr(self.limits, name)
            if number > most:
                raise LimitError(f"{where}: {number:,} new {name} in one question; the limit of {name} is {most:,}")
        if self.memory + memory > self.limits.memory:
            raise LimitError(
                f"{where}: {_mebibytes(self.memory + memory)} of new objects in one question; "
                f"the limit of memory is {_mebibytes(self.limits.memory)}"
            )

    def count(self, where: str, *, nodes: int = 0, pods: int = 0, objects: int = 0, memory: int = 0) -> None:
        """Count what is to be created, and its bytes of JSON. Raises LimitError, or what the progress raises."""
        self.check(where, nodes=nodes, pods=pods, objects=objects, memory=memory)
        self.nodes += nodes
        self.pods += pods
        self.objects += objects
        self.memory += memory
        self.progress(f"{self.nodes + self.pods + self.objects:,} new objects")


def _mebibytes(size: int) -> str:
    return f"{-(-size // 2**20):,} MiB"
