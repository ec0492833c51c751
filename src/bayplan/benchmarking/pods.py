"""What the benchmark knows of the pods in a cluster: counts by namespace and labels, kept up to date by every change.

Mirrors getScheduledPods in test/integration/scheduler_perf/util.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec


class SeenPod(msgspec.Struct, frozen=True, gc=False):
    """A version of a pod. `attempted`: whether the scheduler has tried it.

    The garbage collector doesn't track them, because its work would be measured on the core.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    node: str = ""
    attempted: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class PodCount:
    """Counts the pods of some namespaces (none: of all) that have some labels.

    `scheduled`: the pods that are on a node now. `attempted`: those, and the pods that were tried. `bound_at`: when
    each pod got its node, in seconds of the place's clock, since the count was made.
    """

    namespaces: Collection[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    scheduled: int = 0
    attempted: int = 0
    bound_at: list[float] = field(default_factory=list)

    def covers(self, pod: SeenPod) -> bool:
        """Whether a pod counts."""
        return (not self.namespaces or pod.namespace in self.namespaces) and matches(pod, self.labels)

    def add(self, pod: SeenPod, number: int) -> None:
        """Count a pod once more, or once less."""
        if pod.node:
            self.scheduled += number
        if pod.node or pod.attempted:
            self.attempted += number


def matches(pod: SeenPod, labels: Mapping[str, str]) -> bool:
    """Whether a pod has all these labels."""
    return all(pod.labels.get(name) == value for name, value in labels.items())


class SeenPods:
    """All pods, by `namespace/name`. `clock` says when a pod was bound; `changed` is called after every change."""

    def __init__(self, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._pods: dict[str, SeenPod] = {}
        self._counts: list[PodCount] = []

    def put(self, pod: SeenPod) -> None:
        """Note a new version of a pod."""
        old = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        bound = bool(pod.node) and (old is None or not old.node)
        for count in self._counts:
            if old is not None and count.covers(old):
                count.add(old, -1)
            if count.covers(pod):
                count.add(pod, 1)
                if bound:
                    count.bound_at.append(self._clock())
        self._changed()

    def attempted(self, key: str) -> None:
        """Note that the scheduler has tried a pod and left it pending."""
        pod = self._pods.get(key)
        if pod is not None and not pod.attempted:
            self.put(msgspec.structs.replace(pod, attempted=True))

    def remove(self, key: str) -> None:
        """Note that a pod is gone."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            for count in self._counts:
                if count.covers(pod):
                    count.add(pod, -1)
            self._changed()

    def select(self, namespace: str, labels: Mapping[str, str]) -> list[SeenPod]:
        """The pods of a namespace that have these labels."""
        return [pod for pod in self._pods.values() if pod.namespace == namespace and matches(pod, labels)]

    @contextmanager
    def counting(self, namespaces: Collection[str] = (), labels: Mapping[str, str] | None = None) -> Iterator[PodCount]:
        """Keep a count while the context is open."""
        count = PodCount(frozenset(namespaces), labels or {})
        for pod in self._pods.values():
            if count.covers(pod):
                count.add(pod, 1)
        self._counts.append(count)
        try:
            yield count
        finally:
            self._counts = [each for each in self._counts if each is not count]

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[SeenPod]:
        return iter(self._pods.values())
