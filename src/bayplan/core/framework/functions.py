"""Plugins made from one function: `@filter_plugin` and `@score_plugin`.

    @filter_plugin
    def tier(pod, node):
        if node.labels.get("tier") == "control":
            return "node is reserved for the control plane"  # a string rejects the node

If the second parameter is called `nodes`, the function is called once with all nodes. The decorated function can still
be called like the original.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, ClassVar, overload

from bayplan.core.api.objects import encode
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Answer, CycleState, Plugin
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.verdicts import Rejections

FilterFunction = Callable[[PodInfo, NodeInfo], Answer] | Callable[[PodInfo, Nodes], Rejections | None]
ScoreFunction = Callable[[PodInfo, NodeInfo], int] | Callable[[PodInfo, Nodes], Int64]
Sign = Callable[[PodInfo], Hashable]
ExplainFunction = Callable[[PodInfo, NodeInfo], Details | None]

_TOKEN_VOLUME = re.compile(rb"kube-api-access-[a-z0-9]{5}")
"""The volume of the service account's token, to which the API server gives another name in each pod."""


class InvalidPlugin(TypeError):
    """An invalid plugin. The message names the plugin and the method, and says what is expected."""


class FunctionPlugin(Plugin):
    """A plugin made from one function. Calling the plugin calls the function."""

    kind: ClassVar[str]

    weight: int = 1
    """The weight of its scores, if it is a score plugin."""
    pure: bool = False
    """Whether the function was declared pure."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name  # type: ignore[misc] # a ClassVar of Plugin; this class makes many plugins
        self.__doc__ = function.__doc__

    def __call__(self, pod: PodInfo, node: Any) -> Any:
        """Call the function."""
        return self.function(pod, node)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


class FunctionFilter(FunctionPlugin):
    """The plugin that `filter_plugin` makes from a function `(pod, node)`."""

    kind = "filter plugin"

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Answer:
        """Return the function's result: None if the node is feasible, a reason, or a Status."""
        answer: Answer = self.function(pod, node)
        return answer


class FunctionFilterNodes(FunctionPlugin):
    """The plugin that `filter_plugin` makes from a function `(pod, nodes)`."""

    kind = "filter plugin"

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Return the function's result: None if all nodes are feasible, or Rejections."""
        rejections: Rejections | None = self.function(pod, nodes)
        return rejections


class FunctionScore(FunctionPlugin):
    """The plugin that `score_plugin` makes from a function `(pod, node)`."""

    kind = "score plugin"

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return the function's result, an integer from 0 to 100."""
        score: int = self.function(pod, node)
        return score


class FunctionScoreNodes(FunctionPlugin):
    """The plugin that `score_plugin` makes from a function `(pod, nodes)`."""

    kind = "score plugin"

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Return the function's result: integers from 0 to 100, shape (len(nodes),)."""
        scores: Int64 = self.function(pod, nodes)
        return scores


@overload
def filter_plugin(function: FilterFunction, /) -> FunctionPlugin: ...
@overload
def filter_plugin(
    *, name: str = "", sign: Sign | None = None, pure: bool = False, explain: ExplainFunction | None = None
) -> Callable[[FilterFunction], FunctionPlugin]: ...
def filter_plugin(
    function: FilterFunction | None = None,
    /,
    *,
    name: str = "",
    sign: Sign | None = None,
    pure: bool = False,
    explain: ExplainFunction | None = None,
) -> FunctionPlugin | Callable[[FilterFunction], FunctionPlugin]:
    """Make a filter plugin from a function `(pod, node)` that returns None if the node is feasible, or else a reason.

    A function `(pod, nodes)` returns None if all nodes are feasible, or else `Rejections`.

    Args:
        function: the function. Without it, a decorator is returned.
        name: the plugin's name; defaults to the function's name.
        sign: returns everything that the function reads from a pod, as one hashable value. Pods with equal values share
            the function's results, so these must depend only on the pod and the node.
        pure: declares that the results depend only on the pod and the node. Pods that differ only in what is their own
            (name, UID, creation time, status) then share them; `sign` can narrow that down. A result is used until the
            node, or the labels or requests of the pods on it, change.
        explain: a function `(pod, node)` that returns the Details of a rejection, for `bayplan explain`.

    Raises:
        InvalidPlugin: the function is not callable with two positional arguments.
    """

    def decorate(function: FilterFunction) -> FunctionPlugin:
        form = FunctionFilterNodes if _takes_all_nodes(function, name, FunctionFilter.kind) else FunctionFilter
        return _made(form, function, name, sign, pure=pure, explain=explain)

    return decorate if function is None else decorate(function)


