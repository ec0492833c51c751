"""RunTime: how long a pod runs, as a distribution that can be asked what is left at an age.

    Lognormal.of(p50=600, p90=1800).at(0.5, age=700)       # the total that half of those exceed that are 700 s old

A total is never less than the age: pods that would have ended before are not the one that still runs. Nothing is drawn
here: the caller gives a share between 0 and 1, so that two simulations can use the same one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, pstdev

_NORMAL = NormalDist()
_P90 = _NORMAL.inv_cdf(0.9)
_LARGEST = 1.0 - 1e-9
_LEAST_DEVIATION = 0.01
"""Of run times that were all the same."""


class RunTime(ABC):
    """How long a pod runs, in seconds."""

    @abstractmethod
    def at(self, share: float, age: float = 0.0) -> float:
        """Return the total that this share of the pods doesn't exceed that have run for `age` seconds already."""


@dataclass(frozen=True, slots=True)
class Exactly(RunTime):
    """A time that is known. A pod that has outlived it may end at any moment, after as long again on average."""

    seconds: float

    def at(self, share: float, age: float = 0.0) -> float:
        """Return the time, or what follows from its being over."""
        return self.seconds if age < self.seconds else age + _waited(self.seconds, share)


@dataclass(frozen=True, slots=True)
class Lognormal(RunTime):
    """A lognormal distribution, as run times of batch jobs have. `scale`: the logarithm of the median."""

    scale: float
    sigma: float

    @classmethod
    def of(cls, p50: float, p90: float) -> Lognormal:
        """Return the one with this median, and with this time for nine of ten. `p90` is greater than `p50`."""
        return cls(math.log(p50), (math.log(p90) - math.log(p50)) / _P90)

    def at(self, share: float, age: float = 0.0) -> float:
        """Return a quantile of those that are left."""
        gone = _NORMAL.cdf((math.log(age) - self.scale) / self.sigma) if age > 0 else 0.0
        if gone >= _LARGEST:  # nobody was ever as old
            return age + _waited(math.exp(self.scale), share)
        whole = min(max(gone + share * (1.0 - gone), 1e-12), _LARGEST)
        return max(math.exp(self.scale + self.sigma * _NORMAL.inv_cdf(whole)), age)


@dataclass(frozen=True, slots=True)
class Seen(RunTime):
    """The run times of pods like it, in ascending order.

    The next one is as likely to be between two neighbours as between any two others, before the smallest and beyond the
    largest included: there, as far as they deviate from their mean.
    """

    seconds: tuple[float, ...]
    deviation: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Seen:
        """Return the distribution of run times in any order; there is at least one."""
        deviation = max(pstdev(seconds), _LEAST_DEVIATION * sum(seconds) / len(seconds))
        return cls(tuple(sorted(seconds)), deviation)

    def at(self, share: float, age: float = 0.0) -> float:
        """Return a quantile of those that are left."""
        known = (max(self.seconds[0] - self.deviation, 0.0), *self.seconds)
        position = max(bisect_right(known, age) - 1, 0)
        if position + 1 == len(known):
            return age + _waited(self.deviation, share)
        low, high = known[position], known[position + 1]
        gone = position + max((age - low) / (high - low), 0.0)
        whole = gone + share * (len(known) - gone)
        index = int(whole)
        if index + 1 >= len(known):
            return known[-1] + _waited(self.deviation, min(whole, len(known)) - (len(known) - 1))
        return known[index] + (whole - index) * (known[index + 1] - known[index])


@dataclass(frozen=True, slots=True)
class AtMost(RunTime):
    """A run time with a bound, after which the pod is ended. `run_time`: None if nothing else is known of it."""

    seconds: float
    run_time: RunTime | None = None

    def at(self, share: float, age: float = 0.0) -> float:
        """Return the bound, or what comes before it. A pod that is older ends now."""
        most = max(self.seconds, age)
        return most if self.run_time is None else min(self.run_time.at(share, age), most)


def _waited(mean: float, share: float) -> float:
    """Return a quantile of the time until something happens that may happen at any moment."""
    return -mean * math.log1p(-min(share, _LARGEST))
