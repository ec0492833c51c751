"""The messages of pods that are rejected together: finds those whose message isn't the latest one of their group.

One pod of a group is attempted for all (`bayplan.core.queue.rejection_groups`), so a new message is that of every pod
in it. A caller takes the outdated pods one by one, at its own rate, and writes their conditions.
"""

from __future__ import annotations

from collections import OrderedDict

from bayplan.core.queue.queued_pod import QueuedPod


class Messages:
    """The messages of unschedulable pods that are rejected for the same reasons.

    A message may change often, and for many pods at once. All operations take O(1) amortized time, and nothing is done
    for all pods at once.
    """

    def __init__(self) -> None:
        self._latest = ""
        self._changes = 0
        self._pods: OrderedDict[str, tuple[QueuedPod, int]] = OrderedDict()
        """By UID, in the order of their last updates; with the value of `_changes` at that time."""

    def add(self, queued: QueuedPod) -> None:
        """Add a pod whose own attempt has just ended, or move it to the end."""
        self._pods[queued.uid] = queued, self._changes
        self._pods.move_to_end(queued.uid)

    def discard(self, uid: str) -> None:
        """Remove a pod. Unknown pods are ignored."""
        self._pods.pop(uid, None)

    def set_latest(self, message: str) -> bool:
        """Set the message of all pods. Returns whether it has changed."""
        if message == self._latest:
            return False
        self._latest = message
        self._changes += 1
        return True

    def update_next(self) -> QueuedPod | None:
        """Give the latest message to the next pod that has another one, and return the pod; None if all have it."""
        while self._pods:
            queued, changes = next(iter(self._pods.values()))
            if changes == self._changes:
                return None
            self.add(queued)
            if queued.message != self._latest:
                queued.message = self._latest
                return queued
        return None
