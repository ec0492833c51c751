"""Which pod is looked at next: active, backoff, unschedulable and gated pods, in-flight events, nominations.
A pure state machine: the time comes in as an argument.
"""

from bayplan.queue.hints import QueueProfile
from bayplan.queue.queued_pod import Place, QueuedPod
from bayplan.queue.scheduling_queue import PendingPods, SchedulingQueue

__all__ = ["PendingPods", "Place", "QueueProfile", "QueuedPod", "SchedulingQueue"]
