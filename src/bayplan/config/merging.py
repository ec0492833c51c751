"""Which plugins are asked at which point: the default plugins, what a profile changes of them, and multiPoint.

Mirrors mergePlugins (apis/config/v1/default_plugins.go), and updatePluginList, expandMultiPointPlugins and
getValidScoreWeights (framework/runtime/framework.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.field_errors import FieldError
from bayplan.config.errors import ConfigurationError
from bayplan.config.types import PluginReference, Plugins, PluginSet
from bayplan.framework.profile import Point, takes_part
from bayplan.plugins.registry import DEFAULT_PLUGINS, NOT_IMPLEMENTED

ALL = "*"


def effective_sets(custom: Plugins) -> Plugins:
    """What a profile says, merged into the default plugins, which all come by multiPoint."""
    merged = Plugins(**{name: _merge(PluginSet(), getattr(custom, name)) for name in custom.__struct_fields__})
    defaults = PluginSet([PluginReference(entry.name, entry.weight) for entry in DEFAULT_PLUGINS])
    merged.multiPoint = _merge(defaults, custom.multiPoint)
    return merged


def plugins_by_point(sets: Plugins, built: Mapping[str, Any]) -> dict[Point, list[Any]]:
    """The plugins asked at every point, in order. Raises ConfigurationError."""
    return {point: [built[name] for name in _names_at(point, sets, built)] for point in Point}


def score_weights(sets: Plugins, built: Mapping[str, Any]) -> dict[str, int]:
    """The weights of the plugins that score; what is said at the point itself goes before multiPoint."""
    weights: dict[str, int] = {}
    for reference in (*sets.score.enabled, *sets.multiPoint.enabled):
        plugin = built.get(reference.name)
        if plugin is None or not takes_part(plugin, Point.SCORE) or reference.name in weights:
            continue
        if reference.weight < 0:
            raise _fault("plugins.score", f"the weight of {reference.name} is negative")
        weights[reference.name] = reference.weight or 1
    return weights


def _merge(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Default plugins that are not disabled, in their order but as reconfigured; then what else is enabled."""
    disabled = {reference.name for reference in custom.disabled}
    enabled_by_name = {reference.name: reference for reference in custom.enabled}
    kept = [] if ALL in disabled else [each for each in defaults.enabled if each.name not in disabled]
    replaced = {id(enabled_by_name[each.name]) for each in kept if each.name in enabled_by_name}
    merged = [enabled_by_name.get(each.name, each) for each in kept]
    return PluginSet(merged + [each for each in custom.enabled if id(each) not in replaced], custom.disabled)


def _names_at(point: Point, sets: Plugins, built: Mapping[str, Any]) -> list[str]:
    """Those of multiPoint that the point itself reorders, then the rest of multiPoint, then the rest of the point."""
    path = f"plugins.{point.value}"
    specific: list[str] = []
    for reference in sets.at(point).enabled:
        name = reference.name
        if name in NOT_IMPLEMENTED:
            continue
        if name not in built:
            raise _fault(f"{path}.enabled", f"plugin {name!r} does not exist")
        if not takes_part(built[name], point):
            raise _fault(f"{path}.enabled", f"plugin {name!r} does not take part in this point")
        if name in specific:
            raise _fault(f"{path}.enabled", f"plugin {name!r} is there twice")
        specific.append(name)
    disabled = {reference.name for reference in sets.at(point).disabled}
    if ALL in disabled:
        return specific
    expanded: list[str] = []
    overriding: set[str] = set()
    for reference in sets.multiPoint.enabled:
        name = reference.name
        if name in NOT_IMPLEMENTED:
            continue
        if name not in built:
            raise _fault("plugins.multiPoint.enabled", f"plugin {name!r} does not exist")
        if not takes_part(built[name], point) or name in disabled:
            continue
        if name in specific:
            overriding.add(name)
        elif name in expanded:
            raise _fault("plugins.multiPoint.enabled", f"plugin {name!r} is there twice")
        else:
            expanded.append(name)
    return [
        *(name for name in specific if name in overriding),
        *expanded,
        *(name for name in specific if name not in overriding),
    ]


def _fault(path: str, problem: str) -> ConfigurationError:
    return ConfigurationError([FieldError(path, problem)])
