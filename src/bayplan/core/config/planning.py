"""ProfilePlan: the plan of a profile, made before any plugin is built, and the errors of the profile.

So a configuration is checked as a whole without running the code of any plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.config.catalog import Catalog
from bayplan.core.config.errors import PluginLoadError, unrelated
from bayplan.core.config.former_plugins import REPLACEMENTS
from bayplan.core.config.merging import effective_sets, names_at, score_weights
from bayplan.core.config.origins import KOORDINATOR, SCHEDULER_PLUGINS, is_koordinators, origin_of
from bayplan.core.config.plugin_arguments import own_arguments, plugin_arguments
from bayplan.core.config.types import MULTI_POINT, POD_GROUP_POST_FILTER, KubeSchedulerProfile, Plugins, PluginSet
from bayplan.core.framework.profile import Point


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """The effective plugins of a profile. `weights` are for scoring nodes, `placement_weights` for scoring placements.

    `arguments` are the decoded arguments by plugin.
    """

    scheduler_name: str
    sets: Plugins
    points: Mapping[Point, Sequence[str]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int]
    arguments: Mapping[str, Any]
    percentage: int

    def names(self) -> list[str]:
        """The names of all plugins of the profile, without duplicates."""
        return list(dict.fromkeys(name for names in self.points.values() for name in names))


def plan_profile(
    profile: KubeSchedulerProfile,
    catalog: Catalog,
    path: str = "",
    percentage: int = 0,
    earlier: Sequence[FieldError] = (),
) -> tuple[ProfilePlan, list[FieldError]]:
    """The plan, and the errors in the profile unrelated the `earlier` ones. Without errors, the plan can be built.

    `percentage` is the configuration's percentageOfNodesToScore.
    """
    arguments, faults = plugin_arguments(profile, catalog, path)
    where = field_errors.join(path, "plugins")
    for name in Plugins.__struct_fields__:
        faults += _set_faults(getattr(profile.plugins, name), f"{where}.{name}", name, profile, catalog)
    faults += _unknown_faults(profile, where, catalog)
    sets = effective_sets(profile.plugins, catalog)
    points = {point: names_at(point, sets, catalog) for point in Point}
    names = dict.fromkeys(name for enabled in points.values() for name in enabled)
    seen = {config.name for config in profile.pluginConfig}
    for name in names:
        try:
            other = catalog.other(name)
            found = None if other is None else own_arguments(other, given=name in seen)
        except PluginLoadError as error:
            faults.append(FieldError(place_of(name, profile, path), str(error)))
            continue
        if found is not None:
            arguments[name] = found
    faults = unrelated(earlier, faults)
    blamed = {fault.path for fault in (*earlier, *faults)}
    for point, problem in _missing(points):
        if not any(each.startswith(f"{where}.{point}.") for each in blamed):
            faults.append(FieldError(f"{where}.{point}", problem))
    if profile.percentageOfNodesToScore is not None:
        percentage = profile.percentageOfNodesToScore
    weights = score_weights(sets, catalog)
    placement_weights = score_weights(sets, catalog, Point.PLACEMENT_SCORE)
    return ProfilePlan(profile.schedulerName, sets, points, weights, placement_weights, arguments, percentage), faults


def place_of(name: str, profile: KubeSchedulerProfile, path: str) -> str:
    """The path to blame for a plugin that can't be built: its arguments, or where it is enabled."""
    places = [
        *(f"pluginConfig[{index}].args" for index, each in enumerate(profile.pluginConfig) if each.name == name),
        *(
            f"plugins.{point}.enabled[{index}]"
            for point in Plugins.__struct_fields__
            for index, each in enumerate(getattr(profile.plugins, point).enabled)
            if each.name == name
        ),
    ]
    return field_errors.join(path, places[0]) if places else path


def _set_faults(
    plugins: PluginSet, path: str, place: str, profile: KubeSchedulerProfile, catalog: Catalog
) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for index, reference in enumerate(plugins.enabled):
        where, name = f"{path}.enabled[{index}]", reference.name
        if reference.weight < 0:
            yield field_errors.invalid(f"{where}.weight", reference.weight, "must not be negative")
        if name in seen:
            yield FieldError(f"{where}.name", f"plugin {name!r} is already in this list, as enabled[{seen[name]}]")
        elif _is_unknown(name, profile, catalog):
            pass  # see _unknown_faults
        elif place != MULTI_POINT and not _implements(name, place, catalog):
            points = ", ".join(point.value for point in catalog.points(name))
            yield FieldError(f"{where}.name", f"plugin {name!r} does not implement {place}; it implements {points}")
        seen.setdefault(name, index)


def _unknown_faults(profile: KubeSchedulerProfile, where: str, catalog: Catalog) -> Iterator[FieldError]:
    """One error for each plugin that doesn't exist, at the first place that enables it."""
    places: dict[str, dict[str, str]] = {}
    for place in Plugins.__struct_fields__:
        for index, reference in enumerate(getattr(profile.plugins, place).enabled):
            name = reference.name
            if _is_unknown(name, profile, catalog):
                places.setdefault(name, {}).setdefault(place, f"{where}.{place}.enabled[{index}].name")
    for name, found in places.items():
        (_, first), *others = found.items()
        also = f" (also in {', '.join(place for place, _ in others)})" if others else ""
        yield FieldError(first, f"{_why_missing(name, catalog)}{also}")


def _is_unknown(name: str, profile: KubeSchedulerProfile, catalog: Catalog) -> bool:
    return name not in catalog.names or (name not in catalog.extras and is_koordinators(name, profile))


def _why_missing(name: str, catalog: Catalog) -> str:
    if name in catalog.names:
        return (
            f"plugin {name!r} is {KOORDINATOR}'s here, and Bayplan has that of {SCHEDULER_PLUGINS}, "
            "whose arguments and annotations differ"
        )
    problem = unknown(name, catalog)
    needs_file = problem.endswith("exist") or origin_of(name)
    return f"{problem}: load your own plugin with --plugin FILE" if needs_file else problem


def unknown(name: str, catalog: Catalog) -> str:
    """The message about a plugin that doesn't exist."""
    if name in REPLACEMENTS:
        return f"plugin {name!r} was removed: {REPLACEMENTS[name]}"
    if origin_of(name):
        return f"plugin {name!r} is part of {origin_of(name)}, and not of Bayplan"
    return f"plugin {name!r} does not exist{did_you_mean(name, catalog.names)}"


def _implements(name: str, place: str, catalog: Catalog) -> bool:
    if place == POD_GROUP_POST_FILTER:
        return catalog.preempts_for_groups(name)
    return any(point.value == place and catalog.takes_part(name, point) for point in Point)


def _missing(points: Mapping[Point, Sequence[str]]) -> Iterator[tuple[str, str]]:
    ordering = points[Point.QUEUE_SORT]
    if len(ordering) != 1:
        several = f"but {' and '.join(ordering)} are enabled: disable all but one in queueSort or multiPoint"
        found = several if ordering else "but none is enabled"
        yield Point.QUEUE_SORT.value, f"exactly one plugin must sort the queue, {found}"
    if not points[Point.BIND]:
        yield Point.BIND.value, "at least one plugin must bind"
