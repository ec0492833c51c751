"""The scheduler that a user names with options: its configuration, its plugins, its names and its version.

Bad input ends the process. Imports no slow modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.messages import fail
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.replay import recorded_plugins
    from bayplan.answers.simulation import usual
    from bayplan.core import config as scheduler_config
    from bayplan.core import versions


if TYPE_CHECKING:
    from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
    from bayplan.core.versions import FeatureGates


def read_scheduler(
    config: str | None,
    references: Sequence[str],
    names: Sequence[str] = (),
    version: str | None = None,
    recorded: Sequence[ExtraPlugin] = (),
) -> tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]]:
    """Read a configuration and the user's plugins. Raises ConfigurationError or PluginLoadError.

    `names`: those of the profile of the configuration; without one, see `with_names`. `recorded`: plugins of a
    recording, which the configuration may name, too.
    """
    if config is None and not references:
        return None, ()

    plugins = scheduler_config.load_plugins(references)
    if recorded:
        plugins = recorded_plugins.beside(recorded, plugins)
    if config is None:
        return None, plugins
    reading = scheduler_config.read_configuration(Path(config), plugins, versions.gates_of(version or versions.NEWEST))
    for line in reading.warning_lines():
        click.echo(line, err=True)
    if names:
        rename_profiles(config, reading.configuration, names)
    return reading.configuration, reading.plugins


def with_names(
    scheduler: tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]],
    names: Sequence[str],
    gates: FeatureGates,
) -> tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]]:
    """A scheduler that also answers for the pods of `names`, if it has no configuration of its own.

    `gates`: the version of Kubernetes to decide as, which has its default plugins. Raises PluginLoadError.
    """
    configuration, plugins = scheduler
    if configuration is not None or not names:
        return scheduler

    return usual.usual_configuration(plugins, gates, names), plugins


def read_version(text: str) -> str:
    """The version that the user named. Ends the process with status 2 for one that isn't known."""
    try:
        return versions.emulated_version(text)
    except ValueError as error:
        fail(f"--emulated-version: {error}")


def rename_profiles(config: str, configuration: KubeSchedulerConfiguration, names: Sequence[str]) -> None:
    """Serve the profile of a configuration under other names. As for `bayplan run`, it must have a single one.

    `config`: the file, for the message that ends the process.
    """
    problem = scheduler_config.single_profile_problem(configuration, config)
    if problem:
        fail(problem)
    scheduler_config.rename_profile(configuration, names)
