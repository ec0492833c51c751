"""Which bindings a scheduler had counted when it decided, although they are seen in another order here.

A scheduler counts a pod on its node as soon as it has decided. Its bindings are sent at once, each takes its own time,
and the pods are seen bound in another order than they were decided in, which is that of their arrival:

    decided   a  b  c          judged when b is seen bound: a is counted, though its binding comes later,
    seen      c  b  a          and c isn't, though it is bound already
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo

T = TypeVar("T")

AHEAD = 15.0
"""Seconds: how long a scheduler may wait for volumes and devices after it has decided, and count a pod on its node."""
_FIRST = datetime.min.replace(tzinfo=UTC)


def in_another_order(
    own: Any, arrival_of: Callable[[T], Any], seen: Iterable[T], coming: Iterable[T]
) -> tuple[list[T], list[T]]:
    """Return the bindings that were seen of pods that arrived later, and those that come of pods that arrived before.

    `own`: the arrival of the pod that is judged. Pods are decided in the order of their arrivals.
    """
    return [each for each in seen if arrival_of(each) > own], [each for each in coming if arrival_of(each) < own]


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """What an event of a stream means here. `arrived`: the uid of a pod that is created; `gone`: of one that ended.

    `binding`: of a pod that gets its node.
    """

    at: float
    arrived: str = ""
    gone: str = ""
    binding: SeenBinding | None = None


@dataclass(frozen=True, slots=True)
class SeenBinding:
    """A pod gets its node."""

    at: float
    key: str
    uid: str
    node: str


class NearBindings(Generic[T]):
    """Goes through a stream of events, and knows the bindings of the seconds before and after each.

    `read`: what an event means. `arrivals`: the numbers of the pods that had arrived before, by uid; those that aren't
    known are the first. Memory: what happens in AHEAD seconds, and a number per pod.
    """

    def __init__(self, events: Iterable[T], read: Callable[[T], SeenEvent], arrivals: dict[str, int]) -> None:
        self._events = events
        self._read = read
        self._arrivals = arrivals
        self._number = max(arrivals.values(), default=0)
        self._waiting: deque[tuple[SeenEvent, T]] = deque()
        self._coming: dict[str, SeenBinding] = {}
        self._seen: deque[SeenBinding] = deque()

    def __iter__(self) -> Iterator[T]:
        latest = 0.0
        for each in self._events:
            event = self._read(each)
            latest = max(latest, event.at)
            while self._waiting and self._waiting[0][0].at < latest - AHEAD:
                yield self._next()
            self._waiting.append((event, each))
            if event.binding is not None:
                self._coming[event.binding.uid] = event.binding
        while self._waiting:
            yield self._next()

    def add_seen(self, bindings: Iterable[SeenBinding]) -> None:
        """Add bindings that were seen before the stream begins, in order."""
        self._seen.extend(bindings)

    def _next(self) -> T:
        event, each = self._waiting.popleft()
        if event.arrived:
            self._number += 1
            self._arrivals[event.arrived] = self._number
        if event.gone:
            self._arrivals.pop(event.gone, None)
        while self._seen and self._seen[0].at < event.at - AHEAD:
            self._arrivals.pop(self._seen.popleft().uid, None)
        if event.binding is not None:
            self._coming.pop(event.binding.uid, None)
            self._seen.append(event.binding)
        return each

    def out_of_order(self, world: World, pod: PodInfo) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Return the pods near a pod that have other nodes in the order of the queue than they have in a world.

        First those that arrived before it, with the nodes that they get later; then those that arrived later, without
        the nodes that they have already.
        """
        known = {each.uid: found for each in (*self._seen, *self._coming.values()) if (found := _of(world, each))}
        seen = [each for each in self._seen if each.uid in known and known[each.uid].node_name == each.node]
        coming = [each for each in self._coming.values() if each.uid in known and not known[each.uid].node_name]

        early, late = in_another_order(self._arrival(pod), lambda each: self._arrival(known[each.uid]), seen, coming)
        return [known[each.uid].on_node(each.node) for each in late], [known[each.uid].on_node("") for each in early]

    def _arrival(self, pod: PodInfo) -> tuple[datetime, int]:
        return pod.creation_timestamp or _FIRST, self._arrivals.get(pod.uid, 0)


def _of(world: World, binding: SeenBinding) -> PodInfo | None:
    """The pod of a binding as it is in a world, if it is there."""
    pod = world.pod(binding.key)
    return pod if pod is not None and pod.uid == binding.uid else None
