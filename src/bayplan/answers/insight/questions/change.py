"""Change: a change of the cluster or the pod, and what is known of it once it was tried: that it helps, and what it
costs.

`Help.order` is the order of all suggestions: what lasts, then the fewest changes, then the fewest evictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.answers.insight.answers import Progress, plural
from bayplan.answers.simulation.evictions import evict
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Edit


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the cluster or the pod.

    `text`: for people. `apply`: the changed and new objects, as whole documents. `delete`: pods to delete, by
    `namespace/name`. `parts`: the single changes that it consists of. `cost`: what else it does, such as "evicts 2 pods
    of team-b". `nodes`: how many nodes are blocked in the same way as the one that it changes. `edits`: what it does
    to the pod's manifest. `like`: the node that a new one is like; it is called as that one, with `-new`. `among`: the
    nodes that it is meant for, if it is for some. `forced`: whether the pods to delete are ending anyway.
    """

    text: str
    apply: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()
    cost: str = ""
    nodes: int = 1
    edits: tuple[Edit, ...] = ()
    like: str = ""
    among: frozenset[str] = frozenset()
    forced: bool = False

    @property
    def size(self) -> int:
        """How many changes it is: a new node is one, whatever it has, and so is the deletion of several pods."""
        others = len(self.edits) if self.like else len(self.parts.difference(self.delete))
        return others + bool(self.delete) + bool(self.like)

    def is_for(self, node: str) -> bool:
        """Return whether all of its parts are needed there: not if it is meant for other nodes."""
        return len(self.parts) == 1 or not self.among or node in self.among


@dataclass(frozen=True, slots=True)
class Help:
    """A change after which the pod is placed, on `node`.

    `victims`: the pods that it preempts there. `lasts`: False if the workload of the pod doesn't get all of its pods
    with the change, because its rollout gets stuck or is refused.
    """

    change: Change
    node: str
    victims: tuple[str, ...] = ()
    lasts: bool = True

    @property
    def order(self) -> tuple[bool, int, int]:
        """The key to sort changes by: whether it lasts, how many changes it is, and how many pods it evicts.

        A new node, or anything else that it costs, counts as one pod.
        """
        evicted = self.victims if self.change.forced else (*self.victims, *self.change.delete)
        return not self.lasts, self.change.size, max(len(evicted), bool(self.change.cost or self.change.like))

    def to_dict(self) -> dict[str, Any]:
        """Return the change as in docs/insight.md."""
        return {
            "change": self.change.text,
            "node": self.node,
            "apply": list(self.change.apply),
            "delete": list(self.change.delete),
            "cost": self.change.cost,
            "victims": list(self.victims),
            "lasts": self.lasts,
        }

    @property
    def text(self) -> str:
        """The change, where the pod goes then, and what the change costs."""
        alike = f"{plural(self.change.nodes, 'node')} like that" if self.change.nodes > 1 else ""
        notes = "; ".join(filter(None, (self.change.cost, alike)))
        return f"{self.change.text} -> {self.node}{f' ({notes})' if notes else ''}"


@dataclass(frozen=True, slots=True)
class Helpful:
    """The changes that were found to help. `interrupted`: whether others were not tried."""

    found: tuple[Help, ...] = ()
    interrupted: bool = False


Confirm = Callable[[World, PodInfo, Help, Progress], Help | None]
"""Tries a help further. Returns it with all that it costs; None if it doesn't help."""


Attempt = Callable[[World, PodInfo, Progress], Help | None]
"""Looks for one more change that helps. May raise Stopped."""


def tried_help(world: World, pod: PodInfo, found: Help, progress: Progress) -> Help | None:  # noqa: ARG001 - Confirm
    """Return the help: it is not tried further."""
    return found


def make(world: World, change: Change) -> None:
    """Make a change in a world: call this in a what-if. Raises ValueError for a document that can't be read."""
    for key in change.delete:
        victim = world.pod(key)
        if victim is not None:
            evict(world, victim)
    for document in change.apply:
        if document["kind"] == "Pod":
            changed = PodInfo.from_raw(encode(document))
            world.change(POD, changed.key, changed)
        elif document["kind"] == "Node":
            world.change(NODE, document["metadata"]["name"], convert(NODE.type, document))
        else:
            try:
                world.add(*identify(document))
            except SnapshotError as error:
                raise ValueError(str(error)) from None
