"""The latest changes of a cluster, from which its earlier states are made. Bounded in time and in number.

The scheduler decided on a state that was seen some time before the binding. `moments.py` goes back through the journal
to look for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.changes import node_changes

WINDOW = 30.0
"""Seconds for which a change is kept: longer than a binding usually takes."""
MOST = 16384
"""How many changes are kept at most."""
_PREEMPTED = b'"PreemptionByScheduler"'
"""The reason of the condition DisruptionTarget of a victim."""


class JournalEntry(NamedTuple):
    """A change of an object: how it was before, and how it is since; None where it doesn't exist.

    `matters`: whether decisions about other pods depend on it; if not, a pod arrived, or was deleted without a node.
    """

    position: int
    seconds: float
    kind: Kind
    key: str
    old: Any
    new: Any
    matters: bool = True

    @property
    def binds(self) -> bool:
        """Whether a pod got its node."""
        return (
            self.kind is POD
            and self.old is not None
            and self.new is not None
            and not self.old.node_name
            and bool(self.new.node_name)
        )

    @property
    def vanishes(self) -> bool:
        """Whether a pod was deleted that had no node here. The scheduler may have had one for it already."""
        return self.kind is POD and self.new is None and not self.old.node_name and not self.old.scheduling_gates

    @property
    def victim_on(self) -> str:
        """The node from which a scheduler has begun to evict this pod; "" if it hasn't."""
        if self.kind is not POD or self.old is None or not self.old.node_name or self.old.terminating:
            return ""
        ends = self.new is None or self.new.terminating
        marked = _PREEMPTED in (self.old if self.new is None else self.new).raw
        return self.old.node_name if ends and marked else ""

    @property
    def text(self) -> str:
        """What happened, for people."""
        old, new = self.old, self.new
        if self.kind is not POD:
            known = old if new is None else new
            kind = known.get("kind") if isinstance(known, CustomObject) else None
            name = f"{kind or self.kind.kind} {self.key}"
            return f"{name} was {'added' if old is None else 'deleted' if new is None else 'changed'}"
        if new is None:
            return f"pod {self.key} was deleted"
        if new.terminated:
            return f"pod {self.key} ended"
        if new.node_name and (old is None or old.node_name != new.node_name):
            return f"pod {self.key} was bound to {new.node_name}"
        if new.terminating and old is not None and not old.terminating:
            return f"the deletion of pod {self.key} began"
        if new.nominated_node_name != (old.nominated_node_name if old is not None else ""):
            return f"pod {self.key} was nominated for {new.nominated_node_name or 'no node'}"
        return f"pod {self.key} changed"


class ChangeJournal:
    """The latest changes that decisions may depend on, and the arrivals and deletions of all pods, oldest first.

    `next`: the position of the next change. Most other changes of pods don't matter.
    """

    def __init__(self, window: float = WINDOW, most: int = MOST) -> None:
        self.next = 0
        self._window = window
        self._most = most
        self._entries: deque[JournalEntry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, seconds: float, kind: Kind, key: str, old: Any, new: Any) -> None:
        """Add a change that has been made. Nothing is kept of one that no decision depends on."""
        matters = _matters(kind, old, new)
        if matters or (kind is POD and (old is None or new is None)):
            self._entries.append(JournalEntry(self.next, seconds, kind, key, old, new, matters))
            self.next += 1
            if len(self._entries) > self._most:
                self._entries.popleft()

    def forget(self, seconds: float) -> None:
        """Forget what is older than the window."""
        while self._entries and self._entries[0].seconds < seconds - self._window:
            self._entries.popleft()

    def before(self, position: int) -> Iterator[JournalEntry]:
        """Yield the changes before a position, the latest first."""
        return (each for each in reversed(self._entries) if each.position < position)

    def since(self, position: int) -> list[JournalEntry]:
        """Return the changes at and after a position, the oldest first."""
        found = []
        for each in reversed(self._entries):
            if each.position < position:
                break
            found.append(each)
        found.reverse()
        return found


def _matters(kind: Kind, old: Any, new: Any) -> bool:
    if kind is POD:
        return bool(_of_pod(old) != _of_pod(new))
    if kind is NODE and old is not None and new is not None:
        return bool(old.spec != new.spec or _images(old) != _images(new) or node_changes(old, new))
    return True


def _images(node: Any) -> Any:
    return node.status.images if node.status is not None else None


def _of_pod(pod: PodInfo | None) -> Any:
    """What decisions about other pods depend on; None if they don't depend on this one."""
    if pod is None or pod.terminated or not (pod.node_name or pod.nominated_node_name):
        return None
    return pod.node_name, pod.nominated_node_name, pod.uid, pod.terminating, pod.labels, pod.requested, pod.priority
