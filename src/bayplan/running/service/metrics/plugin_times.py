"""PluginTimes: a stopwatch that calls the plugins of one attempt in twenty.

The other attempts call plugins directly and pay nothing. Each sample counts with its weight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any, NamedTuple

from bayplan.core.framework.calling import call
from bayplan.core.framework.interface import PostFilterResult, Wait
from bayplan.core.framework.status import Code, Status

SUCCESS, SKIP, ERROR = str(Code.SUCCESS), str(Code.SKIP), str(Code.ERROR)

_CODES = {code: str(code) for code in Code}
_FINE = (SUCCESS, SKIP)
_STATUS_TYPES = (Status, str, Wait, PostFilterResult)
"""Results that have a status. All others count as success, including results for many nodes at once."""

_LABELS = {
    "AddPod": "PreFilterExtensionAddPod",
    "RemovePod": "PreFilterExtensionRemovePod",
    "NormalizeScore": "ScoreExtensionNormalize",
}
"""The labels of points whose name in metrics differs from their name in messages."""
_ASYNC_POINTS = frozenset({"PreBind", "Bind"})
_PART_OF = {"AddPod": "Filter", "RemovePod": "Filter", "NormalizeScore": "Score"}
"""The extension point that includes the time of another one."""


Seconds = defaultdict[tuple[str, ...], list[float]]
"""Durations by label values."""


class Evaluated(NamedTuple):
    """The key that determines which plugins a decision called."""

    profile: str
    filtered: bool
    scored: bool
    skip_filter: frozenset[str]
    skip_score: frozenset[str]


Call = tuple[str, str, str, float, bool]
"""A call of a plugin: its name, the point, the status, seconds, and whether the framework (not a plugin) called it.

A plain tuple, which is faster to create.
"""
Timed = tuple[str, list[Call]]
"""A profile, and the calls of one phase of an attempt."""


class PluginTimes:
    """Times the plugins of one attempt to schedule a pod.

    `call` is a `bayplan.core.framework.calling.Caller`. Call `finish` after each phase of the attempt (decision,
    binding): it passes the profile and the phase's calls to `finished`. `weight`: how many attempts this sample
    represents.
    """

    __slots__ = ("_calls", "_finished", "_inside", "_now", "profile", "weight")

    def __init__(self, now: Callable[[], float], finished: Callable[[Timed], None], weight: int = 1) -> None:
        self.profile = ""
        """Set it before the first `finish`."""
        self.weight = weight
        self._now = now
        self._finished = finished
        self._inside = False
        self._calls: list[Call] = []

    def call(self, plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
        """Call a plugin's method and record its duration."""
        outermost, self._inside = not self._inside, True
        now, status = self._now, ERROR
        began = now()
        try:
            result = call(plugin, point, method, *arguments)
            status = status_label(result) if isinstance(result, _STATUS_TYPES) else SUCCESS
        finally:
            self._inside = not outermost
            self._calls.append((plugin.name, point, status, now() - began, outermost))
        if point in _ASYNC_POINTS and isawaitable(result):
            self._calls.pop()
            return self._awaited(plugin.name, point, result, began)
        return result

    async def _awaited(self, plugin: str, point: str, awaitable: Awaitable[Any], began: float) -> Any:
        status = ERROR
        try:
            result = await awaitable
            status = status_label(result) if isinstance(result, _STATUS_TYPES) else SUCCESS
            return result
        finally:
            self._calls.append((plugin, point, status, self._now() - began, True))

    def finish(self) -> None:
        """End a phase of the attempt."""
        if self._calls:
            calls, self._calls = self._calls, []
            self._finished((self.profile, calls))


def fold(attempts: Iterable[Timed], plugins: Seconds, points: Seconds) -> None:
    """Add the durations of calls by plugin, point and status, and of points by point, status and profile.

    The duration of a point is the sum of its plugins. Calls that a plugin makes to other plugins, such as Filter in
    preemption's dry runs, count for these plugins, but not for their point.
    """
    by_plugin = Seconds(list)
    for profile, calls in attempts:
        sums: dict[str, float] = {}
        statuses: dict[str, str] = {}
        for plugin, point, status, seconds, outermost in calls:
            by_plugin[plugin, point, status].append(seconds)
            if outermost:
                sums[point] = sums.get(point, 0.0) + seconds
                if status not in _FINE:
                    statuses[point] = status
        for part, whole in _PART_OF.items():
            if part in sums:
                sums[whole] = sums.get(whole, 0.0) + sums.pop(part)
                if part in statuses:
                    statuses[whole] = statuses[part]
        for point, seconds in sums.items():
            status = statuses.get(point, SUCCESS)
            # A Filter that rejects a node is normal: the point fails only if a plugin fails.
            points[point, SUCCESS if point == "Filter" and status != ERROR else status, profile].append(seconds)
    for (plugin, point, status), each in by_plugin.items():
        plugins[plugin, _LABELS.get(point, point), status] += each


def status_label(result: Status | str | Wait | PostFilterResult) -> str:
    """The status of a result, as a label."""
    if isinstance(result, Status):
        return _CODES[result.code]
    if isinstance(result, PostFilterResult):
        return _CODES[result.status.code]
    return str(Code.WAIT if isinstance(result, Wait) else Code.UNSCHEDULABLE)
