"""RecordedDelays: how long things took in a history that the simulation has to know and can't decide.

Such as bindings, terminations and replacements. Times are in seconds; what was not seen is None, and the models' usual
values count then.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping, Sequence

from bayplan.answers.simulation.quantiles import DurationSketch
from bayplan.foundations.latest import LruDict

_AT_ONCE = 1.0
"""A pod that got its node before the shortest backoff was over was placed by its first attempt."""
_LATE = 2.0
"""A replacement that comes so many seconds after its victim's end has waited for something else, such as a backoff."""
_MOST = 10_000
_KEPT = 100


class RecordedDelays:
    """Collects delays while a history is read. What was not seen is None.

    A replacement says when its victim was evicted: most controllers create it then, and the others once the victim is
    gone.
    """

    def __init__(self) -> None:
        self._waits = DurationSketch()
        self._terminations: LruDict[str, deque[float]] = LruDict(_MOST)
        self._replacements: deque[float] = deque(maxlen=_KEPT)

    def waited(self, seconds: float) -> None:
        """A pod has got its node, after so long."""
        if seconds < _AT_ONCE:
            self._waits.add(seconds)

    def replaced(self, workload: str, seconds: float, *, when_gone: bool) -> None:
        """A victim was replaced so many seconds before it was gone, or because it was gone."""
        if when_gone:
            self._replacements.append(-seconds)
        elif seconds > -_LATE:
            found = self._terminations.get(workload) or deque(maxlen=_KEPT)
            found.append(seconds)
            self._terminations[workload] = found

    @property
    def binding(self) -> float | None:
        """From the creation of a pod that fits at once to its binding, in seconds."""
        return self._waits.quantile(0.5)

    @property
    def replacement(self) -> float | None:
        """From what makes a controller replace a pod to the replacement, in seconds."""
        return max(statistics.median(self._replacements), 0.0) if self._replacements else None

    def terminations(self, replacement: float) -> Mapping[str, Sequence[float]]:
        """From the eviction of a pod to its end, in seconds, by workload; "" for all others. Empty if none was seen.

        `replacement`: how long controllers take to replace a pod.
        """
        found = {
            workload: [max(each + replacement, 0.0) for each in seconds]
            for workload, seconds in self._terminations.items()
        }
        every = [each for seconds in found.values() for each in seconds]
        return found | {"": every} if every else {}
