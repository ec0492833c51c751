"""A queue with groups is the same after it was restored from a checkpoint."""

import random

import pytest

from bayplan.answers.replay.restoring import RestoredQueue, restore_queue
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.queue import QueueProfile, SchedulingQueue
from bayplan.running.recording.checkpoints import checkpoint
from bayplan.testing.builders import make_cluster, make_pod


class Gate:
    """Gates the pods with a label."""

    name = "Gate"

    def pre_enqueue(self, pod):
        return "not yet" if "gate" in pod.labels else None


PROFILE = QueueProfile(
    lambda pod, queued_at: (-pod.priority, queued_at), [Gate()], {}, lambda pod: pod.labels.get("crew")
)
PROFILES = {"default-scheduler": PROFILE}


def fail(queue, now, *, plugins=("Fit",)):
    """Attempt the first group, with all of its pods."""
    first = queue.pop(now)
    unit = [first, *(queue.take(member.uid, now) for member in list(first.group.members.values()))]
    for queued in unit:
        queued.unschedulable_plugins = frozenset(plugins)
        queue.add_unschedulable(queued, now)


def queue_with(*names, labels):
    queue = SchedulingQueue(PROFILES, Nominations())
    for number, name in enumerate(names):
        queue.add(make_pod(name, labels=labels if isinstance(labels, dict) else labels[number]), float(number))
    return queue


def in_backoff():
    queue = queue_with("a", "b", labels={"crew": "red"})
    for now in (2.0, 10.0, 20.0):
        fail(queue, now)
    return queue


def during_an_attempt():
    queue = queue_with("a", "b", "c", labels={"crew": "red"})
    first = queue.pop(3.0)
    queue.done(first.uid)
    queue.pop(3.0)
    return queue


QUEUES = {
    "active": lambda: queue_with("a", "b", "single", labels=[{"crew": "red"}, {"crew": "red"}, {}]),
    "backoff": in_backoff,
    "gated": lambda: queue_with("a", "b", labels=[{"crew": "red"}, {"crew": "red", "gate": "yes"}]),
    "pending": during_an_attempt,
}


@pytest.mark.parametrize("make", QUEUES.values(), ids=QUEUES)
def test_a_restored_queue_is_as_the_recorded_one(make):
    queue, state = make(), make_cluster().state
    for queued in queue:
        state.objects[POD].set(queued.pod.key, queued.pod)
    made = checkpoint(state, queue, [], (30.0, 0, 0), {}, (random.Random(0), 0)).make()
    restored = RestoredQueue(PROFILES, Nominations())
    restore_queue(made, restored, state)
    described = [
        {
            queued.pod.name: (
                "active" if queued.place.value == "pending" else queued.place.value,
                (queued.group or queued).queued_at,
                (queued.group or queued).unschedulable_count,
                (queued.group or queued).backoff_expiration,
            )
            for queued in each.waiting()
        }
        for each in (queue, restored)
    ]
    assert described[0] == described[1]
    waiting = restored.waiting()
    assert len({id(queued.group) for queued in waiting if queued.group is not None}) == 1
    first = restored.pop(1000.0)
    assert (first is None) is (restored.pending_pods().gated > 0)
