"""Profile: the enabled plugins of one scheduler name, in order, by extension point.

Mirrors the plugin lists of frameworkImpl (pkg/scheduler/framework/runtime/framework.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.resizes import RESIZES_PREEMPT, resize_deferred
from bayplan.core.framework import gangs, interface
from bayplan.core.framework.events import ALL_EVENTS, EventHint
from bayplan.core.framework.promises import keeps, reads_pods
from bayplan.core.versions import DEFAULT_GATES, FeatureGates


class Point(StrEnum):
    """The extension points. Their values are their names in configuration files."""

    __hash__ = str.__hash__  # that of Enum is written in Python, and a pod needs a dozen look-ups by point

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
    Point.PLACEMENT_GENERATE: (gangs.PlacementGenerate,),
    Point.PLACEMENT_SCORE: (gangs.PlacementScore,),
}
"""The protocols of each extension point. A plugin of the point implements at least one of them."""

REJECTING = (Point.PRE_ENQUEUE, Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PERMIT, Point.PLACEMENT_GENERATE)
"""The extension points that can reject a pod. The pod then waits for the events of the plugin that rejected it."""


def takes_part(plugin: Any, point: Point) -> bool:
    """Return whether a plugin implements an extension point."""
    return any(implements(plugin, form) for form in FORMS[point])


def implements(plugin: object, form: type[Any]) -> bool:
    """Return whether a plugin has the methods of one of the protocols of `interface`, and keeps what they promise."""
    return has_form(type(plugin), form)


def _has_form(cls: type[Any], form: type[Any]) -> bool:
    return issubclass(cls, form) and keeps(cls, form)


has_form: Callable[[Any, Any], bool] = lru_cache(maxsize=4096)(_has_form)
"""What `implements` returns for the plugins of a class. Cached: `issubclass` on a protocol takes longer than many
plugin methods."""


@dataclass(slots=True, frozen=True)
class Profile:
    """The enabled plugins of one scheduler name. It never changes: `with_plugins` makes another one.

    Attributes:
        plugins: for each extension point, its plugins in order.
        weights: the weights of Score plugins, by name.
        percentage_of_nodes_to_score: the share of nodes, in percent, among which a feasible one is selected; 0 picks a
            share that shrinks with the size of the cluster. See `scheduling.sampling`.
        placement_weights: the weights of PlacementScore plugins, by name.
        gates: the version of Kubernetes that is followed, and what is on in it.
        flushed: whether pods that no event has helped for long are attempted again anyway.
        hints: by plugin name: what is registered in place of the plugin's own events.
        looks_at_each_node: whether a Filter or Score plugin without `sign` has only the per-node form.
        extended: the PreFilter plugins with PreFilterExtensions.
    """

    scheduler_name: str
    plugins: Mapping[Point, Sequence[Any]]
    weights: Mapping[str, int] = field(default_factory=dict)
    percentage_of_nodes_to_score: int = 0
    placement_weights: Mapping[str, int] = field(default_factory=dict)
    gates: FeatureGates = DEFAULT_GATES
    flushed: bool = True
    hints: Mapping[str, tuple[EventHint, ...]] = field(default_factory=dict)
    looks_at_each_node: bool = field(init=False)
    extended: Sequence[Any] = field(init=False)
    _every: Sequence[Any] = field(init=False)
    """Each plugin once."""
    _parts: tuple[frozenset[str], Profile] | None = field(init=False, default=None)
    """The result of `settled`."""
    _for_resizes: Profile | None = field(init=False, default=None)
    """The result of `for_resizes`."""

    def __post_init__(self) -> None:
        pre_filters, extensions = self.at(Point.PRE_FILTER), interface.PreFilterExtensions
        whole_forms = ((Point.FILTER, interface.FilterNodes), (Point.SCORE, interface.ScoreNodes))
        for name, value in (
            ("_every", distinct_plugins(self.plugins.values())),
            ("extended", [plugin for plugin in pre_filters if implements(plugin, extensions)]),
            (
                "looks_at_each_node",
                any(
                    not implements(plugin, whole_form) and not implements(plugin, interface.Sign)
                    for point, whole_form in whole_forms
                    for plugin in self.at(point)
                ),
            ),
        ):
            object.__setattr__(self, name, value)

    def with_plugins(self, plugins: Mapping[Point, Sequence[Any]]) -> Profile:
        """Return a profile with other plugins at these points."""
        return replace(self, plugins={**self.plugins, **plugins})

    def at(self, point: Point) -> Sequence[Any]:
        """Return the plugins of an extension point, in order."""
        return self.plugins.get(point, ())

    def every(self) -> Iterable[Any]:
        """Return each plugin once."""
        return self._every

    def events(self) -> dict[str, tuple[EventHint, ...]]:
        """Return the registered events by plugin name, for the plugins that can reject pods."""
        rejecting = {id(plugin): plugin for point in REJECTING for plugin in self.at(point)}.values()
        own: dict[str, tuple[EventHint, ...]] = {
            plugin.name: tuple(plugin.events())
            if implements(plugin, interface.EnqueueExtensions)
            else (EventHint(ALL_EVENTS),)
            for plugin in rejecting
        }
        return {**own, **self.hints}

    def resizes(self, pod: PodInfo) -> bool:
        """Whether an attempt of the pod is only about room for its resize: it has a node, which deferred the resize."""
        return bool(pod.node_name) and self.gates.enabled(RESIZES_PREEMPT) and resize_deferred(pod)

    def for_pod(self, pod: PodInfo) -> Profile:
        """Return the profile that an attempt of the pod has: this one, or that for resizes."""
        return self.for_resizes() if self.resizes(pod) else self

    def for_resizes(self) -> Profile:
        """Return the profile of pods that have a node, and whose resize waits for room there."""
        if self._for_resizes is None:
            own, filters = self.at(Point.PRE_FILTER), self.at(Point.FILTER)
            stand_ins = {id(plugin): _for_resizes(plugin) for plugin in self.every()}
            points = {
                point: [stand_in for each in self.at(point) if (stand_in := stand_ins[id(each)]) is not None]
                for point in (Point.PRE_ENQUEUE, Point.FILTER, Point.POST_FILTER, Point.PERMIT)
            }
            # A stand-in may have a PreFilter that its plugin doesn't have.
            first = [stand_ins[id(each)] for each in distinct_plugins((own, filters))]
            points[Point.PRE_FILTER] = [
                each for each in first if takes_part(each, Point.PRE_FILTER) and (each in own or each not in filters)
            ]
            object.__setattr__(self, "_for_resizes", Profile(self.scheduler_name, points, gates=self.gates))
        assert self._for_resizes is not None
        return self._for_resizes

    def settled(self) -> tuple[frozenset[str], Profile]:
        """Return the names of the filters before the first that reads pods, and the profile without these filters.

        Verdicts of the former are the same whatever pods are on a node.
        """
        if self._parts is None:
            filters = list(self.at(Point.FILTER))
            first = next((index for index, plugin in enumerate(filters) if reads_pods(plugin)), len(filters))
            rest = Profile(self.scheduler_name, {**self.plugins, Point.FILTER: filters[first:]}, self.weights)
            parts = frozenset([plugin.name for plugin in filters[:first]]), rest
            object.__setattr__(self, "_parts", parts)
            return parts
        return self._parts


def _for_resizes(plugin: Any) -> Any | None:
    return plugin.for_resizes() if implements(plugin, interface.ForResizes) else plugin


def distinct_plugins(lists: Iterable[Iterable[Any]]) -> Sequence[Any]:
    """Return each plugin of these lists once."""
    return list({id(plugin): plugin for plugins in lists for plugin in plugins}.values())


def gates_followed(profiles: Iterable[Profile]) -> FeatureGates:
    """Return the gates of the profiles of one scheduler, which all have the same."""
    return next((profile.gates for profile in profiles), DEFAULT_GATES)
