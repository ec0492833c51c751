"""The options that the commands share which follow a cluster: where it is read, how its scheduler is configured.

@click.command()
@follow_options
def ui(followed: Followed) -> None: ...

Imports no slow modules, so that help and completion are fast.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bayplan.faces.cli.insight.cluster_options import (
    AT,
    SCHEDULER,
    SOURCE,
    Command,
    SourceOptions,
    moment_of,
    source_of,
    with_options,
)
from bayplan.faces.cli.insight.given_scheduler import read_scheduler, read_version, with_names
from bayplan.faces.cli.insight.messages import errors_reported, fail
from bayplan.faces.cli.shared_options import memory_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight
    from bayplan.answers.backtest import errors
    from bayplan.answers.backtest import settings as scheduler_settings
    from bayplan.answers.replay import policies
    from bayplan.answers.simulation import usual
    from bayplan.core import versions


if TYPE_CHECKING:
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.replay.policies import Policy
    from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
    from bayplan.core.versions import FeatureGates
    from bayplan.faces.cli.insight.moments import MomentFile

settings_option = click.option(
    "--set",
    "settings",
    metavar="SETTING",
    multiple=True,
    help="A setting of the scheduler: [PROFILE/]PLUGIN.ARGUMENT=VALUE, PLUGIN.weight=N, PLUGIN.enabled=false or "
    "FIELD=VALUE. May be repeated.",
)
"""An option that `follow_options` takes into account, as it does `version_option`."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The shared options of a command that follows a cluster, after reading the configuration."""

    source: SourceOptions
    configuration: KubeSchedulerConfiguration | None
    """As in `AskedCluster`."""
    plugins: Sequence[ExtraPlugin]
    seed: int
    gates: FeatureGates | None = None
    """The version of Kubernetes to decide as; None for the cluster's."""
    moment: MomentFile | None = None
    """The moment of a recording or a history, if that is the source."""
    other: Policy | None = None
    """With a recording: what the user gave, to be compared with what was recorded."""
    references: tuple[str, ...] = ()
    """What the user names with `--plugin`."""
    memory: int = 0
    """The most MiB that a server with plugins of the user takes beyond what it has at its start."""

    def insight(self) -> Insight:
        """An Insight with the scheduler, and no cluster yet."""
        return insight.Insight(insight.Snapshot(), self.configuration, self.plugins, seed=self.seed, gates=self.gates)


def follow_options(command: Command) -> Command:
    """Add the options of the source and the scheduler. The command's first argument is the `Followed`.

    If the command has `version_option` and `settings_option`, they count, and it doesn't get them.
    """

    @functools.wraps(command)
    def call(
        kubeconfig: str | None,
        context: str | None,
        path: str | None,
        at: str | None,
        config: str | None,
        plugins: tuple[str, ...],
        names: tuple[str, ...],
        seed: int,
        memory: int,
        version: str | None = None,
        settings: tuple[str, ...] = (),
        **others: Any,
    ) -> Any:
        with errors_reported():
            source = source_of(kubeconfig, context, path)
            chosen = None if version is None else read_version(version)
            gates = None if chosen is None else versions.with_gangs(versions.gates_of(chosen))
            moment = moment_of(source, at, plugins)
            recorded = None if moment is None else moment.policy()
            references = plugins if moment is None else moment.other_plugins()
            beside = () if recorded is None else recorded.plugins
            scheduler = read_scheduler(config, references, names, chosen, beside)
            scheduler = with_names(scheduler, names, gates or usual.USUAL_GATES)
            if recorded is None:
                configured = _with_settings(scheduler, settings, gates or usual.USUAL_GATES)
                followed = Followed(source, *configured, seed, gates, moment, references=plugins, memory=memory)
                return command(followed, **others)
            policy, given = recorded, scheduler != (None, ()) or gates is not None
            if given or settings:
                policy = changed_policy(recorded, scheduler if given else None, settings, gates)
            other = policy if given or settings else None
            followed = Followed(
                source, policy.configuration, policy.plugins, seed, policy.gates, moment, other, plugins, memory
            )
            return command(followed, **others)

    return with_options(call, (*SOURCE, AT, *SCHEDULER, _MEMORY))


_MEMORY = memory_option("The most memory that a server with your own plugins may take beyond what it has at its start.")


_Scheduler = tuple["KubeSchedulerConfiguration | None", "Sequence[ExtraPlugin]"]


def _with_settings(scheduler: _Scheduler, settings: Sequence[str], gates: FeatureGates) -> _Scheduler:
    """A scheduler with settings. Ends the process with status 2 for bad ones."""
    if not settings:
        return scheduler

    configuration, plugins = scheduler
    try:
        return scheduler_settings.with_settings(configuration, plugins, settings, gates), plugins
    except errors.BacktestError as error:
        fail(str(error))


def changed_policy(
    recorded: Policy, given: _Scheduler | None, settings: Sequence[str], gates: FeatureGates | None
) -> Policy:
    """What the user gave, in place of a recorded policy."""
    base = recorded if given is None else policies.other_policy(recorded, *given, gates)
    configuration, plugins = _with_settings((base.configuration, base.plugins), settings, base.gates)
    return policies.Policy(configuration or base.configuration, plugins, base.gates)
