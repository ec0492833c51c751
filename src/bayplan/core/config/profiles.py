"""Builds the profiles of a configuration: plugins with their arguments, by extension point.

A constructor gets what it asks for by the names of its parameters: `handle`, `args`, `gates` and others. Each profile
has instances of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.catalog import Catalog, ExtraPlugin
from bayplan.core.config.errors import ConfigurationError, PluginLoadError
from bayplan.core.config.merging import ALL
from bayplan.core.config.planning import ProfilePlan, place_of, plan_profile
from bayplan.core.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginReference,
    Plugins,
    PluginSet,
)
from bayplan.core.framework.checks import check_events
from bayplan.core.framework.functions import InvalidPlugin
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import EnqueueExtensions
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.plugins.arguments import NodeResourcesFitArgs
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.core.plugins.registry import PLUGINS
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.foundations.failures import shown

__all__ = ["ExtraPlugin", "build_profile", "build_profiles", "default_profile"]


def build_profiles(
    configuration: KubeSchedulerConfiguration,
    handle: Handle,
    extra_plugins: Sequence[ExtraPlugin] = (),
    gates: FeatureGates = DEFAULT_GATES,
) -> dict[str, Profile]:
    """All profiles of a configuration by scheduler name. Profiles don't share plugin instances.

    The user's plugins are enabled where the configuration names them; those of `gates` are enabled by default.
    Raises ConfigurationError with the errors of all profiles, and PluginLoadError if two plugins have the same name.
    """
    catalog = Catalog(extra_plugins, gates)
    profiles: dict[str, Profile] = {}
    faults: list[FieldError] = []
    percentage, ignored = configuration.percentageOfNodesToScore, _ignored_resources(configuration)
    for index, profile in enumerate(configuration.profiles):
        built, found = _build(profile, catalog, handle, f"profiles[{index}]", percentage, ignored)
        faults += found
        profiles[built.scheduler_name] = built
    if faults:
        raise ConfigurationError(faults)
    return profiles


def build_profile(
    profile: KubeSchedulerProfile,
    handle: Handle,
    extra_plugins: Sequence[ExtraPlugin] = (),
    percentage: int = 0,
    gates: FeatureGates = DEFAULT_GATES,
) -> Profile:
    """One profile. `percentage` is the configuration's percentageOfNodesToScore. Raises as `build_profiles` does."""
    built, faults = _build(profile, Catalog(extra_plugins, gates), handle, "", percentage)
    if faults:
        raise ConfigurationError(faults)
    return built


def default_profile(
    scheduler_name: str,
    handle: Handle,
    extra_plugins: Sequence[ExtraPlugin] = (),
    gates: FeatureGates = DEFAULT_GATES,
) -> Profile:
    """A profile of the default plugins, followed by the user's plugins at all points that they implement.

    A QueueSort plugin of the user's replaces the default one, and Bind plugins run before the default one. Raises
    PluginLoadError if a plugin can't be built.
    """
    catalog = Catalog(extra_plugins, gates)
    profile = profile_of_all(scheduler_name, catalog)
    built, faults = _build(profile, catalog, handle, "", 0)
    if faults:  # there is no document, so the paths have no meaning
        raise PluginLoadError("\n".join(fault.message for fault in faults))
    return built


def profile_of_all(scheduler_name: str, catalog: Catalog) -> KubeSchedulerProfile:
    """The profile that enables the default plugins and all of the user's."""
    extras = catalog.extras
    plugins = Plugins(multiPoint=PluginSet([PluginReference(name, _weight(name, catalog)) for name in extras]))
    for point, replaced in ((Point.QUEUE_SORT, "PrioritySort"), (Point.BIND, "DefaultBinder")):
        mine = [PluginReference(name) for name in extras if catalog.takes_part(name, point)]
        if mine:
            kept = [PluginReference(replaced)] if point is Point.BIND else []
            setattr(plugins, point.value, PluginSet([*mine, *kept], [PluginReference(ALL)]))
    return KubeSchedulerProfile(schedulerName=scheduler_name, plugins=plugins)


