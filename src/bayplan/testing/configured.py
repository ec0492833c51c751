"""The profiles of a test's cluster: the default plugins and additional ones, or the profiles of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayplan.core.config import ExtraPlugin, build_profiles, default_profile, load_configuration
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Profile
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler name of pods that have none."""


def configured_profiles(
    handle: Handle,
    plugins: Sequence[ExtraPlugin],
    configuration: str | Path | None = None,
    scheduler_name: str = DEFAULT_SCHEDULER,
    gates: FeatureGates = DEFAULT_GATES,
) -> dict[str, Profile]:
    """Return profiles by scheduler name. If there is a `configuration` (a file), `plugins` are available to it.

    Raises ConfigurationError and PluginLoadError.
    """
    if configuration is None:
        return {scheduler_name: default_profile(scheduler_name, handle, plugins, gates)}
    return build_profiles(load_configuration(Path(configuration), gates), handle, plugins, gates)
