"""Warnings about settings that differ from their default but have no effect.

Settings with their default value are ignored, because generated files contain all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.catalog import Catalog
from bayplan.core.config.decoding import decode
from bayplan.core.config.merging import ALL, SCORING, default_set, effective_sets, effective_weight
from bayplan.core.config.planning import plan_profile, unknown
from bayplan.core.config.types import (
    MULTI_POINT,
    PROTOBUF,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    Plugins,
    PluginSet,
)
from bayplan.core.framework.profile import Point
from bayplan.core.plugins.registry import PLUGINS

JSON = "application/json"


def ineffective_settings(
    configuration: KubeSchedulerConfiguration, catalog: Catalog, is_given: Callable[[str], bool] = lambda _: False
) -> Iterator[FieldError]:
    """The settings of a valid configuration that have no effect, with the reasons.

    `is_given` says whether the document has a path, which tells a weight of 0 from none.
    """
    if configuration.parallelism != KubeSchedulerConfiguration().parallelism:
        yield _no_effect("parallelism", "all nodes are evaluated at once")
    connection = configuration.clientConnection
    if connection.contentType not in {PROTOBUF, JSON}:
        yield _no_effect("clientConnection.contentType", "Bayplan always uses JSON")
    if connection.acceptContentTypes and JSON not in connection.acceptContentTypes:
        yield _no_effect("clientConnection.acceptContentTypes", "Bayplan always uses JSON")
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}]"
        yield from _plugins(profile, f"{path}.plugins", catalog, is_given)
        names = set(plan_profile(profile, catalog)[0].names())
        for position, config in enumerate(profile.pluginConfig):
            yield from _arguments(config, f"{path}.pluginConfig[{position}]", names, catalog)


def _plugins(
    profile: KubeSchedulerProfile, path: str, catalog: Catalog, is_given: Callable[[str], bool]
) -> Iterator[FieldError]:
    by_default = {reference.name for reference in default_set(catalog).enabled}
    multi = {reference.name for reference in effective_sets(profile.plugins, catalog).multiPoint.enabled}
    missing: set[str] = set()
    for place in Plugins.__struct_fields__:
        plugins: PluginSet = getattr(profile.plugins, place)
        yield from _enabled(plugins, f"{path}.{place}", place, catalog, is_given)
        for index, reference in enumerate(plugins.disabled):
            if reference.name not in {*catalog.names, ALL}:
                if reference.name in missing:  # one warning is enough for a plugin that doesn't exist
                    continue
                missing.add(reference.name)
            would = by_default if place == MULTI_POINT else multi
            reason = _why_not_disabled(reference.name, place, would, catalog)
            if reason:
                yield _no_effect(f"{path}.{place}.disabled[{index}].name", reason)


def _enabled(
    plugins: PluginSet, path: str, place: str, catalog: Catalog, is_given: Callable[[str], bool]
) -> Iterator[FieldError]:
    for index, reference in enumerate(plugins.enabled):
        name, where = reference.name, f"{path}.enabled[{index}]"
        if not reference.weight and is_given(f"{where}.weight") and effective_weight(reference, place, catalog):
            yield FieldError(f"{where}.weight", "0 means 1: to turn the scores of a plugin off, list it under disabled")
        elif reference.weight and place not in {MULTI_POINT, Point.SCORE.value, Point.PLACEMENT_SCORE.value}:
            yield _no_effect(f"{where}.weight", "a weight is used only in score, placementScore and multiPoint")
        elif reference.weight and not any(catalog.takes_part(name, each) for each in SCORING):
            yield _no_effect(f"{where}.weight", f"plugin {name!r} does not score")


def _why_not_disabled(name: str, place: str, enabled_otherwise: set[str], catalog: Catalog) -> str:
    if name == ALL:
        return ""
    if name not in catalog.names:
        return unknown(name, catalog)
    if name not in enabled_otherwise:
        return f"plugin {name!r} is not enabled by {'default' if place == MULTI_POINT else 'multiPoint'}"
    points = [point.value for point in catalog.points(name)]
    if place != MULTI_POINT and points and place not in points:
        return f"plugin {name!r} does not implement {place}; it implements {', '.join(points)}"
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
    elif name not in enabled and not _is_default(config, catalog):
        yield _no_effect(f"{path}.args", f"plugin {name!r} is not enabled in this profile")


def _is_default(config: PluginConfig, catalog: Catalog) -> bool:
    """Whether the arguments of a plugin equal its default arguments."""
    arguments = catalog.arguments_of(config.name)
    if arguments is None:
        return not config.args
    typed, faults = decode(config.args, arguments)
    default = arguments()
    return (
        not faults
        and typed is not None
        and all(
            getattr(typed, field) == getattr(default, field)
            for field in arguments.__struct_fields__
            if field not in {"apiVersion", "kind"}
        )
    )


def _no_effect(path: str, reason: str) -> FieldError:
    return FieldError(path, f"has no effect: {reason}")
