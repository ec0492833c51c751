"""Builds profiles: plugins with their arguments, by point, as a configuration says."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.api.field_errors import FieldError
from bayplan.config.documents import convert
from bayplan.config.errors import ConfigurationError, PluginLoadError
from bayplan.config.loading import plugin_arguments
from bayplan.config.merging import effective_sets, plugins_by_point, score_weights
from bayplan.config.types import KubeSchedulerProfile, PluginReference, Plugins, PluginSet
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Plugin
from bayplan.framework.profile import FORMS, Point, Profile
from bayplan.plugins.registry import NOT_IMPLEMENTED, PLUGINS

ExtraPlugin = type[Plugin] | Plugin
"""A plugin of the user's: a class that is built with its arguments, or one that needs none."""


def default_profile(scheduler_name: str, handle: Handle, extra_plugins: Sequence[ExtraPlugin] = ()) -> Profile:
    """The default plugins, and after them the user's own, which take part in all that they implement.

    A queue order of the user's replaces the default one, and its Bind plugins are asked before the default one.
    Raises ConfigurationError and PluginLoadError.
    """
    plugins = Plugins(multiPoint=PluginSet([PluginReference(plugin.name, _weight(plugin)) for plugin in extra_plugins]))
    for point, replaced in ((Point.QUEUE_SORT, "PrioritySort"), (Point.BIND, "DefaultBinder")):
        mine = [PluginReference(plugin.name) for plugin in extra_plugins if _class_takes_part(plugin, point)]
        if mine:
            kept = [PluginReference(replaced)] if point is Point.BIND else []
            setattr(plugins, point.value, PluginSet([*mine, *kept], [PluginReference("*")]))
    return build_profile(KubeSchedulerProfile(schedulerName=scheduler_name, plugins=plugins), handle, extra_plugins)


def build_profile(
    profile: KubeSchedulerProfile, handle: Handle, extra_plugins: Sequence[ExtraPlugin] = (), percentage: int = 0
) -> Profile:
    """The profile that a (valid) configuration describes; its user plugins are looked up among `extra_plugins`.

    `percentage` is the configuration's own percentageOfNodesToScore. Plugins that do not exist here yet are left out
    (see `missing_plugins`). Raises ConfigurationError and PluginLoadError.
    """
    sets = effective_sets(profile.plugins)
    built = _build(set(sets.enabled_names()), profile, handle, extra_plugins)
    by_point = plugins_by_point(sets, built)
    if len(by_point[Point.QUEUE_SORT]) != 1:
        problem = f"exactly one plugin has to order the queue, got {_names(by_point[Point.QUEUE_SORT])}"
        raise ConfigurationError([FieldError("plugins.queueSort", problem)])
    if not by_point[Point.BIND]:
        raise ConfigurationError([FieldError("plugins.bind", "at least one plugin has to bind")])
    if profile.percentageOfNodesToScore is not None:
        percentage = profile.percentageOfNodesToScore
    return Profile(profile.schedulerName, by_point, score_weights(sets, built), percentage)


def missing_plugins(profile: KubeSchedulerProfile, *, explicit: bool = False) -> list[str]:
    """The plugins that a profile has, or with `explicit` those that it names itself, and that do not exist here yet."""
    named = profile.plugins if explicit else effective_sets(profile.plugins)
    return [name for name in PLUGINS if name in NOT_IMPLEMENTED and name in set(named.enabled_names())]


def _build(
    names: set[str], profile: KubeSchedulerProfile, handle: Handle, extra_plugins: Sequence[ExtraPlugin]
) -> dict[str, Any]:
    """Every plugin that is named and exists, built once."""
    extras: dict[str, ExtraPlugin] = {}
    for extra in extra_plugins:
        if extra.name in PLUGINS or extra.name in extras:
            owner = "an in-tree plugin" if extra.name in PLUGINS else "another one"
            raise PluginLoadError(f"plugin {extra.name!r} has the name of {owner}: give it one of its own")
        extras[extra.name] = extra
    typed = plugin_arguments(profile)
    raw = {config.name: config.args for config in profile.pluginConfig}
    built: dict[str, Any] = {}
    for name in names:
        if name in extras:
            built[name] = _instance(extras[name], name, handle, raw.get(name))
        elif name in PLUGINS and (factory := PLUGINS[name].factory) is not None:
            arguments = {"args": typed[name]} if name in typed else {}
            built[name] = factory(**arguments, **_handle_for(factory, handle))
    return built


def _instance(extra: ExtraPlugin, name: str, handle: Handle, raw: Mapping[str, Any] | None) -> Any:
    if not isinstance(extra, type):
        if raw:
            raise PluginLoadError(f"plugin {name!r} takes no arguments, but pluginConfig has some for it")
        return extra
    accepted = inspect.signature(extra).parameters
    arguments: dict[str, Any] = {}
    if extra.arguments is not None:
        arguments["args"] = convert(raw or {}, extra.arguments, f"pluginConfig[{name}].args")
    elif raw:
        raise PluginLoadError(
            f"plugin {name!r} takes no arguments, but pluginConfig has some for it: set `arguments` of its class to "
            "their type"
        )
    arguments |= _handle_for(extra, handle)
    for parameter in accepted.values():
        needed = parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        }
        if needed and parameter.name not in arguments:
            raise PluginLoadError(
                f"plugin {name!r}: __init__ wants an argument {parameter.name!r}; it may have `args` (with `arguments` "
                "set on the class) and `handle`"
            )
    try:
        return extra(**arguments)
    except ConfigurationError:
        raise
    except Exception as error:  # a plugin of the user's may raise anything, and that is its own fault
        raise PluginLoadError(f"plugin {name!r} failed to start: {type(error).__name__}: {error}") from error


def _handle_for(factory: type[Any], handle: Handle) -> dict[str, Handle]:
    return {"handle": handle} if "handle" in inspect.signature(factory).parameters else {}


def _class_takes_part(plugin: ExtraPlugin, point: Point) -> bool:
    cls = plugin if isinstance(plugin, type) else type(plugin)
    return any(issubclass(cls, form) for form in FORMS[point])


def _weight(plugin: ExtraPlugin) -> int:
    return int(getattr(plugin, "weight", 0))


def _names(plugins: Sequence[Any]) -> str:
    return ", ".join(plugin.name for plugin in plugins) or "none"