@overload
def score_plugin(function: ScoreFunction, /) -> FunctionPlugin: ...
@overload
def score_plugin(
    *, name: str = "", weight: int = 1, sign: Sign | None = None, pure: bool = False
) -> Callable[[ScoreFunction], FunctionPlugin]: ...
def score_plugin(
    function: ScoreFunction | None = None,
    /,
    *,
    name: str = "",
    weight: int = 1,
    sign: Sign | None = None,
    pure: bool = False,
) -> FunctionPlugin | Callable[[ScoreFunction], FunctionPlugin]:
    """Make a score plugin from a function `(pod, node)` that returns an integer from 0 (worst) to 100 (best).

    A function `(pod, nodes)` returns an array of such integers, shape (len(nodes),).

    Args:
        function: the function. Without it, a decorator is returned.
        name: the plugin's name; defaults to the function's name.
        weight: the weight of the scores, 1 or more.
        sign: as for `filter_plugin`.
        pure: as for `filter_plugin`.

    Raises:
        InvalidPlugin: the function is not callable with two positional arguments, or the weight is invalid.
    """

    def decorate(function: ScoreFunction) -> FunctionPlugin:
        form = FunctionScoreNodes if _takes_all_nodes(function, name, FunctionScore.kind) else FunctionScore
        plugin = _made(form, function, name, sign, pure=pure)
        if not isinstance(weight, int) or weight < 1:
            raise InvalidPlugin(f"score plugin {plugin.name!r}: weight is {weight!r}, expected a positive integer")
        plugin.weight = weight
        return plugin

    return decorate if function is None else decorate(function)


def _made(
    form: type[FunctionPlugin],
    function: Callable[..., Any],
    name: str,
    sign: Sign | None,
    *,
    pure: bool,
    explain: ExplainFunction | None = None,
) -> FunctionPlugin:
    """Make a plugin of this form, or of a subclass with more methods, because methods are looked up by class."""
    methods: dict[str, Callable[..., Any]] = {}
    if sign is not None:
        # None from the user's function is an ordinary value, and would mean that results are not shared.
        methods["sign"] = lambda _, pod: (sign(pod),)
    elif pure:
        methods["sign"] = lambda _, pod: _content(pod)
    if explain is not None:
        methods["explain"] = lambda _self, _cycle, pod, node: explain(pod, node)
    if methods:
        form = type(form.__name__, (form,), methods)
    plugin = form(function, name or _name_of(function))
    plugin.pure = pure
    return plugin


def _content(pod: PodInfo) -> bytes:
    """Return a digest of what pods of the same template have in common."""
    content: bytes | None = pod.cache.get(_content)
    if content is None:
        metadata = pod.metadata
        common = [metadata.namespace, metadata.generateName, metadata.labels, metadata.annotations]
        text = encode([*common, metadata.ownerReferences, metadata.finalizers, pod.spec])
        content = pod.cache[_content] = blake2b(_TOKEN_VOLUME.sub(b"kube-api-access", text), digest_size=16).digest()
    return content


def _name_of(function: object) -> str:
    return getattr(function, "__name__", "") or type(function).__name__


def _takes_all_nodes(function: object, name: str, kind: str) -> bool:
    """Whether a function takes all nodes at once. Raises InvalidPlugin if it cannot be called as a plugin."""
    name = name or _name_of(function)
    if not callable(function):
        raise InvalidPlugin(f"{kind} {name!r}: expected a function (pod, node), got {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidPlugin(f"{kind} {name!r}: expected a plain function (pod, node), not a coroutine or a generator")
    signature = inspect.signature(function)
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise InvalidPlugin(f"{kind} {name!r}: is called with (pod, node), but {error}") from None
    return "nodes" in list(signature.parameters)[1:2]
