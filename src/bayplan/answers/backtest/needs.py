"""Needs: which pods of a history are wanted for the same thing, because one has replaced the other.

A simulated scheduler preempts by itself. So a preemption of the history is not an input of the simulation, and neither
is the pod that replaced the victim. Both are one need: it arrives with its first pod, and ends with its last one.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from bayplan.answers.backtest.delays import RecordedDelays
from bayplan.answers.simulation.behaviour import DEFAULT_GRACE
from bayplan.answers.simulation.metered_nodes import Size
from bayplan.answers.simulation.owners import belongs_to, owners_of, run_time_groups
from bayplan.core.api.kinds import DAEMON_SET, STATEFUL_SET
from bayplan.core.api.well_known_labels import COMPLETION_INDEX
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.latest import LruDict

Slot = tuple[str, ...]
"""What a pod fills: pods with the same slot can replace each other."""

_SLACK = 5.0
"""Seconds that a victim may take to end beyond its grace period."""
_TOGETHER = 1.0
"""Pods of a slot that arrive until so many seconds after the victim may have been created with it."""
_WITHIN = 600.0
"""Seconds after a victim's end within which a pod of its slot replaces it: the longest backoff of a Job."""
_MOST = 10_000
"""How many groups are remembered: those whose pods ended last."""
_KEPT = 100
"""How many lengths of runs are kept for a group."""


@dataclass(frozen=True, slots=True)
class Kin:
    """What a pod has in common with those that may replace it. `groups`: see `run_time_groups`.

    `grace`: the grace period in seconds. `service`: see `belongs_to`.
    """

    slot: Slot
    named: bool
    """Whether only a pod of the same name fills the slot."""
    groups: tuple[str, ...]
    grace: float
    has_owner: bool
    service: str | None

    @property
    def waits_until_gone(self) -> bool:
        """Whether the pod is replaced only once it is gone."""
        return self.named or self.slot[1:2] == (DAEMON_SET.kind,)

    @classmethod
    def of(cls, pod: PodInfo) -> Kin:
        """Return that of a pod. Pods with equal documents share it."""
        found: Kin | None = pod.cache.get(Kin)
        if found is None:
            owner = next(owners_of(pod), None)
            grace = pod.spec.terminationGracePeriodSeconds
            found = pod.cache[Kin] = cls(
                (pod.namespace, *(owner or ()), pod.labels.get(COMPLETION_INDEX, "")),
                owner is None or owner[0] == STATEFUL_SET.kind,
                tuple(run_time_groups(pod)),
                float(DEFAULT_GRACE if grace is None else grace),
                owner is not None,
                belongs_to(pod),
            )
        return found


UNREADABLE = Kin((), True, (), float(DEFAULT_GRACE), False, "")
"""That of a pod which can't be read: nothing replaces it."""


@dataclass(slots=True)
class RecordedPod:
    """A pod of a history that has not ended, or not long ago. `index`: its number among the arrivals; -1 for one that
    was there at the start. `runs`: after how many seconds on its node it ends by itself, where that is known.
    """

    key: str
    uid: str
    index: int
    arrived: float
    kin: Kin
    size: Size
    target: str = ""
    """The node that it is made for, if it belongs to one."""
    bound: float | None = None
    node: str = ""
    runs: float | None = None
    deleted: bool = False

    @property
    def slot(self) -> Slot:
        """The place of a controller that the pod fills, so that another pod there replaces it."""
        if self.kin.named:
            return self.key, *self.kin.slot
        if self.kin.slot[1:2] == (DAEMON_SET.kind,):
            return self.target or self.node, *self.kin.slot
        return self.kin.slot


@dataclass(slots=True)
class _Victim:
    pod: RecordedPod
    ran: float
    """Seconds from its binding to its end."""
    ended: float
    replacement: RecordedPod | None = None
    doubtful: Sequence[RecordedPod] = ()
    """Pods that were created with the victim, or because it was evicted at once; the latest one first."""


