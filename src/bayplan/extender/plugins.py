"""Which plugins an extender asks for which pod, and which of the protocol's verbs these are good for.

The scheduler in front has asked its in-tree plugins already, so that here only those run which somebody names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.cluster.pod_info import PodInfo
from bayplan.config import (
    ConfigurationError,
    ExtraPlugin,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginLoadError,
    build_profiles,
)
from bayplan.config.merging import ALL
from bayplan.config.types import PluginReference, Plugins, PluginSet
from bayplan.extender.paths import BIND, FILTER, PREEMPT, PRIORITIZE, VERBS
from bayplan.extender.problems import Unanswerable
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Point, Profile, takes_part

ASKED = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE, Point.BIND, Point.POST_BIND)
"""The points that an extender reaches; at all others the scheduler in front asks its own plugins."""

_ALL = PluginReference(ALL)
_DEFAULT_BINDER = PluginReference("DefaultBinder")


@dataclass(frozen=True, slots=True)
class ExtenderProfiles:
    """The profiles by scheduler name. `binders`: those whose binding somebody asked for, as every profile has one."""

    profiles: Mapping[str, Profile]
    binders: frozenset[str] = frozenset()

    def of(self, pod: PodInfo) -> Profile:
        """The profile for a pod: a single one is for every pod, several are chosen from by the pod's schedulerName."""
        if len(self.profiles) == 1:
            return next(iter(self.profiles.values()))
        profile = self.profiles.get(pod.scheduler_name)
        if profile is None:
            there = ", ".join(self.profiles)
            raise Unanswerable(
                f"no profile of the extender is for schedulerName {pod.scheduler_name!r}: it has {there}"
            )
        return profile

    def verbs(self, *, connected: bool) -> tuple[str, ...]:
        """What the plugins can be asked.

        Without a connection to the cluster nobody knows what nodes would be like without the victims of a preemption,
        and nobody can bind.
        """
        at = {point for profile in self.profiles.values() for point in Point if profile.at(point)}
        filters = bool(at & {Point.PRE_FILTER, Point.FILTER})
        able = {
            FILTER: filters,
            PRIORITIZE: Point.SCORE in at,
            PREEMPT: filters and connected,
            BIND: bool(self.binders) and connected,
        }
        return tuple(verb for verb in VERBS if able[verb])

    @property
    def weight(self) -> int:
        """The weight with which the scores count in the scheduler as they would if it asked the plugins itself."""
        return max((best_score(profile) // 100 for profile in self.profiles.values()), default=0)

    def not_asked(self) -> list[str]:
        """Plugins that implement what an extender never gets to ask, in words."""
        plugins = {id(each): each for profile in self.profiles.values() for each in profile.every()}.values()
        found = []
        for plugin in plugins:
            points = [point.value for point in Point if point not in ASKED and takes_part(plugin, point)]
            if points and not _in_tree(plugin):
                found.append(
                    f"plugin {plugin.name} is not asked at {', '.join(points)}: an extender does not get there"
                )
        return found


def best_score(profile: Profile) -> int:
    """What the plugins of a profile together can give a node at most: 100 each, times its weight."""
    return sum(100 * profile.weights.get(plugin.name, 1) for plugin in profile.at(Point.SCORE))


def plugins_alone(plugins: Sequence[ExtraPlugin], handle: Handle) -> ExtenderProfiles:
    """One profile of the given plugins, for every pod. Raises PluginLoadError."""
    named = [PluginReference(plugin.name, int(getattr(plugin, "weight", 0))) for plugin in plugins]
    profile = KubeSchedulerProfile(schedulerName="extender", plugins=Plugins(multiPoint=PluginSet(named)))
    try:
        return _built(KubeSchedulerConfiguration(profiles=[profile]), plugins, handle)
    except ConfigurationError as error:  # there is no document whose paths would mean something
        raise PluginLoadError("\n".join(fault.message for fault in error.faults)) from None


def plugins_of(
    configuration: KubeSchedulerConfiguration, plugins: Sequence[ExtraPlugin], handle: Handle
) -> ExtenderProfiles:
    """The profiles of a configuration, with the plugins that they enable themselves, in-tree ones among them.

    Raises ConfigurationError and PluginLoadError.
    """
    return _built(configuration, plugins, handle)


def _built(
    configuration: KubeSchedulerConfiguration, plugins: Sequence[ExtraPlugin], handle: Handle
) -> ExtenderProfiles:
    named = msgspec.structs.replace(configuration, profiles=[_named_only(each) for each in configuration.profiles])
    profiles = build_profiles(named, handle, plugins)
    binders = (each.schedulerName for each in configuration.profiles if _binds(each, profiles[each.schedulerName]))
    found = ExtenderProfiles(profiles, frozenset(binders))
    if not found.verbs(connected=True):
        expected = "at least one has to implement preFilter, filter, score or bind"
        raise PluginLoadError(f"the plugins do nothing that an extender is asked for: {expected}")
    return found


def _named_only(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """The same without the default plugins, but for an order of the queue, which nobody asks for, and a binder."""
    plugins = profile.plugins
    bind = plugins.bind
    named = {reference.name for reference in (*bind.enabled, *bind.disabled, *plugins.multiPoint.enabled)}
    if not named & {_DEFAULT_BINDER.name, _ALL.name}:
        bind = PluginSet([*bind.enabled, _DEFAULT_BINDER], bind.disabled)
    alone = msgspec.structs.replace(
        plugins,
        queueSort=PluginSet([PluginReference("PrioritySort")], [_ALL]),
        bind=bind,
        multiPoint=PluginSet(plugins.multiPoint.enabled, [*plugins.multiPoint.disabled, _ALL]),
    )
    return msgspec.structs.replace(profile, plugins=alone)


def _binds(configured: KubeSchedulerProfile, profile: Profile) -> bool:
    named = _DEFAULT_BINDER.name in configured.plugins.enabled_names()
    return named or any(plugin.name != _DEFAULT_BINDER.name for plugin in profile.at(Point.BIND))


def _in_tree(plugin: Any) -> bool:
    return type(plugin).__module__.startswith("bayplan.plugins.")