def _ignored_resources(configuration: KubeSchedulerConfiguration) -> list[str]:
    """The resources that only extenders check. Mirrors buildExtenders (pkg/scheduler/scheduler.go)."""
    managed = (resource for extender in configuration.extenders for resource in extender.managedResources)
    return [resource.name for resource in managed if resource.ignoredByScheduler]


def _build(
    profile: KubeSchedulerProfile,
    catalog: Catalog,
    handle: Handle,
    path: str,
    percentage: int,
    ignored_resources: Sequence[str] = (),
) -> tuple[Profile, list[FieldError]]:
    """A profile and its errors. If there are errors, the profile lacks plugins.

    `ignored_resources` replace the ignoredResources in the arguments of NodeResourcesFit.
    """
    plan, faults = plan_profile(profile, catalog, path, percentage)
    if ignored_resources:
        fit = plan.arguments.get(NodeResourcesFit.name, NodeResourcesFitArgs())
        fit = msgspec.structs.replace(fit, ignoredResources=list(ignored_resources))
        plan = replace(plan, arguments={**plan.arguments, NodeResourcesFit.name: fit})
    built: dict[str, Any] = {}
    if not faults:
        for name in plan.names():
            try:
                built[name] = _instance(name, plan, catalog, handle)
            except PluginLoadError as error:
                faults.append(FieldError(place_of(name, profile, path), str(error)))
    points = {point: [built[name] for name in names if name in built] for point, names in plan.points.items()}
    weights, gates = (plan.weights, plan.percentage, plan.placement_weights), catalog.gates
    return Profile(plan.scheduler_name, points, *weights, gates=gates), faults


def _instance(name: str, plan: ProfilePlan, catalog: Catalog, handle: Handle) -> Any:
    other = catalog.other(name)
    if other is not None:
        return _extra(other, plan, handle, catalog.gates)
    factory = PLUGINS[name].factory
    arguments = {"args": plan.arguments[name]} if name in plan.arguments else {}
    return factory(**arguments, **_services_for(factory, plan, handle, catalog.gates))


def _extra(extra: ExtraPlugin, plan: ProfilePlan, handle: Handle, gates: FeatureGates) -> Any:
    """A plugin of the user's. Raises PluginLoadError."""
    if not isinstance(extra, type):
        return extra
    try:
        arguments: dict[str, Any] = _services_for(extra, plan, handle, gates)
        if extra.name in plan.arguments:
            arguments["args"] = plan.arguments[extra.name]
        plugin = extra(**arguments)
        if not isinstance(plugin, extra) or plugin.name != extra.name:
            raise PluginLoadError(f"plugin {extra.name!r} becomes {shown(plugin)}, expected a plugin of that name")
    except PluginLoadError:
        raise
    except BaseException as error:
        raise PluginLoadError.of(f"plugin {extra.name!r} failed to start", error) from error
    if implements(plugin, EnqueueExtensions):
        try:
            check_events(plugin)
        except InvalidPlugin as error:
            raise PluginLoadError(str(error)) from None
    return plugin


def _services_for(factory: type[Any], plan: ProfilePlan, handle: Handle, gates: FeatureGates) -> dict[str, Any]:
    """What the constructor of a plugin asks for by the names of its parameters."""
    parameters = inspect.signature(factory).parameters
    services = {"handle": handle, "gates": gates, "scheduler_name": plan.scheduler_name}
    return {name: value for name, value in services.items() if name in parameters}


def _weight(name: str, catalog: Catalog) -> int:
    scores = any(catalog.takes_part(name, point) for point in (Point.SCORE, Point.PLACEMENT_SCORE))
    return int(getattr(catalog.extras[name], "weight", 0)) if scores else 0
