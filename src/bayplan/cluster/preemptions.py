"""Which pods wait for their victims to be evicted. Mirrors the books of framework/preemption/executor.go."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.cluster.pod_info import PodInfo


class Preemptions:
    """The preemptions that go on, by the uid of the pod that preempts. `pod_on_node` looks up a pod by its uid.

    A preemption is over as far as its pod is concerned once the last victim is on its way out, even before the server
    has answered: otherwise the pod could sleep through the news that its victims are gone.
    """

    def __init__(self, pod_on_node: Callable[[str], PodInfo | None]) -> None:
        self._pod_on_node = pod_on_node
        self._last_victims: dict[str, str | None] = {}

    def begin(self, uid: str) -> None:
        """The victims of a pod are going to be evicted."""
        self._last_victims[uid] = None

    def only_left(self, uid: str, victim_uid: str) -> None:
        """All victims of a pod but one are evicted."""
        self._last_victims[uid] = victim_uid

    def end(self, uid: str) -> None:
        """The victims are evicted, or it was given up."""
        self._last_victims.pop(uid, None)

    def going_on(self, uid: str) -> bool:
        """Whether a pod has to wait because its victims are still being evicted."""
        if uid not in self._last_victims:
            return False
        last_victim = self._last_victims[uid]
        if last_victim is None:
            return True
        victim = self._pod_on_node(last_victim)
        return victim is not None and not victim.terminating

    def __len__(self) -> int:
        return len(self._last_victims)
