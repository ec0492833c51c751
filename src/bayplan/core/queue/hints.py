"""Decides whether an event requeues a pod, by the events and hints that plugins registered.

Hints, their `topics` and PreEnqueue are pure: an event may ask about only some of the pods, so a plugin that noted the
event would forget the others. The plugin contract checks that. Where a hint has topics, such as namespaces, resources
or host ports, it is called only for pods that wait for a topic of the event (`unschedulable.py`). Mirrors
isPodWorthRequeuing (pkg/scheduler/backend/queue/scheduling_queue.go) and buildQueueingHintMap
(pkg/scheduler/scheduler.go).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.resizes import RESIZES_PREEMPT, resize_deferred
from bayplan.core.framework.events import (
    ALL_EVENTS,
    ANY,
    NODE,
    Action,
    ClusterEvent,
    EventHint,
    Hint,
    HintFunction,
    Topics,
)
from bayplan.core.framework.gangs import QueuedTogether
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import PluginError
from bayplan.core.queue.in_flight import Happened
from bayplan.core.queue.queued_pod import QueuedPod
from bayplan.core.queue.unschedulable import Rejector, Topic
from bayplan.foundations.failures import Failures, shown
from bayplan.foundations.log_fields import about_pod


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """The parts of a profile that the queue uses.

    Attributes:
        sort_key: maps a pod and its `queued_at` to a comparable key; the same function for all profiles of a queue.
        pre_enqueue: the PreEnqueue plugins in order.
        hints: the registered events, by plugin name. Every event requeues pods that an unknown plugin rejected.
        queued_with: maps a pod to the key of the group that it has its turns with; to None if it has its own. None if
            no pod is in a group.
        resizes: whether pods on nodes are queued while their resize is deferred.
        pre_enqueue_of_resizes: the PreEnqueue plugins of these pods.
        flushed: whether unschedulable pods are requeued after a while without an event.
    """

    sort_key: Callable[[PodInfo, float], Any]
    pre_enqueue: Sequence[Any] = ()
    hints: Mapping[str, Sequence[EventHint]] = field(default_factory=dict)
    queued_with: Callable[[PodInfo], Hashable] | None = None
    resizes: bool = False
    pre_enqueue_of_resizes: Sequence[Any] = ()
    flushed: bool = True

    @classmethod
    def of(cls, profile: Profile, any_event: Iterable[str] = ()) -> QueueProfile:
        """Extract the queue's parts of a profile.

        `any_event`: names of rejectors that are not plugins, such as extenders; every event requeues their pods. Raises
        ValueError if the profile does not have exactly one QueueSort plugin.
        """
        queue_sort = profile.at(Point.QUEUE_SORT)
        if len(queue_sort) != 1:
            raise ValueError(f"profile {profile.scheduler_name} has {len(queue_sort)} QueueSort plugins, expected one")
        hints = profile.events() | dict.fromkeys(any_event, (EventHint(ALL_EVENTS),))
        queued_with = next((each.queued_with for each in profile.every() if implements(each, QueuedTogether)), None)
        before = tuple(profile.at(Point.PRE_ENQUEUE))
        if not profile.gates.enabled(RESIZES_PREEMPT):
            return cls(queue_sort[0].sort_key, before, hints, queued_with, flushed=profile.flushed)
        of_resizes = tuple(profile.for_resizes().at(Point.PRE_ENQUEUE))
        return cls(queue_sort[0].sort_key, before, hints, queued_with, True, of_resizes, profile.flushed)

    def takes(self, pod: PodInfo) -> bool:
        """Whether a pod of this profile belongs in the queue."""
        return not pod.terminated and (not pod.node_name or (self.resizes and resize_deferred(pod)))

    def pre_enqueue_for(self, pod: PodInfo) -> Sequence[Any]:
        """Return the PreEnqueue plugins of a pod."""
        return self.pre_enqueue_of_resizes if pod.node_name else self.pre_enqueue


class Requeue(Enum):
    """The effect of an event on an unschedulable pod. Mirrors queueingStrategy."""

    SKIP = "skip"
    """The pod stays unschedulable."""
    AFTER_BACKOFF = "after backoff"
    """The pod becomes active once its backoff has expired."""
    IMMEDIATELY = "immediately"
    """The pod becomes active at once, because the event that it waited for has occurred."""


_ALWAYS: Sequence[HintFunction | None] = (None,)


AskHint = Callable[[HintFunction, str, QueuedPod, ClusterEvent, Any, Any], object]
"""`(hint, plugin, queued, event, old, new)` -> the hint's return value. Propagates the hint's exceptions."""


def ask_hint(
    hint: HintFunction, _plugin: str, queued: QueuedPod, _event: ClusterEvent, old: object, new: object
) -> object:
    """Call a hint. This is the default of `AskHint`."""
    return hint(queued.pod, old, new)


class Hints:
    """The hints of all profiles, by event. `ask_hint`: calls a hint, so that the service can time it.

    `failures`: where hints that fail are recorded.
    """

    def __init__(
        self, profiles: Mapping[str, QueueProfile], ask_hint: AskHint = ask_hint, failures: Failures | None = None
    ) -> None:
        self._ask_hint = ask_hint
        self._failures = failures or Failures()
        self._registered: dict[Rejector, list[EventHint]] = {
            (scheduler_name, plugin): _with_taints(hints)
            for scheduler_name, profile in profiles.items()
            for plugin, hints in profile.hints.items()
        }
        self._narrowing: dict[Rejector, list[Topics]] = {
            rejector: [hint.topics for hint in hints if hint.topics is not None]
            for rejector, hints in self._registered.items()
        }
        self._gating: dict[Rejector, list[EventHint]] = {
            rejector: [hint for hint in hints if hint.still_gated is not None]
            for rejector, hints in self._registered.items()
        }
        self._matching: dict[tuple[str, Action], dict[Rejector, list[HintFunction | None]]] = {}

    def interested(self, event: ClusterEvent) -> bool:
        """Return whether any plugin has registered the event."""
        return _concerns_all(event) or bool(self._match(event))

    def helps(self, rejector: Rejector, event: ClusterEvent) -> bool:
        """Return whether the event may requeue pods that this plugin rejected. Does not call hints."""
        return _concerns_all(event) or rejector in self._match(event) or rejector not in self._registered

    def narrowed(self, rejector: Rejector, event: ClusterEvent, old: object, new: object) -> list[Topic] | None:
        """Return the topics of an event. A pod that the plugin rejected must have one of them; None if it needn't."""
        registered = self._narrowing.get(rejector)
        if not registered or _concerns_all(event):
            return None
        topics: list[Topic] = []
        for hint in self._registered[rejector]:
            if hint.event.matches(event):
                try:
                    of_event = None if hint.topics is None else hint.topics.of_event(old, new)
                except Exception as error:  # noqa: BLE001 - the hint is called for all pods instead
                    self._failures.record(f"the topics of an event for plugin {rejector[1]}", error, event.label)
                    return None
                if of_event is None:
                    return None
                topics += [(hint.topics, topic) for topic in of_event]
        return topics

    def still_gated(self, rejector: Rejector, event: ClusterEvent) -> AbstractSet[str]:
        """Return the UIDs of pods that the plugin certainly still gates after an event."""
        hints = self._gating.get(rejector)
        if not hints or _concerns_all(event):
            return frozenset()
        try:
            found = [hint.still_gated() for hint in hints if hint.still_gated and hint.event.matches(event)]
        except Exception as error:  # noqa: BLE001 - PreEnqueue is called for all pods instead
            self._failures.record(f"the pods that plugin {rejector[1]} still gates", error, event.label)
            return frozenset()
        return frozenset().union(*found) if len(found) > 1 else next(iter(found), frozenset())

    def topics_of(self, rejector: Rejector, pod: PodInfo) -> list[Topic]:
        """Return the topics of a pod that the plugin rejected."""
        try:
            return [(topics, topic) for topics in self._narrowing.get(rejector, ()) for topic in topics.of_pod(pod)]
        except Exception as error:  # noqa: BLE001 - from now on, the plugin's hints are called for all pods
            self._failures.record(f"the topics of a pod for plugin {rejector[1]}", error, f"pod {about_pod(pod)}")
            del self._narrowing[rejector]
            return []

    def ask(self, queued: QueuedPod, event: ClusterEvent, old: object, new: object) -> Requeue:
        """Return the effect of an event on a pod. `old` and `new`: the object before and after the event, or None.

        The hints of pending plugins take precedence.
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
                for hint in hints:
                    if hint is None or self._queues(hint, plugin, queued, event, old, new):
                        return answer
        return Requeue.SKIP

    def ask_all(self, queued: QueuedPod, events: Iterable[Happened]) -> Requeue:
        """Return the combined effect of several events on a pod."""
        requeue = Requeue.SKIP
        for event, old, new in events:
            answer = self.ask(queued, event, old, new)
            if answer is not Requeue.SKIP:
                requeue = answer
                if answer is Requeue.IMMEDIATELY or not queued.pending_plugins:
                    break
        return requeue

    def _match(self, event: ClusterEvent) -> dict[Rejector, list[HintFunction | None]]:
        """Return the hints of all plugins that registered an event. Cached by resource and action."""
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
        self, hint: HintFunction, plugin: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object
    ) -> bool:
        """Call a hint, and return whether it requeues the pod. It does if it fails, so that the pod is not stuck."""
        try:
            answer = self._ask_hint(hint, plugin, queued, event, old, new)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is its own error
            failure = PluginError.of(plugin, f"the hint for {event.label}", error)
        else:
            if isinstance(answer, Hint):
                return answer is Hint.QUEUE
            problem = f"returned {shown(answer)}, expected Hint.QUEUE or Hint.SKIP"
            failure = PluginError(plugin, f"the hint for {event.label}", problem)
        failure.record(self._failures, f"pod {about_pod(queued.pod)}")
        return True


def _with_taints(hints: Iterable[EventHint]) -> list[EventHint]:
    """Register changes of taints for a plugin that registered new nodes.

    As upstream: many nodes are tainted when they join the cluster, and lose their taints when they are ready.
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
