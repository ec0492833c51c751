"""Profile: the plugins of one scheduler name, by extension point, in their order.

Mirrors frameworkImpl's lists (pkg/scheduler/framework/runtime/framework.go). Which plugins these are is decided by
the configuration; what they are asked is decided by the runner.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import interface
from bayplan.framework.events import ALL_EVENTS, EventHint


class Point(Enum):
    """The extension points, with their names in configuration files."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"


FORMS: Mapping[Point, tuple[type[Any], ...]] = {
    Point.PRE_ENQUEUE: (interface.PreEnqueue,),
    Point.QUEUE_SORT: (interface.QueueSort,),
    Point.PRE_FILTER: (interface.PreFilter,),
    Point.FILTER: (interface.FilterNodes, interface.Filter),
    Point.POST_FILTER: (interface.PostFilter,),
    Point.PRE_SCORE: (interface.PreScore,),
    Point.SCORE: (interface.ScoreNodes, interface.Score),
    Point.RESERVE: (interface.Reserve,),
    Point.PERMIT: (interface.Permit,),
    Point.PRE_BIND: (interface.PreBind,),
    Point.BIND: (interface.Bind,),
    Point.POST_BIND: (interface.PostBind,),
    Point.PLACEMENT_GENERATE: (interface.PlacementGenerate,),
    Point.PLACEMENT_SCORE: (interface.PlacementScore,),
}
"""What a plugin has to implement (one of) to take part in a point."""

REJECTING = (
    Point.PRE_ENQUEUE,
    Point.PRE_FILTER,
    Point.FILTER,
    Point.RESERVE,
    Point.PERMIT,
    Point.PLACEMENT_GENERATE,
)
"""The points at which a pod can be turned down and then waits for the plugin's events."""


def takes_part(plugin: Any, point: Point) -> bool:
    """Whether a plugin implements a point."""
    return any(implements(plugin, form) for form in FORMS[point])


def implements(plugin: object, form: type[Any]) -> bool:
    """Whether a plugin has the methods of one of the protocols of `interface`."""
    return _subclass(type(plugin), form)


_subclass: Callable[[Any, Any], bool] = lru_cache(maxsize=4096)(issubclass)
"""By class, and remembered: looking for the methods of a protocol anew would cost more than many a plugin."""


Signature = tuple[tuple[str, Hashable], ...]
"""A value for each of some plugins, by name."""


@dataclass(slots=True)
class Profile:
    """The effective plugins of one scheduler name.

    `plugins`: for every point the plugins that are asked there, in order. `weights`: of the plugins that score nodes,
    by name; `placement_weights`: of those that score placements.
    """

    scheduler_name: str
    plugins: Mapping[Point, Sequence[Any]]
    weights: Mapping[str, int] = field(default_factory=dict)
    percentage_of_nodes_to_score: int = 0
    """How many of the nodes are enough to choose from; 0: fewer, the more there are. See scheduling.sampling."""
    placement_weights: Mapping[str, int] = field(default_factory=dict)
    looks_at_each_node: bool = field(init=False)
    """Whether a plugin that signs no pods has to be asked node by node."""
    _signs: Sequence[Any] | None = field(init=False)
    """The plugins that a decision rests on, if all of them sign pods."""
    _rest_on: Sequence[Any] = field(init=False)

    def __post_init__(self) -> None:
        points = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
        deciding = list({id(plugin): plugin for point in points for plugin in self.at(point)}.values())
        self._signs = deciding if all(implements(plugin, interface.Sign) for plugin in deciding) else None
        self._rest_on = [plugin for plugin in deciding if implements(plugin, interface.RestsOn)]
        self.looks_at_each_node = any(
            not implements(plugin, whole_form) and not implements(plugin, interface.Sign)
            for point, whole_form in ((Point.FILTER, interface.FilterNodes), (Point.SCORE, interface.ScoreNodes))
            for plugin in self.at(point)
        )

    def at(self, point: Point) -> Sequence[Any]:
        """The plugins asked at a point."""
        return self.plugins.get(point, ())

    def every(self) -> Iterable[Any]:
        """Each plugin once."""
        return {id(plugin): plugin for plugins in self.plugins.values() for plugin in plugins}.values()

    def events(self) -> dict[str, tuple[EventHint, ...]]:
        """The events that may help a pod, by the plugin that turned it down."""
        rejecting = {id(plugin): plugin for point in REJECTING for plugin in self.at(point)}.values()
        return {
            plugin.name: tuple(plugin.events())
            if implements(plugin, interface.EnqueueExtensions)
            else (EventHint(ALL_EVENTS),)
            for plugin in rejecting
        }

    def sign(self, pod: PodInfo) -> Signature | None:
        """What each plugin reads of a pod, by name; None as a value where the plugin cannot tell.

        None where a plugin of the profile does not sign at all.
        """
        if self._signs is None:
            return None
        return tuple([(plugin.name, plugin.sign(pod)) for plugin in self._signs])

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Signature:
        """What the answers of plugins rest on beside the pod and each node itself, by name.

        None as a value where the plugin's answers cannot be shared.
        """
        return tuple([(plugin.name, plugin.rests_on(pod, nodes)) for plugin in self._rest_on])

    def split(self, apart: frozenset[str]) -> tuple[Profile, Profile]:
        """What pods can share of the profile where these plugins cannot share, and what has to be asked for each pod.

        A node's verdict is the first refusal, so that filters are shared up to the first of these plugins only.
        """
        filters = self.at(Point.FILTER)
        first = next((index for index, plugin in enumerate(filters) if plugin.name in apart), len(filters))
        shared: dict[Point, Sequence[Any]] = {Point.FILTER: filters[:first]}
        each: dict[Point, Sequence[Any]] = {Point.FILTER: filters[first:]}
        for point in (Point.PRE_FILTER, Point.PRE_SCORE, Point.SCORE):
            shared[point] = [plugin for plugin in self.at(point) if plugin.name not in apart]
            each[point] = [plugin for plugin in self.at(point) if plugin.name in apart]
        return Profile(self.scheduler_name, shared, self.weights), Profile(self.scheduler_name, each, self.weights)
