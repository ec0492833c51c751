"""PodKey: what pods must have in common to share results, made of what the plugins of a profile declare.

A plugin declares what it reads of a pod (`sign`), and what its results rest on besides (`rests_on`). Two pods with
equal values share results; a changed value makes another key. A plugin is unshared if it declares None, `OnlyNow`, or a
value that is new: it runs for each pod, after the others, so that it doesn't take the sharing of the rest away.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.interface import OnlyNow, RestsOn, Sign
from bayplan.core.framework.profile import Point, Profile, distinct_plugins, implements
from bayplan.core.framework.promises import reads_pods
from bayplan.foundations.latest import LruDict

_DECIDING = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
_RECENT_VALUES = 16
"""For each plugin: the values of `rests_on` that are known to recur."""
_RECENT_KEYS = 16
"""The keys that are kept: pods of a few kinds have their turns, again and again."""

Values = tuple[Hashable, ...]
"""What plugins declare, in the order of the profile; None for one that is unshared."""


class PodKey(NamedTuple):
    """The key of a pod in a profile, in one state of the cluster.

    Pods with equal `unshared`, `signature` and `rests_on` get the same verdict and raw score on the same row, now and
    later, from all plugins but those that are `unshared`, which run for each pod. `signature` and `rests_on`: what the
    other plugins declare. `declared`: what all plugins declare. `rejecting`: what those declare that can reject pods;
    None if one doesn't tell.
    """

    unshared: frozenset[str]
    signature: Values
    rests_on: Values
    declared: tuple[Values, Values]
    rejecting: Values | None

    @property
    def now(self) -> tuple[Values, Values] | None:
        """What all plugins declare; None if one doesn't tell."""
        return None if any(None in values for values in self.declared) else self.declared


class Keys:
    """Makes the keys of pods in one profile."""

    def __init__(self, profile: Profile) -> None:
        deciding = distinct_plugins(map(profile.at, _DECIDING))
        self._signing = [plugin for plugin in deciding if implements(plugin, Sign)]
        self._resting = [plugin for plugin in deciding if implements(plugin, RestsOn)]
        self._sign = [plugin.sign for plugin in self._signing]
        self._rests_on = [plugin.rests_on for plugin in self._resting]
        self._signed = len(self._sign) == len(deciding)
        self._recent: list[LruDict[Hashable, bool]] = [LruDict(_RECENT_VALUES) for _ in self._resting]
        filters = distinct_plugins(map(profile.at, (Point.PRE_FILTER, Point.FILTER)))
        self.filtering = frozenset(plugin.name for plugin in filters)
        """The plugins that can reject a pod on a node."""
        self._cache_key = object()
        """Of signatures in the caches of pods."""
        self._last: PodKey | None = None
        """The last key that pods with equal declarations have. Pods come in rows of equal ones."""
        self._known: LruDict[tuple[Values, Values], PodKey] = LruDict(_RECENT_KEYS)
        """By what all plugins declare: the keys of pods that came lately."""

    def of(self, pod: PodInfo, nodes: Nodes, *, recurring: bool = True) -> PodKey | None:
        """Return the key of a pod; None if a plugin of the profile has no signatures. Raises PluginError.

        `recurring`: whether a plugin is unshared if it rests on what no pod rested on lately. Rows that only one pod
        can use aren't worth keeping.
        """
        if not self._signed:
            return None
        last = self._last
        try:
            signature: Values | None = pod.cache.get(self._cache_key)
            if signature is None:
                signature = pod.cache[self._cache_key] = tuple([sign(pod) for sign in self._sign])
            values: Values = tuple([rests_on(pod, nodes) for rests_on in self._rests_on])
            if last is not None and last.declared == (signature, values):
                return last
            known = self._known.use((signature, values))
            if known is not None:
                self._last = known
                return known
        except BaseException:  # noqa: BLE001 - `call` finds the plugin; calling it for each plugin costs every pod
            signature = None
        if signature is None:
            signature = _declared(self._signing, "sign", Sign.__name__, pod)
            values = _declared(self._resting, "rests_on", RestsOn.__name__, pod, nodes)
        return self._key(signature, values, recurring=recurring)

    def _key(self, signature: Values, values: Values, *, recurring: bool) -> PodKey:
        unshared = {plugin.name for plugin, value in zip(self._signing, signature, strict=True) if value is None}
        new = False
        for place, value in enumerate(values):
            if value == ():
                continue
            if value is None or isinstance(value, OnlyNow):
                unshared.add(self._resting[place].name)
            elif recurring and not self._recurs(place, value):
                unshared.add(self._resting[place].name)
                new = True
        shared, depends = _without(unshared, self._signing, signature), _without(unshared, self._resting, values)
        declared = signature, values
        key = PodKey(frozenset(unshared), shared, depends, declared, self._rejecting(declared))
        if not new:
            self._last = self._known[declared] = key
        return key

    def _rejecting(self, declared: tuple[Values, Values]) -> Values | None:
        if any(None in values for values in declared):
            return None
        sides = zip((self._signing, self._resting), declared, strict=True)
        return tuple(
            [
                value
                for plugins, values in sides
                for plugin, value in zip(plugins, values, strict=True)
                if plugin.name in self.filtering
            ]
        )

    def rests_on_pods(self, key: PodKey) -> bool:
        """Return whether the verdict or the score of a node may rest on pods on other nodes."""
        if key.unshared:
            return True
        return any(value != () and reads_pods(each) for each, value in zip(self._resting, key.rests_on, strict=True))

    def rest_of(self, key: PodKey, plugins: AbstractSet[str]) -> Values | None:
        """Return what the verdicts of the plugins that rejected a pod rest on besides the pod and single nodes.

        None if that is unknown.
        """
        if not plugins or not key.unshared.isdisjoint(plugins) or not self.filtering >= plugins:
            return None
        pairs = zip(self._resting, key.rests_on, strict=True)
        return tuple([value for plugin, value in pairs if plugin.name in plugins])

    def _recurs(self, place: int, value: Hashable) -> bool:
        """Return whether a plugin's value was seen lately. The very first one may recur."""
        recent = self._recent[place]
        if recent.use(value):
            return True
        first = not recent
        recent[value] = True
        return first


def post_filter_values(profile: Profile, pod: PodInfo) -> Values | None:
    """Return what the PostFilter plugins read from a pod; None if one doesn't tell. Raises PluginError."""
    plugins = profile.at(Point.POST_FILTER)
    if not all(implements(plugin, Sign) for plugin in plugins):
        return None
    values = _declared(plugins, "sign", Sign.__name__, pod)
    return None if None in values else values


def _declared(plugins: Sequence[Any], method: str, point: str, *arguments: Any) -> Values:
    """Return what each plugin declares. Raises PluginError, also if that is not hashable."""
    return tuple([call(each, point, _hashable, getattr(each, method), *arguments) for each in plugins])


def _without(unshared: AbstractSet[str], plugins: Sequence[Any], values: Values) -> Values:
    """Return the values of plugins, with None for those that are unshared."""
    return tuple([None if plugin.name in unshared else value for plugin, value in zip(plugins, values, strict=True)])


def _hashable(method: Callable[..., Hashable], *arguments: Any) -> Hashable:
    """Return what a method returns. Raises TypeError if it is not hashable, and what its own methods raise."""
    value = method(*arguments)
    hash(value)
    bool(value == ())
    return value
