"""Settings that differ from their default and change nothing: their author should hear of it.

What is written out but is the default anyway is passed over, for files that somebody had written for him have all.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError
from bayplan.config.catalog import Catalog
from bayplan.config.decoding import decode
from bayplan.config.merging import ALL, default_set, effective_sets
from bayplan.config.planning import plan_profile, unknown
from bayplan.config.types import (
    MULTI_POINT,
    PROTOBUF,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    Plugins,
    PluginSet,
)
from bayplan.framework.profile import Point
from bayplan.plugins.registry import PLUGINS

JSON = "application/json"
_SCORING = (Point.SCORE, Point.PLACEMENT_SCORE)


def ineffective_settings(configuration: KubeSchedulerConfiguration, catalog: Catalog) -> Iterator[FieldError]:
    """Every setting of a (valid) configuration that has no effect, with the reason."""
    if configuration.parallelism != KubeSchedulerConfiguration().parallelism:
        yield _no_effect("parallelism", "a decision looks at all nodes at once")
    connection = configuration.clientConnection
    if connection.contentType not in {PROTOBUF, JSON}:
        yield _no_effect("clientConnection.contentType", "JSON is what goes over the wire")
    if connection.acceptContentTypes and JSON not in connection.acceptContentTypes:
        yield _no_effect("clientConnection.acceptContentTypes", "JSON is what goes over the wire")
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}]"
        yield from _plugins(profile, f"{path}.plugins", catalog)
        names = set(plan_profile(profile, catalog)[0].names())
        for position, config in enumerate(profile.pluginConfig):
            yield from _arguments(config, f"{path}.pluginConfig[{position}]", names, catalog)


def _plugins(profile: KubeSchedulerProfile, path: str, catalog: Catalog) -> Iterator[FieldError]:
    by_default = {reference.name for reference in default_set(catalog).enabled}
    multi = {reference.name for reference in effective_sets(profile.plugins, catalog).multiPoint.enabled}
    for place in Plugins.__struct_fields__:
        plugins: PluginSet = getattr(profile.plugins, place)
        yield from _enabled(plugins, f"{path}.{place}", place, catalog)
        for index, reference in enumerate(plugins.disabled):
            would = by_default if place == MULTI_POINT else multi
            reason = _why_not_disabled(reference.name, place, would, catalog)
            if reason:
                yield _no_effect(f"{path}.{place}.disabled[{index}].name", reason)


def _enabled(plugins: PluginSet, path: str, place: str, catalog: Catalog) -> Iterator[FieldError]:
    for index, reference in enumerate(plugins.enabled):
        name, where = reference.name, f"{path}.enabled[{index}]"
        if reference.weight and place not in {MULTI_POINT, Point.SCORE.value, Point.PLACEMENT_SCORE.value}:
            yield _no_effect(f"{where}.weight", "weights count in score, placementScore and multiPoint")
        elif reference.weight and not any(catalog.takes_part(name, each) for each in _SCORING):
            yield _no_effect(f"{where}.weight", f"plugin {name!r} does not score")


def _why_not_disabled(name: str, place: str, would_be_asked: set[str], catalog: Catalog) -> str:
    if name == ALL:
        return ""
    if name not in catalog.names:
        return unknown(name, catalog)
    if name not in would_be_asked:
        return f"plugin {name!r} is not enabled by {'default' if place == MULTI_POINT else 'multiPoint'}"
    points = [point.value for point in catalog.points(name)]
    if place != MULTI_POINT and points and place not in points:
        return f"plugin {name!r} does not take part in {place}, but in {', '.join(points)}"
    return ""


def _arguments(config: PluginConfig, path: str, enabled: set[str], catalog: Catalog) -> Iterator[FieldError]:
    name = config.name
    if name not in catalog.names:
        yield _no_effect(path, unknown(name, catalog))
        return
    entry = PLUGINS.get(name)
    given = {field: value for field, value in config.args.items() if field not in {"apiVersion", "kind"}}
    if entry is not None and entry.arguments is None and given:
        yield _no_effect(f"{path}.args", f"plugin {name!r} takes no arguments")
    elif name not in enabled and not _is_default(config):
        yield _no_effect(f"{path}.args", f"plugin {name!r} is not enabled in this profile")


def _is_default(config: PluginConfig) -> bool:
    """Whether the arguments of an in-tree plugin say what would be so without them."""
    entry = PLUGINS.get(config.name)
    if entry is None or entry.arguments is None:
        return not config.args
    typed, faults = decode(config.args, entry.arguments)
    default = entry.arguments()
    return (
        not faults
        and typed is not None
        and all(
            getattr(typed, field) == getattr(default, field)
            for field in entry.arguments.__struct_fields__
            if field not in {"apiVersion", "kind"}
        )
    )


def _no_effect(path: str, reason: str) -> FieldError:
    return FieldError(path, f"has no effect: {reason}")
