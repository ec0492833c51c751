"""PodKey: what pods must have in common to share results, made of what the plugins of a profile declare."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import call
from bayplan.framework.interface import OnlyNow, RestsOn, Sign
from bayplan.framework.profile import Point, Profile, implements, once
from bayplan.latest import Latest

_DECIDING = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
_RECENT_VALUES = 16
"""For each plugin: the values of `rests_on` that are known to recur."""

Values = tuple[tuple[str, Hashable], ...]
"""(plugin name, value) pairs."""


class PodKey(NamedTuple):
    """The key of a pod in a profile, in one state of the cluster.

    Pods with equal `apart`, `signature` and `rests_on` get the same verdict and raw score on the same row, now and
    later, from all plugins but those that are `apart`, which run for each pod. `signature` and `rests_on`: what the
    other plugins declare. Pods with equal `now` are treated alike by all plugins that choose a node, as long as nothing
    changes in the cluster; None if a plugin doesn't tell.
    """

    apart: frozenset[str]
    signature: Values
    rests_on: Values
    now: Hashable


class Keys:
    """Makes the keys of pods in one profile."""

    def __init__(self, profile: Profile) -> None:
        deciding = once(map(profile.at, _DECIDING))
        self._sign = [_method(plugin, "sign", "Sign") for plugin in deciding if implements(plugin, Sign)]
        self._signed = len(self._sign) == len(deciding)
        self._rest = [_method(plugin, "rests_on", "RestsOn") for plugin in deciding if implements(plugin, RestsOn)]
        self._recent: dict[str, Latest[Hashable, bool]] = {one.name: Latest(_RECENT_VALUES) for one in self._rest}
        filters = once(map(profile.at, (Point.PRE_FILTER, Point.FILTER)))
        self.filtering = frozenset(plugin.name for plugin in filters)
        """The plugins that can reject a pod on a node."""
        self._cache_key = object()
        """Of signatures in the caches of pods."""

    def of(self, pod: PodInfo, nodes: Nodes, *, recurring: bool = True) -> PodKey | None:
        """Return the key of a pod; None if a plugin of the profile has no signatures. Raises PluginError.

        `recurring`: whether a plugin is apart if it rests on what no pod rested on lately. Rows that a single pod can
        use aren't worth keeping.
        """
        if not self._signed:
            return None
        kept: tuple[Values, list[str]] | None = pod.cache.get(self._cache_key)
        if kept is None:
            signature = _declared(self._sign, pod)
            kept = signature, [name for name, value in signature if value is None]
            pod.cache[self._cache_key] = kept
        signature, apart = kept
        values = tuple([each for each in _declared(self._rest, pod, nodes) if each[1] != ()])
        unknown = bool(apart)
        for name, value in values:
            if value is None or isinstance(value, OnlyNow) or (recurring and not self._recurs(name, value)):
                apart = [*apart, name]
                unknown = unknown or value is None
        if not apart:
            return PodKey(_NONE, signature, values, (signature, values))
        names = frozenset(apart)
        shared, depends = (tuple([each for each in some if each[0] not in names]) for some in (signature, values))
        return PodKey(names, shared, depends, None if unknown else (signature, values))

    def _recurs(self, name: str, value: Hashable) -> bool:
        """Return whether a value was seen lately. The very first one may recur."""
        recent = self._recent[name]
        if recent.use(value):
            return True
        first = not recent
        recent[value] = True
        return first


_NONE: frozenset[str] = frozenset()


def of_post_filters(profile: Profile, pod: PodInfo) -> Values | None:
    """Return what the PostFilter plugins read from a pod; None if one doesn't tell. Raises PluginError."""
    plugins = profile.at(Point.POST_FILTER)
    if not all(implements(plugin, Sign) for plugin in plugins):
        return None
    values = _declared([_method(plugin, "sign", "Sign") for plugin in plugins], pod)
    return None if any(value is None for _, value in values) else values


class _Method(NamedTuple):
    """A method by which a plugin declares something."""

    name: str
    """The plugin's."""
    declare: Callable[..., Hashable]
    plugin: Any
    point: str


def _method(plugin: Any, method: str, point: str) -> _Method:
    return _Method(plugin.name, getattr(plugin, method), plugin, point)


def _declared(methods: Sequence[_Method], *arguments: Any) -> Values:
    """Return what each plugin declares. Raises PluginError, also if that is not hashable."""
    try:
        values = tuple([(name, declare(*arguments)) for name, declare, _, _ in methods])
        hash(values)
    except BaseException:  # noqa: BLE001 - `call` finds the plugin; calling it for each plugin costs every pod
        return tuple(
            [(each.name, call(each.plugin, each.point, _hashable, each.declare, *arguments)) for each in methods]
        )
    return values


def _hashable(method: Callable[..., Hashable], *arguments: Any) -> Hashable:
    """Return what a method returns. Raises TypeError if it is not hashable."""
    value = method(*arguments)
    hash(value)
    return value
