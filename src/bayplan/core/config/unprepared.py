"""Warnings about plugins that are enabled without the PreFilter that they need.

kube-scheduler accepts such a profile, and all its attempts fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.catalog import Catalog
from bayplan.core.config.planning import plan_profile
from bayplan.core.config.types import KubeSchedulerConfiguration
from bayplan.core.framework.profile import Point

_NEED_PRE_FILTER: Mapping[Point, frozenset[str]] = {
    Point.FILTER: frozenset(
        {
            "DynamicResources",
            "InterPodAffinity",
            "NodeResourcesFit",
            "PodTopologySpread",
            "VolumeBinding",
            "VolumeRestrictions",
        }
    ),
    Point.RESERVE: frozenset({"DynamicResources", "VolumeBinding"}),
}
"""extension point -> the plugins that fail there unless their PreFilter ran"""


def unprepared_plugins(configuration: KubeSchedulerConfiguration, catalog: Catalog) -> Iterator[FieldError]:
    """Yield one warning for each profile and extension point whose plugins fail for lack of their PreFilter."""
    for index, profile in enumerate(configuration.profiles):
        points = plan_profile(profile, catalog)[0].points
        prepared = set(points[Point.PRE_FILTER])
        for point, needing in _NEED_PRE_FILTER.items():
            failing = [name for name in points[point] if name in needing and name not in prepared]
            if failing:
                yield FieldError(
                    f"profiles[{index}].plugins.preFilter",
                    f"every pod that reaches {point.value} fails: {', '.join(failing)} cannot run there without "
                    f"preFilter; disable the same plugins in {point.value}",
                )