class RecordedNeeds:
    """Finds the needs of a history while that is read. Memory: what exists, what ended not long ago, and all victims.

    Attributes:
        origins: by the uid of a pod that has replaced a victim, the uid of the first pod of its need.
        over: the uids of victims with whose end their need is over: their owners did not replace them.
        returning: the uids of victims without an owner that were created again by whatever had created them.
    """

    def __init__(self, delays: RecordedDelays) -> None:
        self._delays = delays
        self.origins: dict[str, str] = {}
        self.over: set[str] = set()
        self.returning: set[str] = set()
        self._candidates: dict[Slot, dict[str, RecordedPod]] = {}
        """By slot and uid: pods that have replaced no other, in the order of their arrival."""
        self._ended: deque[tuple[float, Slot, str]] = deque()
        """The candidates that have ended."""
        self._open: dict[Slot, deque[_Victim]] = {}
        """Victims that nothing has replaced yet."""
        self._runs: LruDict[str, deque[float]] = LruDict(_MOST)
        self._victims: dict[str, _Victim] = {}
        self._replaced: dict[str, str] = {}
        """By the uid of a replacement, the uid of the victim."""

    def is_victim(self, uid: str) -> bool:
        """Whether a scheduler has evicted a pod."""
        return uid in self._victims

    def arrived(self, pod: RecordedPod) -> None:
        """A pod was created. It replaces a victim that is gone, if one waits for that."""
        slot = pod.slot
        waiting = self._open.get(slot)
        while waiting:
            victim = waiting.popleft()
            if pod.arrived <= victim.ended + _WITHIN:
                self._replace(victim, pod)
                return
        self._open.pop(slot, None)
        if pod.index >= 0:
            self._candidates.setdefault(slot, {})[pod.uid] = pod

    def ended(self, pod: RecordedPod, at: float, *, preempted: bool, by_itself: bool) -> None:
        """A pod is gone: as a scheduler's victim, by itself, or because it was deleted or disrupted."""
        ran = 0.0 if pod.bound is None else at - pod.bound
        if preempted:
            self._preempted(_Victim(pod, ran, at))
        elif by_itself and pod.bound is not None:
            pod.runs = ran
        else:
            pod.deleted = True
        if not preempted and pod.bound is not None and (by_itself or not pod.kin.has_owner):
            for group in pod.kin.groups:
                runs = self._runs.get(group) or deque(maxlen=_KEPT)
                runs.append(ran)
                self._runs[group] = runs
        self._ended.append((at, pod.slot, pod.uid))
        while self._ended[0][0] < at - _WITHIN:
            _, slot, uid = self._ended.popleft()
            candidates = self._candidates.get(slot, {})
            candidates.pop(uid, None)
            if not candidates:
                self._candidates.pop(slot, None)

    def _preempted(self, victim: _Victim) -> None:
        """The replacement of a victim may have arrived while it terminated.

        Victims end in the order in which this is called. So the earliest pod that may be the replacement leaves the
        most for those that end later: as many victims as possible have one.
        """
        pod = victim.pod
        self._victims[pod.uid] = victim
        bound = pod.arrived if pod.bound is None else pod.bound
        earliest = max(bound, victim.ended - pod.kin.grace - _SLACK)
        candidates = self._candidates.get(pod.slot, {})
        latest_first = takewhile(lambda each: each.arrived > earliest, reversed(candidates.values()))
        possible = [each for each in latest_first if each.uid != pod.uid]
        found = next((each for each in reversed(possible) if each.arrived > pod.arrived + _TOGETHER), None)
        if found is not None:
            del candidates[found.uid]
            self._replace(victim, found)
            return
        victim.doubtful = possible
        self._open.setdefault(pod.slot, deque()).append(victim)

    def _replace(self, victim: _Victim, pod: RecordedPod) -> None:
        victim.replacement = pod
        self._replaced[pod.uid] = victim.pod.uid
        kin = victim.pod.kin
        if kin.has_owner:
            self._delays.replaced(kin.groups[0], victim.ended - pod.arrived, when_gone=kin.waits_until_gone)
        else:
            self.returning.add(victim.pod.uid)

    def settle(
        self, existing: Iterable[RecordedPod], end: float, note: Callable[[RecordedPod, float | None], None]
    ) -> None:
        """The history has been read until its `end`, when some pods still exist.

        Calls `note` for each of them, and for the first pod of each need that had a victim, with the seconds that it
        runs on a node until it ends by itself; None if it doesn't.
        """
        for victim in self._victims.values():
            if victim.replacement is None:  # nothing came later, so one of these has replaced it
                found = next((each for each in victim.doubtful if each.uid not in self._replaced), None)
                if found is not None:
                    self._replace(victim, found)
        self.origins = {uid: self._origin(uid) for uid in self._replaced}
        for pod in existing:
            if pod.uid not in self._replaced and pod.runs is None:
                note(pod, self._estimate(pod.kin, 0.0 if pod.bound is None else end - pod.bound))
        for uid, victim in self._victims.items():
            if uid not in self.origins:
                note(victim.pod, self._runs_of(victim, end))

    def _origin(self, uid: str) -> str:
        while uid in self._replaced:
            uid = self._replaced[uid]
        return uid

    def _runs_of(self, first: _Victim, end: float) -> float | None:
        """For how long a need runs: what its last pod says, or what similar pods do."""
        last = first
        while last.replacement is not None and last.replacement.uid in self._victims:
            last = self._victims[last.replacement.uid]
        pod, ran = last.replacement, last.ran
        if pod is not None and (pod.runs is not None or pod.deleted):
            return pod.runs
        if pod is not None and pod.bound is not None:
            ran = max(ran, end - pod.bound)
        found = self._estimate(last.pod.kin, ran)
        if found is None and pod is None and last.pod.kin.has_owner and last.ended + _SLACK < end:
            self.over.add(last.pod.uid)
        return found

    def _estimate(self, kin: Kin, ran: float) -> float | None:
        """The run time of a pod whose end wasn't seen: the median of similar pods that ran longer than that.

        None if no similar pod has ended.
        """
        for group in kin.groups:
            if runs := self._runs.get(group):
                longer = [each for each in runs if each > ran]
                return statistics.median(longer) if longer else ran
        return None
