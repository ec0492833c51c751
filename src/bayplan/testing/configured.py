"""The profiles that a test's cluster decides with: the default plugins and some more, or what a configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayplan.config import ExtraPlugin, build_profiles, default_profile, load_configuration
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Profile

DEFAULT_SCHEDULER = "default-scheduler"
"""What pods ask for that say nothing."""


def configured_profiles(
    handle: Handle,
    plugins: Sequence[ExtraPlugin],
    configuration: str | Path | None = None,
    scheduler_name: str = DEFAULT_SCHEDULER,
) -> dict[str, Profile]:
    """By scheduler name. `configuration` is a file, and `plugins` are then those that it may name.

    Raises ConfigurationError and PluginLoadError.
    """
    if configuration is None:
        return {scheduler_name: default_profile(scheduler_name, handle, plugins)}
    return build_profiles(load_configuration(Path(configuration)), handle, plugins)
