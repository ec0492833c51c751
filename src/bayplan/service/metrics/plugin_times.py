"""How long plugins take, measured in some cycles only: in those, this is what calls the plugins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any, NamedTuple

from bayplan.framework.calling import call
from bayplan.framework.interface import PostFilterResult, Wait
from bayplan.framework.status import Code, Status

SUCCESS, SKIP, ERROR = str(Code.SUCCESS), str(Code.SKIP), str(Code.ERROR)

_CODES = {code: str(code) for code in Code}
_FINE = (SUCCESS, SKIP)
_SAYING = (Status, str, Wait, PostFilterResult)
"""Answers that are a status of their own. Any other is success, and so are answers about many nodes at once."""

_LABELS = {
    "AddPod": "PreFilterExtensionAddPod",
    "RemovePod": "PreFilterExtensionRemovePod",
    "NormalizeScore": "ScoreExtensionNormalize",
}
"""What metrics call a point, where that is not how messages call it."""
_MAY_WAIT = frozenset({"PreBind", "Bind"})
_PART_OF = {"AddPod": "Filter", "RemovePod": "Filter", "NormalizeScore": "Score"}
"""The extension point whose time a call belongs to, where that is another one."""


Seconds = defaultdict[tuple[str, ...], list[float]]
"""By the values of a metric's labels."""


class Evaluated(NamedTuple):
    """What decisions have in common that asked the same plugins."""

    profile: str
    filtered: bool
    scored: bool
    skip_filter: frozenset[str]
    skip_score: frozenset[str]


Call = tuple[str, str, str, float, bool]
"""A plugin was asked: its name, the point, the status, seconds, and whether that was not on another plugin's behalf.

No type of its own: one is made for every call.
"""
Timed = tuple[str, list[Call]]
"""A profile, and the calls of a part of an attempt."""


class PluginTimes:
    """Times the plugins of one attempt to schedule a pod.

    `call` is a `framework.calling.Caller`. `finish` is to be called when a part of the attempt has ended: the deciding,
    or the binding. Then `finished` is told the profile, and the calls that the part was made of. `stands_for`: how many
    attempts this one is a sample of.
    """

    __slots__ = ("_calls", "_finished", "_inside", "_now", "profile", "stands_for")

    def __init__(self, now: Callable[[], float], finished: Callable[[Timed], None], stands_for: int = 1) -> None:
        self.profile = ""
        """To be written before a part ends."""
        self.stands_for = stands_for
        self._now = now
        self._finished = finished
        self._inside = False
        self._calls: list[Call] = []

    def call(self, plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
        """Call a plugin's method, and note how long it took."""
        outermost, self._inside = not self._inside, True
        now, status = self._now, ERROR
        began = now()
        try:
            answer = call(plugin, point, method, *arguments)
            status = status_label(answer) if isinstance(answer, _SAYING) else SUCCESS
        finally:
            self._inside = not outermost
            self._calls.append((plugin.name, point, status, now() - began, outermost))
        if point in _MAY_WAIT and isawaitable(answer):
            self._calls.pop()
            return self._awaited(plugin.name, point, answer, began)
        return answer

    async def _awaited(self, plugin: str, point: str, answer: Awaitable[Any], began: float) -> Any:
        status = ERROR
        try:
            result = await answer
            status = status_label(result) if isinstance(result, _SAYING) else SUCCESS
            return result
        finally:
            self._calls.append((plugin, point, status, self._now() - began, True))

    def finish(self) -> None:
        """A part of the attempt has ended."""
        if self._calls:
            calls, self._calls = self._calls, []
            self._finished((self.profile, calls))


def fold(attempts: Iterable[Timed], plugins: Seconds, points: Seconds) -> None:
    """What calls took, by plugin, point and status; and what points took, by point, status and profile.

    A point takes what its plugins take together. What a plugin has others asked
    in its turn, such as the filters in preemption's dry runs, counts for those plugins, but not for a point.
    """
    taken = Seconds(list)
    for profile, calls in attempts:
        sums: dict[str, float] = {}
        statuses: dict[str, str] = {}
        for plugin, point, status, seconds, outermost in calls:
            taken[plugin, point, status].append(seconds)
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
            # A Filter that turned one node down is no news: the point fails where a plugin does.
            points[point, SUCCESS if point == "Filter" and status != ERROR else status, profile].append(seconds)
    for (plugin, point, status), each in taken.items():
        plugins[plugin, _LABELS.get(point, point), status] += each


def status_label(answer: Status | str | Wait | PostFilterResult) -> str:
    """The status that an answer is, as metrics call it."""
    if isinstance(answer, Status):
        return _CODES[answer.code]
    if isinstance(answer, PostFilterResult):
        return _CODES[answer.status.code]
    return str(Code.WAIT if isinstance(answer, Wait) else Code.UNSCHEDULABLE)
