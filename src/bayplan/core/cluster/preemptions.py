"""Running preemptions: which preemptors wait until their victims are evicted. Mirrors framework/preemption/executor.go.

DefaultPreemption's PreEnqueue holds a preemptor back while it is in `evicting`. `bayplan.core.executor.preemption`
begins and ends preemptions.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.core.cluster.pod_info import PodInfo


class Preemptions:
    """The running preemptions by the uid of the preemptor. `pod_on_node` looks up a pod by uid.

    For its preemptor, a preemption ends once the last victim is terminating, even before the API server has replied to
    the request: otherwise the preemptor could miss the deletion events of its victims.
    """

    def __init__(self, pod_on_node: Callable[[str], PodInfo | None]) -> None:
        self._pod_on_node = pod_on_node
        self._last_victims: dict[str, str | None] = {}
        self._preemptors: dict[str, set[str]] = {}
        """By last victim: the preemptors that wait for it, by uid."""
        self._groups: dict[str, str] = {}
        """By the UID of a PodGroup that preempts as a whole: the member that does it for the group, by uid."""
        self.evicting: set[str] = set()
        """Preemptors that have to wait, by uid. Read-only."""

    def begin(self, uid: str, group_uid: str = "") -> None:
        """Start the preemption of a pod. `group_uid`: of the PodGroup that it preempts for, if any."""
        self._last_victims[uid] = None
        if group_uid:
            self._groups[group_uid] = uid
        self.evicting.add(uid)

    def only_left(self, uid: str, victim_uid: str) -> None:
        """Record that only one victim is left to evict."""
        self._last_victims[uid] = victim_uid
        if self.in_progress(uid):
            self._preemptors.setdefault(victim_uid, set()).add(uid)
        else:
            self.evicting.discard(uid)

    def left(self, victim_uid: str) -> None:
        """Release the preemptors whose last victim this pod is. Call it when a pod on a node terminates or is gone."""
        self.evicting.difference_update(self._preemptors.pop(victim_uid, ()))

    def end(self, uid: str) -> None:
        """End the preemption of a pod, successful or not."""
        self.evicting.discard(uid)
        for group_uid in [each for each, member in self._groups.items() if member == uid]:
            del self._groups[group_uid]
        victim_uid = self._last_victims.pop(uid, None)
        if victim_uid in self._preemptors:
            self._preemptors[victim_uid].discard(uid)
            if not self._preemptors[victim_uid]:
                del self._preemptors[victim_uid]

    def in_progress(self, uid: str) -> bool:
        """Whether a pod must wait because its victims are being evicted; or a PodGroup that preempts as a whole."""
        uid = self._groups.get(uid, uid)
        if uid not in self._last_victims:
            return False
        last_victim = self._last_victims[uid]
        if last_victim is None:
            return True
        victim = self._pod_on_node(last_victim)
        return victim is not None and not victim.terminating

    def __len__(self) -> int:
        return len(self._last_victims)
