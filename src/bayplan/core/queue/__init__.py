"""The scheduling queue: active, backoff, unschedulable, gated and in-flight pods.

It is a pure state machine: the current time is an argument of its methods. `scheduling_queue.py` has what happens to
it, `places.py` where pods and groups wait, and `queued_pod.py` a drawing of the places. It belongs to the scheduler's
thread.

Other packages use `gates`, `hints`, `in_flight`, `queued_pod`, `sort_keys`.
"""

from bayplan.core.queue.hints import QueueProfile
from bayplan.core.queue.queued_pod import PendingCounts, Place, QueuedPod
from bayplan.core.queue.retry_times import RetryTimes
from bayplan.core.queue.scheduling_queue import SchedulingQueue

__all__ = ["PendingCounts", "Place", "QueueProfile", "QueuedPod", "RetryTimes", "SchedulingQueue"]
