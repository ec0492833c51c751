"""Which plugins run at each extension point: the default plugins, the changes of a profile, and multiPoint.

Mirrors mergePlugins (apis/config/v1/default_plugins.go), and updatePluginList, expandMultiPointPlugins and
getValidScoreWeights (framework/runtime/framework.go). `planning` reports errors in a profile.
"""

from __future__ import annotations

from bayplan.core.config.catalog import PREEMPTION, PREEMPTS_FOR_GROUPS, Catalog
from bayplan.core.config.types import MULTI_POINT, PluginReference, Plugins, PluginSet
from bayplan.core.framework.profile import Point

ALL = "*"


def effective_sets(custom: Plugins, catalog: Catalog) -> Plugins:
    """The plugins of a profile, merged into the default plugins, which are in multiPoint."""
    merged = Plugins(**{name: _merge(PluginSet(), getattr(custom, name)) for name in custom.__struct_fields__})
    merged.multiPoint = _merge(default_set(catalog), custom.multiPoint)
    if _groups_do_not_preempt(custom.podGroupPostFilter):
        kept = [each for each in merged.multiPoint.enabled if each.name != PREEMPTS_FOR_GROUPS]
        merged.multiPoint = PluginSet(kept, merged.multiPoint.disabled)
    return merged


def _groups_do_not_preempt(custom: PluginSet) -> bool:
    """Whether podGroupPostFilter disables Kubernetes' plugin, whose part Bayplan's plugin for whole groups takes."""
    enabled, disabled = ({each.name for each in references} for references in (custom.enabled, custom.disabled))
    return bool(disabled & {ALL, PREEMPTION}) and PREEMPTION not in enabled


def default_set(catalog: Catalog) -> PluginSet:
    """The default value of multiPoint."""
    return PluginSet([PluginReference(entry.name, entry.weight) for entry in catalog.defaults])


def names_at(point: Point, sets: Plugins, catalog: Catalog) -> list[str]:
    """The plugins of an extension point in order.

    Plugins of multiPoint that the point also lists come first, in the point's order; then the rest of multiPoint, then
    the rest of the point.
    """
    specific = _taking_part(sets.at(point), point, catalog)
    disabled = {reference.name for reference in sets.at(point).disabled}
    if ALL in disabled:
        return specific
    multi = [name for name in _taking_part(sets.multiPoint, point, catalog) if name not in disabled]
    return [
        *(name for name in specific if name in multi),
        *(name for name in multi if name not in specific),
        *(name for name in specific if name not in multi),
    ]


SCORING = (Point.SCORE, Point.PLACEMENT_SCORE)


def effective_weight(reference: PluginReference, place: str, catalog: Catalog) -> int:
    """The weight that a plugin has where it is enabled: at least 1 if it scores there.

    Upstream's defaults have weight 0 for plugins whose scores a feature gate turns on. They stay so.
    """
    by_default = place == MULTI_POINT and reference in default_set(catalog).enabled
    scores = any(catalog.takes_part(reference.name, point) for point in SCORING if place in {point.value, MULTI_POINT})
    return reference.weight or int(scores and not by_default)


def score_weights(sets: Plugins, catalog: Catalog, point: Point = Point.SCORE) -> dict[str, int]:
    """The weights of the plugins that score at this point. Weights given at the point override those of multiPoint."""
    weights: dict[str, int] = {}
    for reference in (*sets.at(point).enabled, *sets.multiPoint.enabled):
        if catalog.takes_part(reference.name, point):
            weights.setdefault(reference.name, reference.weight or 1)
    return weights


def _merge(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """The default plugins that aren't disabled, with the weights of the profile; then the profile's other plugins."""
    disabled = {reference.name for reference in custom.disabled}
    enabled_by_name = {reference.name: reference for reference in custom.enabled}
    kept = [] if ALL in disabled else [each for each in defaults.enabled if each.name not in disabled]
    replaced = {id(enabled_by_name[each.name]) for each in kept if each.name in enabled_by_name}
    merged = [enabled_by_name.get(each.name, each) for each in kept]
    return PluginSet(merged + [each for each in custom.enabled if id(each) not in replaced], custom.disabled)


def _taking_part(plugins: PluginSet, point: Point, catalog: Catalog) -> list[str]:
    """The plugins of a set that implement a point, without duplicates."""
    names = dict.fromkeys(reference.name for reference in plugins.enabled)
    return [name for name in names if catalog.takes_part(name, point)]
