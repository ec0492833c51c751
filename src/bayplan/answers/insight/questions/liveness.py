"""Whether a scheduler is alive, as far as a cluster tells: its lease, its decisions, and pods that it has not tried.

"Unknown" is an answer: a snapshot has no process to ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Event

from bayplan.answers.insight.answers import plural
from bayplan.answers.simulation.world import World
from bayplan.core.api.durations import human
from bayplan.core.api.kinds import CORE_EVENT, LEASE
from bayplan.core.api.objects import UndecodableObject, decode
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.pod_info import PodInfo

_SKEW = timedelta(minutes=1)
"""How far the clocks of two machines may differ."""
_RECENT = timedelta(minutes=5)
"""How long ago a decision may be from which one sees that a scheduler runs."""
_LEASES = {"default-scheduler": "kube-scheduler"}
"""The names of leases by scheduler; others are usually named as their scheduler."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether the scheduler of a name runs; `alive` is None if nothing tells. `text`: why, in one sentence.

    `bound`: when it bound a pod last. `decided`: its last decision or event.
    """

    scheduler: str
    alive: bool | None
    text: str
    bound: datetime | None = None
    decided: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as in docs/insight.md."""
        return {
            "scheduler": self.scheduler,
            "alive": self.alive,
            "text": self.text,
            "bound": None if self.bound is None else rfc3339(self.bound),
            "decided": None if self.decided is None else rfc3339(self.decided),
        }


@dataclass(frozen=True, slots=True)
class SeenLease:
    """The lease of a scheduler. `lost`: whether nothing renews it any longer."""

    key: str
    renewed: datetime
    holder: str
    lost: bool


def lease_of(world: World, scheduler: str) -> SeenLease | None:
    """Return the lease of a scheduler, if its name tells which one that is. An odd lease tells nothing."""
    name = _LEASES.get(scheduler, scheduler)
    for key, raw in world.contents.documents.get(LEASE, {}).items():
        if key.rpartition("/")[2] != name:
            continue
        try:
            spec = decode(Lease, raw).spec
        except UndecodableObject:
            continue
        if spec is not None and spec.renewTime is not None:
            end = spec.renewTime + timedelta(seconds=spec.leaseDurationSeconds or 0) + _SKEW
            return SeenLease(key, spec.renewTime, spec.holderIdentity or "", world.handle.now() > end)
    return None


def liveness(world: World, scheduler: str, pods: Iterable[PodInfo], no_leases: str = "") -> Liveness:
    """Return whether a scheduler runs. `pods`: those that name it. `no_leases`: why leases can't be read, or ""."""
    bound, decided, waiting = None, None, []
    for pod in pods:
        condition = next((each for each in pod.status.conditions or () if each.type == "PodScheduled"), None)
        if condition is None:
            if not pod.node_name and not pod.terminating and pod.creation_timestamp is not None:
                waiting.append(pod.creation_timestamp)
            continue
        decided = _later(decided, condition.lastTransitionTime)
        if condition.status == "True":
            bound = _later(bound, condition.lastTransitionTime)
    for time in _event_times(world, scheduler):
        decided = _later(decided, time)
    alive, text = _judged(world, lease_of(world, scheduler), decided, sorted(waiting), no_leases)
    if bound is not None:
        text += f"; it bound a pod last {human((world.handle.now() - bound).total_seconds())} ago"
    if no_leases:
        text += f"; its lease isn't known: {no_leases}"
    return Liveness(scheduler, alive, text, bound, decided)


def _judged(
    world: World, lease: SeenLease | None, decided: datetime | None, waiting: list[datetime], no_leases: str
) -> tuple[bool | None, str]:
    """Whether it runs, and why. `waiting`: since when pods wait that it has not tried."""
    now = world.handle.now()
    if lease is not None and lease.lost:
        holder = f" by {lease.holder}" if lease.holder else ""
        return False, f"it seems not to run: its lease {lease.key} was last renewed at {rfc3339(lease.renewed)}{holder}"
    late = [since for since in waiting if now - since > _SKEW]
    if late and (decided is None or decided < late[-1]):
        waited = f"{plural(len(late), 'pod')} {'has' if len(late) == 1 else 'have'} waited"
        return False, f"it seems not to run: {waited} for up to {human_ago(now, late[0])}, and it has tried none"
    if lease is not None:
        return True, f"it runs: its lease {lease.key} was renewed {human_ago(now, lease.renewed)} ago"
    if decided is not None and now - decided <= _RECENT:
        return True, f"it runs: its last decision is from {human_ago(now, decided)} ago"
    if decided is not None:
        return None, f"nothing tells whether it runs: its last decision is from {human_ago(now, decided)} ago"
    no_lease = "" if no_leases else "no lease, "
    return None, f"nothing tells whether it runs: there is {no_lease}no decision and no event of it"


def human_ago(now: datetime, then: datetime) -> str:
    """Return how long ago a time is."""
    return human((now - then).total_seconds())


def _event_times(world: World, scheduler: str) -> Iterator[datetime]:
    """Yield the times of events that a scheduler has reported."""
    mark = scheduler.encode()
    for raw in world.contents.documents.get(CORE_EVENT, {}).values():
        if mark not in raw:
            continue
        try:
            event = decode(Event, raw)
        except UndecodableObject:
            continue  # an odd event tells nothing
        source = event.source.component if event.source is not None else ""
        time = event.lastTimestamp or event.eventTime
        if scheduler in {source, event.reportingComponent} and time is not None:
            yield time


def _later(first: datetime | None, second: datetime | None) -> datetime | None:
    return max((each for each in (first, second) if each is not None), default=None)
