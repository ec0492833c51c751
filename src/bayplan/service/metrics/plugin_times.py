"""How long plugins take, measured in some cycles only: in those, this is what calls the plugins."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, NamedTuple

from bayplan.framework.calling import call
from bayplan.framework.interface import PostFilterResult, Wait
from bayplan.framework.status import Code, Status
from bayplan.scheduling import Decision

SUCCESS, SKIP, ERROR = str(Code.SUCCESS), str(Code.SKIP), str(Code.ERROR)

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


class PluginTimes:
    """Times the plugins of one attempt to schedule a pod, and, by adding that up, its extension points.

    `call` is a `framework.calling.Caller`. What a plugin has others asked in its turn, such as the filters in
    preemption's dry runs, counts for those plugins, but not for an extension point of this attempt. `finish` is to be
    called when a part of the attempt has ended: the deciding, or the binding.
    """

    __slots__ = ("_calls", "_evaluated", "_finished", "_inside", "_now", "_parts", "_profile", "stands_for")

    def __init__(
        self,
        profile: str,
        now: Callable[[], float],
        finished: Callable[[PluginTimes], None],
        *,
        stands_for: int = 1,
    ) -> None:
        """`finished` is told that there is something to fold."""
        self.stands_for = stands_for
        """How many attempts this one is a sample of."""
        self._profile = profile
        self._now = now
        self._finished = finished
        self._inside = False
        self._calls: list[tuple[str, str, str, float, bool]] = []
        """Plugin, point, status, seconds, and whether no other plugin was being asked."""
        self._parts: list[list[tuple[str, str, str, float, bool]]] = []
        self._evaluated: tuple[bool, bool, set[str], set[str]] | None = None

    def call(self, plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
        """Call a plugin's method, and note how long it took."""
        outermost, self._inside = not self._inside, True
        began, status = self._now(), ERROR
        try:
            answer = call(plugin, point, method, *arguments)
            status = SUCCESS if answer is None else status_label(answer)
        finally:
            self._inside = not outermost
            self._calls.append((plugin.name, point, status, self._now() - began, outermost))
        if point in _MAY_WAIT and isawaitable(answer):
            self._calls.pop()
            return self._awaited(plugin.name, point, answer, began)
        return answer

    async def _awaited(self, plugin: str, point: str, answer: Awaitable[Any], began: float) -> Any:
        status = ERROR
        try:
            result = await answer
            status = status_label(result)
            return result
        finally:
            self._calls.append((plugin, point, status, self._now() - began, True))

    def decided(self, decision: Decision) -> None:
        """Note which plugins had a say. Not more of the decision is kept than that takes."""
        filtered = decision.node != "" or decision.diagnosis.verdicts is not None
        cycle = decision.cycle
        self._evaluated = filtered, decision.scores is not None, cycle.skip_filter, cycle.skip_score

    def finish(self) -> None:
        """A part of the attempt has ended."""
        if self._calls or self._evaluated is not None:
            self._parts.append(self._calls)
            self._calls = []
            self._finished(self)

    def fold(self, plugins: Seconds, points: Seconds, evaluated: Counter[Evaluated]) -> None:
        """Hand over what was noted of the parts that are finished: each call, and each extension point's sum."""
        if self._evaluated is not None:
            filtered, scored, *skipped = self._evaluated
            evaluated[Evaluated(self._profile, filtered, scored, *map(frozenset, skipped))] += self.stands_for
            self._evaluated = None
        for calls in self._parts:
            sums: dict[str, tuple[float, str]] = {}
            for plugin, point, status, seconds, outermost in calls:
                plugins[plugin, _LABELS.get(point, point), status].append(seconds)
                if outermost:
                    whole = _PART_OF.get(point, point)
                    total, worst = sums.get(whole, (0.0, SUCCESS))
                    sums[whole] = total + seconds, worst if status in {SUCCESS, SKIP} else status
            for point, (seconds, status) in sums.items():
                # A Filter that turned one node down is no news: the point fails where a plugin does.
                label = SUCCESS if point == "Filter" and status != ERROR else status
                points[point, label, self._profile].append(seconds)
        self._parts.clear()


def status_label(answer: object) -> str:
    """The status that an answer is, as metrics call it. Answers about many nodes at once are success."""
    if isinstance(answer, Status):
        return str(answer.code)
    if isinstance(answer, str):
        return str(Code.UNSCHEDULABLE)
    if isinstance(answer, Wait):
        return str(Code.WAIT)
    if isinstance(answer, PostFilterResult):
        return str(answer.status.code)
    return SUCCESS
