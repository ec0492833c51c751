"""Plugins that are one function: `@filter_plugin` and `@score_plugin`.

    @filter_plugin
    def tier(pod, node):
        if node.labels.get("tier") == "control":
            return "node is reserved for the control plane"   # a reason means: not here

The function can still be called as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, overload

from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Answer, CycleState, Plugin

FilterFunction = Callable[[PodInfo, NodeInfo], Answer]
ScoreFunction = Callable[[PodInfo, NodeInfo], int]


class InvalidPlugin(TypeError):
    """A plugin that cannot be one; the message names it, the method, the argument, and what would be right."""


class FunctionPlugin(Plugin):
    """A plugin made of one function; it is called like the function, too."""

    kind: ClassVar[str]

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        _check(function, name, self.kind)
        self.function = function
        self.name = name  # type: ignore[misc] # its class serves many plugins
        self.__doc__ = function.__doc__

    def __call__(self, pod: PodInfo, node: NodeInfo) -> Any:
        """What the function says."""
        return self.function(pod, node)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


class FunctionFilter(FunctionPlugin):
    """Made by `filter_plugin`."""

    kind = "filter plugin"

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Answer:
        """What the function says: None to pass, a reason, or a Status."""
        answer: Answer = self.function(pod, node)
        return answer


class FunctionScore(FunctionPlugin):
    """Made by `score_plugin`. `weight` is that of its score."""

    kind = "score plugin"

    def __init__(self, function: Callable[..., Any], name: str, weight: int) -> None:
        if not isinstance(weight, int) or weight < 1:
            raise InvalidPlugin(f"score plugin {name!r}: its weight is {weight!r}, expected an integer from 1 on")
        super().__init__(function, name)
        self.weight = weight

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """What the function says: 0 to 100. Raises TypeError for anything but an integer."""
        score = self.function(pod, node)
        if not isinstance(score, int):
            raise TypeError(f"scored node {node.name} {score!r}, expected an integer from 0 to 100")
        return score


@overload
def filter_plugin(function: FilterFunction, /) -> FunctionFilter: ...
@overload
def filter_plugin(*, name: str = "") -> Callable[[FilterFunction], FunctionFilter]: ...
def filter_plugin(
    function: FilterFunction | None = None, /, *, name: str = ""
) -> FunctionFilter | Callable[[FilterFunction], FunctionFilter]:
    """Make a filter of a function `(pod, node)` that returns None to pass, or the reason why not.

    The plugin is called like the function, or `name`. Raises InvalidPlugin for a function that cannot be called so.
    """

    def decorate(function: FilterFunction) -> FunctionFilter:
        return FunctionFilter(function, name or _name_of(function))

    return decorate if function is None else decorate(function)


@overload
def score_plugin(function: ScoreFunction, /) -> FunctionScore: ...
@overload
def score_plugin(*, name: str = "", weight: int = 1) -> Callable[[ScoreFunction], FunctionScore]: ...
def score_plugin(
    function: ScoreFunction | None = None, /, *, name: str = "", weight: int = 1
) -> FunctionScore | Callable[[ScoreFunction], FunctionScore]:
    """Make a score of a function `(pod, node)` that returns 0 (worst) to 100 (best).

    The plugin is called like the function, or `name`. Raises InvalidPlugin for a function that cannot be called so.
    """

    def decorate(function: ScoreFunction) -> FunctionScore:
        return FunctionScore(function, name or _name_of(function), weight)

    return decorate if function is None else decorate(function)


def _name_of(function: object) -> str:
    return getattr(function, "__name__", "") or type(function).__name__


def _check(function: object, name: str, kind: str) -> None:
    if not callable(function):
        raise InvalidPlugin(f"{kind} {name!r}: expected a function (pod, node), got {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidPlugin(f"{kind} {name!r}: expected a plain function (pod, node), which answers at once")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise InvalidPlugin(f"{kind} {name!r}: is called with (pod, node), but {error}") from None
