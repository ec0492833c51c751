"""Which events help which pods: what the plugins registered, asked for one pod and one event.

Mirrors isPodWorthRequeuing (pkg/scheduler/backend/queue/scheduling_queue.go) and buildQueueingHintMap
(pkg/scheduler/scheduler.go).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import ALL_EVENTS, ANY, NODE, Action, ClusterEvent, EventHint, Hint, HintFunction
from bayplan.framework.profile import Point, Profile
from bayplan.log_fields import about_pod
from bayplan.queue.in_flight import Happened
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.unschedulable import Rejector

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """What the queue needs of a profile.

    `sort_key`: pod and `queued_at` to a key, the same function for all profiles of a queue; keys must be comparable.
    `pre_enqueue`: the PreEnqueue plugins in order. `hints`: the registered events by plugin name; a name that is
    missing counts as one that any event may help.
    """

    sort_key: Callable[[PodInfo, float], Any]
    pre_enqueue: Sequence[Any] = ()
    hints: Mapping[str, Sequence[EventHint]] = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile, any_event: Iterable[str] = ()) -> QueueProfile:
        """The part of a profile that concerns the queue.

        `any_event`: names that turn pods down without being plugins, such as an extender's. Raises ValueError for a
        profile that has not exactly one QueueSort plugin.
        """
        queue_sort = profile.at(Point.QUEUE_SORT)
        if len(queue_sort) != 1:
            raise ValueError(f"profile {profile.scheduler_name} has {len(queue_sort)} QueueSort plugins, expected one")
        hints = profile.events() | dict.fromkeys(any_event, (EventHint(ALL_EVENTS),))
        return cls(queue_sort[0].sort_key, tuple(profile.at(Point.PRE_ENQUEUE)), hints)


class Requeue(Enum):
    """What an event does to a pod that waits."""

    SKIP = "skip"
    """Nothing: the pod goes on waiting."""
    AFTER_BACKOFF = "after backoff"
    """The pod is tried again, not before its backoff is over."""
    IMMEDIATELY = "immediately"
    """What the pod waited for has come: it is tried again at once."""


_ALWAYS: Sequence[HintFunction | None] = (None,)


AskHint = Callable[[HintFunction, str, PodInfo, ClusterEvent, Any, Any], object]
"""(hint, plugin, pod, event, old, new) -> the hint's answer. Raises what the hint raises."""


def ask_hint(hint: HintFunction, _plugin: str, pod: PodInfo, _event: ClusterEvent, old: object, new: object) -> object:
    """Just ask."""
    return hint(pod, old, new)


class Hints:
    """The hints of all profiles, found by event. `ask_hint` is how one is asked."""

    def __init__(self, profiles: Mapping[str, QueueProfile], ask_hint: AskHint = ask_hint) -> None:
        self._ask_hint = ask_hint
        self._registered: dict[Rejector, list[EventHint]] = {
            (scheduler_name, plugin): _with_taints(hints)
            for scheduler_name, profile in profiles.items()
            for plugin, hints in profile.hints.items()
        }
        self._matching: dict[tuple[str, Action], dict[Rejector, list[HintFunction | None]]] = {}

    def interested(self, event: ClusterEvent) -> bool:
        """Whether an event may help anybody."""
        return _concerns_all(event) or bool(self._match(event))

    def helps(self, rejector: Rejector, event: ClusterEvent) -> bool:
        """Whether an event may help a pod that this plugin turned down, without asking the hint."""
        return _concerns_all(event) or rejector in self._match(event) or rejector not in self._registered

    def ask(self, queued: QueuedPod, event: ClusterEvent, old: object, new: object) -> Requeue:
        """What an event does to a pod. `old` and `new`: the object before and after, None where there was none.

        A pending plugin's hint counts for more than all others, because what it says came is what the pod waits for.
        """
        if not queued.rejected:
            return Requeue.AFTER_BACKOFF
        if _concerns_all(event):
            return Requeue.AFTER_BACKOFF if new is None or _same_pod(new, queued.pod) else Requeue.SKIP
        matching = self._match(event)
        for plugins, answer in (
            (queued.pending_plugins, Requeue.IMMEDIATELY),
            (queued.unschedulable_plugins, Requeue.AFTER_BACKOFF),
        ):
            for plugin in plugins:
                rejector = (queued.pod.scheduler_name, plugin)
                hints = matching.get(rejector, () if rejector in self._registered else _ALWAYS)
                if any(hint is None or self._queues(hint, plugin, queued.pod, event, old, new) for hint in hints):
                    return answer
        return Requeue.SKIP

    def ask_all(self, queued: QueuedPod, events: Iterable[Happened]) -> Requeue:
        """What all events together do to a pod."""
        verdict = Requeue.SKIP
        for event, old, new in events:
            answer = self.ask(queued, event, old, new)
            if answer is not Requeue.SKIP:
                verdict = answer
                if answer is Requeue.IMMEDIATELY or not queued.pending_plugins:
                    break
        return verdict

    def _match(self, event: ClusterEvent) -> dict[Rejector, list[HintFunction | None]]:
        """The hints of all plugins that registered an event, found once for each event that happens."""
        key = (event.resource, event.action)
        matching = self._matching.get(key)
        if matching is None:
            found = {
                rejector: [registered.hint for registered in hints if registered.event.matches(event)]
                for rejector, hints in self._registered.items()
            }
            matching = self._matching[key] = {rejector: hints for rejector, hints in found.items() if hints}
        return matching

    def _queues(
        self, hint: HintFunction, plugin: str, pod: PodInfo, event: ClusterEvent, old: object, new: object
    ) -> bool:
        """Ask one hint. One that fails must not leave the pod waiting for ever, so it counts as help."""
        try:
            answer = self._ask_hint(hint, plugin, pod, event, old, new)
        except Exception:
            logger.exception(
                "plugin %s: its hint about %s failed for pod %s, which is tried again",
                plugin,
                event.label,
                about_pod(pod),
            )
            return True
        if not isinstance(answer, Hint):
            logger.error(
                "plugin %s: its hint about %s answered %r, expected Hint.QUEUE or Hint.SKIP; pod %s is tried again",
                plugin,
                event.label,
                answer,
                about_pod(pod),
            )
        return answer is not Hint.SKIP


def _with_taints(hints: Iterable[EventHint]) -> list[EventHint]:
    """A plugin that waits for new nodes also gets to hear of changed taints.

    Upstream does so for nodes that come into the cluster tainted, and lose their taints when they are ready.
    """
    registered = list(hints)
    node_actions = [one.event.action for one in registered if one.event.resource == NODE]
    if any(Action.ADD in action for action in node_actions) and not any(
        Action.UPDATE_NODE_TAINT in action for action in node_actions
    ):
        registered.append(EventHint(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)))
    return registered


def _concerns_all(event: ClusterEvent) -> bool:
    return event.resource == ANY and event.action == Action.ALL


def _same_pod(candidate: object, pod: PodInfo) -> bool:
    return isinstance(candidate, PodInfo) and candidate.uid == pod.uid
