"""What was seen of a cluster and is not taken in yet, and how far a shadow is behind the cluster because of it.

Watches put changes here, a task takes them. A decision that is too far back is counted, not compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from bayplan.core.api.kinds import Kind

LATE = 5.0
"""Seconds behind the cluster from which decisions are only counted, so that the shadow catches up."""
CAUGHT_UP = 1.0
"""Seconds behind the cluster from which decisions are compared again."""
_RECENT = 64
"""How many bindings say how long news take now."""


class SeenChange(NamedTuple):
    """A change of an object as it was seen, and when; `new` is None for one that was deleted. `gap`: it is old news."""

    kind: Kind
    key: str
    new: Any
    gap: bool
    seconds: float
    time: datetime


class Backlog:
    """The changes that wait, in the order in which they were seen. `now`: seconds of a clock that never goes back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.behind = False
        """Whether decisions are only counted now, so that the shadow catches up."""
        self._now = now
        self._changes: deque[SeenChange] = deque()
        self._delays: deque[float] = deque(maxlen=_RECENT)
        """The times between a binding and its arrival, as far as the two clocks agree."""
        self._arrived_late = 0.0

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: SeenChange) -> None:
        """Add a change that was seen just now."""
        self._changes.append(change)

    def take(self) -> SeenChange:
        """Return the oldest change, and forget it."""
        change = self._changes.popleft()
        self._look(self._now() - change.seconds)
        return change

    def arrived(self, delay: float) -> None:
        """Take into account how long a binding took to arrive, in whole seconds, by the server's clock and this one."""
        self._delays.append(delay)
        self._arrived_late = max(0.0, delay - min(self._delays) - 1.0)
        self._look(self.late)

    def _look(self, waited: float) -> None:
        late = max(waited, self._arrived_late)
        self.behind = late > (CAUGHT_UP if self.behind else LATE)

    @property
    def seconds(self) -> float:
        """Until when everything was taken in that was seen."""
        return self._changes[0].seconds if self._changes else self._now()

    @property
    def late(self) -> float:
        """How many seconds the shadow is behind the cluster."""
        return max(self._now() - self.seconds, self._arrived_late)
