"""How long plugins take, measured in some cycles only: in those, this is what calls the plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from bayplan.framework.calling import call
from bayplan.framework.interface import PostFilterResult, Wait
from bayplan.framework.status import Code, PluginError, Status
from bayplan.service.metrics.instruments import Histograms

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


class PluginTimes:
    """Times the plugins of one attempt to schedule a pod, and, by adding that up, its extension points.

    `call` is a `framework.calling.Caller`. What a plugin has others asked in its turn, such as the filters in
    preemption's dry runs, counts for those plugins, but not for an extension point of this attempt. `finish` is to be
    called when a part of the attempt has ended.
    """

    def __init__(self, plugins: Histograms, points: Histograms, profile: str, now: Callable[[], float]) -> None:
        self._plugins = plugins
        self._points = points
        self._profile = profile
        self._now = now
        self._inside = False
        self._sums: dict[str, tuple[float, str]] = {}

    def call(self, plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
        """Call a plugin's method, and note how long it took."""
        outermost, self._inside = not self._inside, True
        began = self._now()
        try:
            answer = call(plugin, point, method, *arguments)
        except PluginError:
            self._note(plugin.name, point, ERROR, began, outermost)
            raise
        finally:
            self._inside = not outermost
        if point in _MAY_WAIT and isawaitable(answer):
            return self._awaited(plugin.name, point, answer, began)
        self._note(plugin.name, point, SUCCESS if answer is None else status_label(answer), began, outermost)
        return answer

    async def _awaited(self, plugin: str, point: str, answer: Awaitable[Any], began: float) -> Any:
        status = ERROR
        try:
            result = await answer
            status = status_label(result)
            return result
        finally:
            self._note(plugin, point, status, began, True)

    def _note(self, plugin: str, point: str, status: str, began: float, outermost: bool) -> None:
        seconds = self._now() - began
        self._plugins[plugin, _LABELS.get(point, point), status].observe(seconds)
        if outermost:
            point = _PART_OF.get(point, point)
            total, worst = self._sums.get(point, (0.0, SUCCESS))
            self._sums[point] = total + seconds, worst if status in {SUCCESS, SKIP} else status

    def finish(self) -> None:
        """Observe how long each extension point took of which plugins were called since the last time."""
        for point, (seconds, status) in self._sums.items():
            # A Filter that turned one node down is no news: the point fails where a plugin does.
            label = SUCCESS if point == "Filter" and status != ERROR else status
            self._points[point, label, self._profile].observe(seconds)
        self._sums.clear()


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
