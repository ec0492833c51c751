"""What a cluster in memory is scheduled with where nothing says it: its configuration and its feature gates.

Snapshots don't have the scheduler's configuration. Questions use this one unless the user gives another.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.core.config import Catalog, ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.config.profiles import profile_of_all
from bayplan.core.config.types import DEFAULT_SCHEDULER_NAME, OUR_SCHEDULER_NAME
from bayplan.core.versions import DEFAULT_GATES, FeatureGates, with_gangs

USUAL_GATES = with_gangs(DEFAULT_GATES)
"""What is on in a world for which nothing says it. Gangs need a PodGroup, and clusters without the gate have none."""

SERVED_NAMES = (DEFAULT_SCHEDULER_NAME, OUR_SCHEDULER_NAME)
"""The names of schedulers that a world without a configuration decides for."""


def usual_configuration(
    plugins: Sequence[ExtraPlugin], gates: FeatureGates = USUAL_GATES, names: Sequence[str] = ()
) -> KubeSchedulerConfiguration:
    """The configuration of a world without one: the default plugins and `plugins`, under SERVED_NAMES and `names`.

    Raises PluginLoadError.
    """
    catalog = Catalog(plugins, gates)
    served = dict.fromkeys((*SERVED_NAMES, *names))
    return KubeSchedulerConfiguration(profiles=[profile_of_all(name, catalog) for name in served])
