"""How long to wait before a failed daemon pod is replaced. Mirrors client-go's util/flowcontrol/backoff.go."""

from __future__ import annotations

from datetime import datetime

FIRST_DELAY = 1.0
LONGEST_DELAY = 15 * 60.0
"""Seconds of the cluster's clock."""

Key = tuple[str, int, str]
"""The DaemonSet's uid, its observed generation, and the node."""


class FailedPodsBackoff:
    """A delay that doubles each time a pod fails again on the same node, and starts over after a long time."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[float, datetime]] = {}

    def wait(self, key: Key, now: datetime) -> float:
        """Seconds until the failed pod may be deleted, 0 for now: then the next failure has to wait longer."""
        self._forget(now)
        delay, since = self._entries.get(key, (0.0, now))
        passed = (now - since).total_seconds()
        if passed < delay:
            return delay - passed
        self._entries[key] = (min(delay * 2, LONGEST_DELAY) if delay else FIRST_DELAY, now)
        return 0.0

    def _forget(self, now: datetime) -> None:
        for key, (_, since) in tuple(self._entries.items()):
            if (now - since).total_seconds() > 2 * LONGEST_DELAY:
                del self._entries[key]
