"""Failures of background work: counted by kind, and logged once per kind instead of once per object."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger(__name__)


class Failures:
    """Counts failures by the work that failed and the type of the error; `counts` has these pairs.

    The first failure of a kind is logged, then the tenth, the hundredth and so on.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def record(self, work: str, error: BaseException, about: object = "", *, expected: bool = False) -> None:
        """Record that work failed. `about`: the object that it concerned, for the log.

        An error that isn't `expected`, such as an unusable reply is, is a bug: it is logged with its traceback.
        """
        kind = (work, type(error).__name__)
        self.counts[kind] += 1
        count = self.counts[kind]
        if count != _power_of_ten(count):
            return
        concerns = f" ({about})" if about else ""
        times = f"; {count} times so far" if count > 1 else ""
        problem = f"{kind[1]}: {error}" if str(error) else kind[1]
        log.error("%s failed%s: %s%s", work, concerns, problem, times, exc_info=None if expected else error)


def _power_of_ten(count: int) -> int:
    """The largest power of ten that is not larger than a positive count."""
    return int(10 ** (len(str(count)) - 1))
