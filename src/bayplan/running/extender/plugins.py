"""The plugins that an extender runs for a pod, and the verbs that they support.

In-tree plugins run only if they are named, because the other scheduler runs its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import (
    ConfigurationError,
    ExtraPlugin,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginLoadError,
    build_profiles,
)
from bayplan.core.config.merging import ALL
from bayplan.core.config.types import PluginReference, Plugins, PluginSet
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Point, Profile, takes_part
from bayplan.running.extender.paths import BIND, FILTER, PREEMPT, PRIORITIZE, VERBS
from bayplan.running.extender.problems import Unanswerable

SUPPORTED = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE, Point.BIND, Point.POST_BIND)
"""The extension points of an extender. At others, only the plugins of the other scheduler run."""

_ALL = PluginReference(ALL)
_DEFAULT_BINDER = PluginReference("DefaultBinder")


@dataclass(frozen=True, slots=True)
class ExtenderProfiles:
    """The profiles by scheduler name. `binders` are the profiles that were configured to bind."""

    profiles: Mapping[str, Profile]
    binders: frozenset[str] = frozenset()

    def of(self, pod: PodInfo) -> Profile:
        """The profile for a pod: the only one or, of several, the one with the pod's schedulerName."""
        if len(self.profiles) == 1:
            return next(iter(self.profiles.values()))
        profile = self.profiles.get(pod.scheduler_name)
        if profile is None:
            there = ", ".join(self.profiles)
            raise Unanswerable(f"the extender has no profile for schedulerName {pod.scheduler_name!r}, but for {there}")
        return profile

    def verbs(self, *, connected: bool) -> tuple[str, ...]:
        """The verbs that the plugins support.

        Preempt and bind need a connection to the cluster: to know the pods of nodes, and to bind.
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
        """The weight with which scores have the same effect as if the other scheduler ran the plugins."""
        return max((best_score(profile) // 100 for profile in self.profiles.values()), default=0)

    def unused_points(self) -> list[str]:
        """Messages about plugins at extension points that an extender doesn't have."""
        plugins = {id(each): each for profile in self.profiles.values() for each in profile.every()}.values()
        found = []
        for plugin in plugins:
            points = [point.value for point in Point if point not in SUPPORTED and takes_part(plugin, point)]
            if points and not _in_tree(plugin):
                found.append(
                    f"plugin {plugin.name} does not run at {', '.join(points)}, which an extender does not have"
                )
        return found


def best_score(profile: Profile) -> int:
    """The highest possible total score of a node: 100 per plugin, times its weight."""
    return sum(100 * profile.weights.get(plugin.name, 1) for plugin in profile.at(Point.SCORE))


def profile_of_plugins(plugins: Sequence[ExtraPlugin], handle: Handle) -> ExtenderProfiles:
    """A single profile with the given plugins, for all pods. Raises PluginLoadError."""
    named = [PluginReference(plugin.name, int(getattr(plugin, "weight", 0))) for plugin in plugins]
    profile = KubeSchedulerProfile(schedulerName="extender", plugins=Plugins(multiPoint=PluginSet(named)))
    try:
        return _built(KubeSchedulerConfiguration(profiles=[profile]), plugins, handle)
    except ConfigurationError as error:  # there is no document, so the paths have no meaning
        raise PluginLoadError("\n".join(fault.message for fault in error.faults)) from None


def profiles_of(
    configuration: KubeSchedulerConfiguration, plugins: Sequence[ExtraPlugin], handle: Handle
) -> ExtenderProfiles:
    """The profiles of a configuration, with only the plugins that it enables by name.

    Raises ConfigurationError and PluginLoadError.
    """
    return _built(configuration, plugins, handle)


def _built(
    configuration: KubeSchedulerConfiguration, plugins: Sequence[ExtraPlugin], handle: Handle
) -> ExtenderProfiles:
    without_defaults = msgspec.structs.replace(
        configuration, profiles=[_without_defaults(profile) for profile in configuration.profiles]
    )
    profiles = build_profiles(without_defaults, handle, plugins)
    binders = (each.schedulerName for each in configuration.profiles if _binds(each, profiles[each.schedulerName]))
    found = ExtenderProfiles(profiles, frozenset(binders))
    if not found.verbs(connected=True):
        expected = "at least one must implement preFilter, filter, score or bind"
        raise PluginLoadError(f"the plugins implement no extension point of an extender: {expected}")
    return found


def _without_defaults(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """The profile without the default plugins, except for the required QueueSort and Bind plugins."""
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
    return type(plugin).__module__.startswith("bayplan.core.plugins.")
