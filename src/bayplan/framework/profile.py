"""Profile: the enabled plugins of one scheduler name, in order, by extension point.

Mirrors the plugin lists of frameworkImpl (pkg/scheduler/framework/runtime/framework.go).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import gangs, interface
from bayplan.framework.calling import call
from bayplan.framework.events import ALL_EVENTS, EventHint


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
    """Return whether a plugin has the methods of one of the protocols of `interface`."""
    return _subclass(type(plugin), form)


_subclass: Callable[[Any, Any], bool] = lru_cache(maxsize=4096)(issubclass)
"""Cached by class: `issubclass` on a protocol takes longer than many plugin methods."""


Signature = tuple[tuple[str, Hashable], ...]
"""(plugin name, value) pairs."""


class Sharing(NamedTuple):
    """Pods share results of plugins if these three values are equal.

    `apart`: the names of the plugins whose results can't be shared. `signature`, `rests_on`: of the other plugins; see
    `Profile.sign` and `Profile.rests_on`.
    """

    apart: frozenset[str]
    signature: Signature
    rests_on: Signature


@dataclass(slots=True, frozen=True)
class Profile:
    """The enabled plugins of one scheduler name. It never changes: `with_plugins` makes another one.

    Attributes:
        plugins: for each extension point, its plugins in order.
        weights: the weights of Score plugins, by name.
        percentage_of_nodes_to_score: the share of nodes, in percent, among which a feasible one is selected; 0 picks a
            share that shrinks with the size of the cluster. See `scheduling.sampling`.
        placement_weights: the weights of PlacementScore plugins, by name.
        looks_at_each_node: whether a Filter or Score plugin without `sign` has only the per-node form.
        extended: the PreFilter plugins with PreFilterExtensions.
    """

    scheduler_name: str
    plugins: Mapping[Point, Sequence[Any]]
    weights: Mapping[str, int] = field(default_factory=dict)
    percentage_of_nodes_to_score: int = 0
    placement_weights: Mapping[str, int] = field(default_factory=dict)
    looks_at_each_node: bool = field(init=False)
    extended: Sequence[Any] = field(init=False)
    _every: Sequence[Any] = field(init=False)
    """Each plugin once."""
    _signing: Sequence[Any] | None = field(init=False)
    """The plugins that verdicts and scores depend on, if all of them implement Sign; else None."""
    _signing_specs: Sequence[Any] = field(init=False)
    """Those of them whose `sign` reads only the spec."""
    _signing_pods: Sequence[Any] = field(init=False)
    """The others."""
    _resting: Sequence[Any] = field(init=False)
    """Those of them that implement RestsOn."""
    _signature_key: object = field(init=False, default_factory=object)
    """Of signatures in the caches of pods and of their specs."""
    _parts: tuple[frozenset[str], Profile] | None = field(init=False, default=None)
    """The result of `settled`."""

    def __post_init__(self) -> None:
        points = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
        deciding = _once(map(self.at, points))
        signing = deciding if all(implements(plugin, interface.Sign) for plugin in deciding) else None
        whole_forms = ((Point.FILTER, interface.FilterNodes), (Point.SCORE, interface.ScoreNodes))
        for name, value in (
            ("_every", _once(self.plugins.values())),
            ("_signing", signing),
            ("_signing_specs", [plugin for plugin in signing or () if getattr(plugin, "signs_spec", False)]),
            ("_signing_pods", [plugin for plugin in signing or () if not getattr(plugin, "signs_spec", False)]),
            ("_resting", [plugin for plugin in deciding if implements(plugin, interface.RestsOn)]),
            (
                "extended",
                [plugin for plugin in self.at(Point.PRE_FILTER) if implements(plugin, interface.PreFilterExtensions)],
            ),
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
        return {
            plugin.name: tuple(plugin.events())
            if implements(plugin, interface.EnqueueExtensions)
            else (EventHint(ALL_EVENTS),)
            for plugin in rejecting
        }

    def sign(self, pod: PodInfo) -> Signature | None:
        """Return the pod's signature of each plugin; None if a plugin of the profile does not implement Sign.

        A plugin's value is None if its results for this pod cannot be shared. Kept with the pod. Raises PluginError.
        """
        if self._signing is None:
            return None
        signature: Signature | None = pod.cache.get(self._signature_key)
        if signature is None:
            by_spec: Signature | None = pod.spec_cache.get(self._signature_key)
            if by_spec is None:
                by_spec = pod.spec_cache[self._signature_key] = self._sign(self._signing_specs, pod)
            signature = pod.cache[self._signature_key] = by_spec + self._sign(self._signing_pods, pod)
        return signature

    @staticmethod
    def _sign(plugins: Sequence[Any], pod: PodInfo) -> Signature:
        signature: Signature | None
        try:
            signature = tuple([(plugin.name, plugin.sign(pod)) for plugin in plugins])
            hash(signature)
        except BaseException:  # noqa: BLE001 - `call` finds the plugin; calling it for each plugin costs every pod
            signature = None
        if signature is None:
            return tuple([(plugin.name, call(plugin, "Sign", _hashable, plugin.sign, pod)) for plugin in plugins])
        return signature

    def sign_rejection(self, pod: PodInfo, apart: frozenset[str]) -> Hashable:
        """Return what the rejection of a pod depends on, besides its signatures of the plugins that are not `apart`.

        That is its priority (see `what_if.filter_nominated`), and what the other plugins and PostFilter plugins read.
        None if a plugin does not tell. Raises PluginError.
        """
        key: list[Hashable] = [pod.priority]
        for plugin in (*self.at(Point.POST_FILTER), *(each for each in self._signing or () if each.name in apart)):
            value: Hashable = None
            if implements(plugin, interface.SignRejection):
                value = call(plugin, "SignRejection", _hashable, plugin.sign_rejection, pod)
            elif implements(plugin, interface.Sign) and plugin.name not in apart:
                value = call(plugin, "Sign", _hashable, plugin.sign, pod)
            if value is None:
                return None
            key.append((plugin.name, value))
        return tuple(key)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Signature:
        """Return each plugin's cache key for inputs other than the pod and the node.

        A plugin's value is None if its results for this pod cannot be shared. Raises PluginError.
        """
        rests_on: Signature | None
        try:
            rests_on = tuple([(plugin.name, plugin.rests_on(pod, nodes)) for plugin in self._resting])
        except BaseException:  # noqa: BLE001 - as in `sign`
            rests_on = None
        if rests_on is None:
            return tuple(
                [(plugin.name, call(plugin, "RestsOn", plugin.rests_on, pod, nodes)) for plugin in self._resting]
            )
        return rests_on

    def sharing(self, pod: PodInfo, nodes: Nodes) -> Sharing | None:
        """Return what pods must have in common with this one to share its results. Raises PluginError.

        None if a plugin of the profile does not implement Sign.
        """
        signature = self.sign(pod)
        if signature is None:
            return None
        rests_on = self.rests_on(pod, nodes)
        unsigned = frozenset([name for name, value in signature if value is None])
        apart = unsigned.union([name for name, value in rests_on if value is None])
        if apart:
            rests_on = tuple([each for each in rests_on if each[0] not in apart])
            signature = tuple([each for each in signature if each[0] not in apart])
        return Sharing(apart, signature, rests_on)

    def settled(self) -> tuple[frozenset[str], Profile]:
        """Return the names of the filters before the first that reads pods, and the profile without these filters.

        Verdicts of the former are the same whatever pods are on a node.
        """
        if self._parts is None:
            filters = list(self.at(Point.FILTER))
            first = next((index for index, plugin in enumerate(filters) if plugin.reads_pods), len(filters))
            rest = Profile(self.scheduler_name, {**self.plugins, Point.FILTER: filters[first:]}, self.weights)
            parts = frozenset([plugin.name for plugin in filters[:first]]), rest
            object.__setattr__(self, "_parts", parts)
            return parts
        return self._parts

    def split(self, apart: frozenset[str]) -> tuple[Profile, Profile]:
        """Split the profile into plugins with results that pods can share, and plugins that run for each pod.

        `apart`: the names of the plugins whose results cannot be shared. Filters from the first of these on run for
        each pod, because a node's verdict is the first rejection in order.
        """
        filters = self.at(Point.FILTER)
        first = next((index for index, plugin in enumerate(filters) if plugin.name in apart), len(filters))
        shared: dict[Point, Sequence[Any]] = {Point.FILTER: filters[:first]}
        each: dict[Point, Sequence[Any]] = {Point.FILTER: filters[first:]}
        for point in (Point.PRE_FILTER, Point.PRE_SCORE, Point.SCORE):
            shared[point] = [plugin for plugin in self.at(point) if plugin.name not in apart]
            each[point] = [plugin for plugin in self.at(point) if plugin.name in apart]
        return Profile(self.scheduler_name, shared, self.weights), Profile(self.scheduler_name, each, self.weights)


def _once(lists: Iterable[Sequence[Any]]) -> Sequence[Any]:
    """Return each plugin of these lists once."""
    return list({id(plugin): plugin for plugins in lists for plugin in plugins}.values())


def _hashable(sign: Callable[[PodInfo], Hashable], pod: PodInfo) -> Hashable:
    """Return a part of a pod's signature. Raises TypeError if it is not hashable."""
    value = sign(pod)
    hash(value)
    return value
