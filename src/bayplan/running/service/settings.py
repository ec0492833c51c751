"""What a running scheduler is made with, besides its plugins: its settings, and the processes that it works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bayplan.core.executor.extenders import Extenders
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.running.client.client import Client
from bayplan.running.client.pace import IDLE_SECONDS
from bayplan.running.service.leader_election import Leadership

if TYPE_CHECKING:
    from bayplan.running.provisioning.desk import Desk
    from bayplan.running.recording.recorder import DecisionRecorder


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a scheduler. Times are seconds.

    `blocked_after`: report a plugin that blocks the event loop for this long. `drain`: how long to wait on exit for
    bindings, evictions and work that plugins started. `look_for_kind`: how often to ask for a kind that the API server
    lacks. `delay_cache_until_active`: list the cluster only once this instance leads. `seed` makes the choice among
    nodes with equal scores repeatable. `freeze` lets the garbage collector visit only new objects after the first
    synchronization, in the whole process (see `collector`). `watch_idle`: how long a watch may be silent before its
    connection counts as dead. `clock`: the source of time.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable_timeout: float = 300.0
    blocked_after: float = 2.0
    drain: float = 10.0
    look_for_kind: float = 10.0
    watch_idle: float = IDLE_SECONDS
    delay_cache_until_active: bool = False
    seed: int | None = None
    freeze: bool = False
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class Peers:
    """Other processes that a scheduler works with. The caller opens and closes them.

    `extenders`: the services that decide with the plugins. `leadership`: set if several instances share the work, of
    which only the leader schedules. `events`: a client for writing events, so that they don't wait behind the bindings
    of a burst for a connection or the rate limit, as in kube-scheduler; None to use the scheduler's client. `recorder`:
    notes what decisions rest on; it has a seed, then, as the settings do. `provisioning`: answers the provisioning
    requests of the cluster.
    """

    extenders: Extenders | None = None
    leadership: Leadership | None = None
    events: Client | None = None
    recorder: DecisionRecorder | None = None
    provisioning: Desk | None = None
