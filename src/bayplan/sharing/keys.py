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
        self._signing: Sequence[Any] | None = deciding if all(implements(each, Sign) for each in deciding) else None
        self._resting = [plugin for plugin in deciding if implements(plugin, RestsOn)]
        self._recent: dict[str, Latest[Hashable, bool]] = {one.name: Latest(_RECENT_VALUES) for one in self._resting}
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
        if self._signing is None:
            return None
        signature: Values | None = pod.cache.get(self._cache_key)
        if signature is None:
            signature = pod.cache[self._cache_key] = _declared(self._signing, "sign", "Sign", pod)
        unknown = [name for name, value in signature if value is None]
        apart, rests_on = unknown.copy(), []
        for each in _declared(self._resting, "rests_on", "RestsOn", pod, nodes):
            name, value = each
            if value == ():
                continue
            rests_on.append(each)
            if value is None:
                unknown.append(name)
            if value is None or isinstance(value, OnlyNow) or (recurring and not self._recurs(name, value)):
                apart.append(name)
        values = tuple(rests_on)
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
    values = _declared(plugins, "sign", "Sign", pod)
    return None if any(value is None for _, value in values) else values


def _declared(plugins: Sequence[Any], method: str, point: str, *arguments: Any) -> Values:
    """Return what a method of each plugin returns. Raises PluginError, also if that is not hashable."""
    try:
        values = tuple([(plugin.name, getattr(plugin, method)(*arguments)) for plugin in plugins])
        hash(values)
    except BaseException:  # noqa: BLE001 - `call` finds the plugin; calling it for each plugin costs every pod
        return tuple(
            [(plugin.name, call(plugin, point, _hashable, getattr(plugin, method), *arguments)) for plugin in plugins]
        )
    return values


def _hashable(method: Callable[..., Hashable], *arguments: Any) -> Hashable:
    """Return what a method returns. Raises TypeError if it is not hashable."""
    value = method(*arguments)
    hash(value)
    return value
