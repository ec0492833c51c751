"""Giving way: an attempt that takes long stops, so that other pods have their turn, and is repeated later.

Plugins call `handle.give_way` between steps, such as those of a search for devices, or use `ManySteps` for pods with
hundreds of terms or constraints. An attempt begins anew, so a plugin keeps what a step has found. A limit such as
`filterTimeout` counts the time that a search has worked in all. Without a scheduler, as in questions, `give_way` does
nothing. When attempts are repeated is in `bayplan.core.executor.giving_way`.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.foundations.latest import LruDict

_STEPS = 50
"""Work of fewer steps doesn't give way."""
_TIMES = 100
"""How often the attempts for one pod give way, if what they have found isn't kept."""
_PODS = 1024


class GiveWay(Exception):
    """Raised by `Handle.give_way` to stop an attempt. Only the scheduling loop handles it."""


class MustWait(GiveWay):
    """Raised instead of returning a plan that takes what a pod could use whose attempt began before."""


class ManySteps:
    """Work for a pod that may have many steps, such as its affinity terms: gives way between them.

    What a step finds should be kept, as the next attempt begins anew.
    """

    def __init__(self, give_way: Callable[[], None]) -> None:
        self._give_way = give_way
        self._times: LruDict[str, int] = LruDict(_PODS)
        """How often the attempts for a pod have given way, by uid."""

    def begin(self, steps: int) -> None:
        """Call this before the first step, with their number. Raises GiveWay while other pods have their turn."""
        if steps >= _STEPS:
            self._give_way()

    def check(self, uid: str, done: int) -> None:
        """Call this after each step, with the number of steps done. Raises GiveWay from time to time."""
        if done % _STEPS:
            return
        times = self._times.get(uid, 0)
        if times < _TIMES:
            try:
                self._give_way()
            except GiveWay:
                self._times[uid] = times + 1
                raise
