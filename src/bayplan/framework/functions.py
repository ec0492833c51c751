"""Plugins that are one function: `@filter_plugin` and `@score_plugin`.

    @filter_plugin
    def tier(pod, node):
        if node.labels.get("tier") == "control":
            return "node is reserved for the control plane"   # a reason means: not here

A function whose second argument is called `nodes` is asked about all of them at once. It can still be called as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, overload

from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Answer, CycleState, Plugin
from bayplan.framework.verdicts import Rejections

FilterFunction = Callable[[PodInfo, NodeInfo], Answer] | Callable[[PodInfo, Nodes], Rejections | None]
ScoreFunction = Callable[[PodInfo, NodeInfo], int] | Callable[[PodInfo, Nodes], Int64]
Sign = Callable[[PodInfo], Hashable]


class InvalidPlugin(TypeError):
    """A plugin that cannot be one; the message names it, the method, the argument, and what would be right."""


class FunctionPlugin(Plugin):
    """A plugin made of one function; it is called like the function, too."""

    kind: ClassVar[str]

    weight: int = 1
    """Of its score, if it scores."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name  # type: ignore[misc] # its class serves many plugins
        self.__doc__ = function.__doc__

    def __call__(self, pod: PodInfo, node: Any) -> Any:
        """What the function says."""
        return self.function(pod, node)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


class FunctionFilter(FunctionPlugin):
    """Made by `filter_plugin` of a function `(pod, node)`."""

    kind = "filter plugin"

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Answer:
        """What the function says: None to pass, a reason, or a Status."""
        answer: Answer = self.function(pod, node)
        return answer


class FunctionFilterNodes(FunctionPlugin):
    """Made by `filter_plugin` of a function `(pod, nodes)`."""

    kind = "filter plugin"

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """What the function says: None where all nodes pass, or Rejections."""
        rejections: Rejections | None = self.function(pod, nodes)
        return rejections


class FunctionScore(FunctionPlugin):
    """Made by `score_plugin` of a function `(pod, node)`."""

    kind = "score plugin"

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """What the function says: 0 to 100. Raises TypeError for anything but an integer."""
        score = self.function(pod, node)
        if not isinstance(score, int):
            raise TypeError(f"scored node {node.name} {score!r}, expected an integer from 0 to 100")
        return score


class FunctionScoreNodes(FunctionPlugin):
    """Made by `score_plugin` of a function `(pod, nodes)`."""

    kind = "score plugin"

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """What the function says: an array of integers from 0 to 100, one a node."""
        scores: Int64 = self.function(pod, nodes)
        return scores


@overload
def filter_plugin(function: FilterFunction, /) -> FunctionPlugin: ...
@overload
def filter_plugin(*, name: str = "", sign: Sign | None = None) -> Callable[[FilterFunction], FunctionPlugin]: ...
def filter_plugin(
    function: FilterFunction | None = None, /, *, name: str = "", sign: Sign | None = None
) -> FunctionPlugin | Callable[[FilterFunction], FunctionPlugin]:
    """Make a filter of a function `(pod, node)` that returns None to pass, or the reason why not.

    A function `(pod, nodes)` returns None where all of them pass, or `Rejections`. The plugin is called like the
    function, or `name`. `sign` gives all that the function reads of a pod, as one hashable value: its answers are then
    kept for other pods of the same sign, which is right only where they rest on the pod and the node alone. Raises
    InvalidPlugin for a function that cannot be called so.
    """

    def decorate(function: FilterFunction) -> FunctionPlugin:
        form = FunctionFilterNodes if _asked_at_once(function, name, FunctionFilter.kind) else FunctionFilter
        return _signing(form, sign)(function, name or _name_of(function))

    return decorate if function is None else decorate(function)


@overload
def score_plugin(function: ScoreFunction, /) -> FunctionPlugin: ...
@overload
def score_plugin(
    *, name: str = "", weight: int = 1, sign: Sign | None = None
) -> Callable[[ScoreFunction], FunctionPlugin]: ...
def score_plugin(
    function: ScoreFunction | None = None, /, *, name: str = "", weight: int = 1, sign: Sign | None = None
) -> FunctionPlugin | Callable[[ScoreFunction], FunctionPlugin]:
    """Make a score of a function `(pod, node)` that returns 0 (worst) to 100 (best).

    A function `(pod, nodes)` returns an array of such integers, one a node. `weight` is that of the score; `name` and
    `sign` are as those of `filter_plugin`. Raises InvalidPlugin for a function that cannot be called so.
    """

    def decorate(function: ScoreFunction) -> FunctionPlugin:
        form = FunctionScoreNodes if _asked_at_once(function, name, FunctionScore.kind) else FunctionScore
        plugin = _signing(form, sign)(function, name or _name_of(function))
        if not isinstance(weight, int) or weight < 1:
            raise InvalidPlugin(
                f"score plugin {plugin.name!r}: its weight is {weight!r}, expected an integer from 1 on"
            )
        plugin.weight = weight
        return plugin

    return decorate if function is None else decorate(function)


def _signing(form: type[FunctionPlugin], sign: Sign | None) -> type[FunctionPlugin]:
    """The form with a method `sign`, if there is something to say: its class tells what a plugin takes part in.

    None is something that a pod may be read to have, and no sign that cannot be told.
    """
    return form if sign is None else type(form.__name__, (form,), {"sign": lambda _, pod: (sign(pod),)})


def _name_of(function: object) -> str:
    return getattr(function, "__name__", "") or type(function).__name__


def _asked_at_once(function: object, name: str, kind: str) -> bool:
    """Whether a function is asked about all nodes at once. Raises InvalidPlugin for one that cannot be asked."""
    name = name or _name_of(function)
    if not callable(function):
        raise InvalidPlugin(f"{kind} {name!r}: expected a function (pod, node), got {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidPlugin(f"{kind} {name!r}: expected a plain function (pod, node), which answers at once")
    signature = inspect.signature(function)
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise InvalidPlugin(f"{kind} {name!r}: is called with (pod, node), but {error}") from None
    return "nodes" in list(signature.parameters)[1:2]
