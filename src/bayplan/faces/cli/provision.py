"""`bayplan provision`: answers provisioning requests beside another scheduler."""

from __future__ import annotations

from typing import Any

import click

from bayplan.faces.cli.dump_signal import DumpSignal
from bayplan.faces.cli.provisioning_options import provisioning_class_option, provisioning_of
from bayplan.faces.cli.run_logging import DEBUG_LEVEL, INFO_LEVEL, TEXT, configure_logging
from bayplan.faces.cli.run_options import RunCommand, kube_scheduler_flags
from bayplan.faces.cli.shared_options import plugin_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.faces.cli import run_scheduler

LEASE = "bayplan-provision"
"""The lease by which replicas elect a leader, whatever lease the configuration of the scheduler names."""


@click.command(cls=RunCommand)
@click.option("--context", help="Context of the kubeconfig. Default: the current context.")
@plugin_option("Your own plugins, as the scheduler has them. May be repeated.")
@provisioning_class_option
@click.option("-v", "--verbose", "verbosity", count=True, help="Log what happens to each request; -vv also logs why.")
@kube_scheduler_flags
def provision(
    context: str | None, plugins: tuple[str, ...], provisioning_classes: tuple[str, ...], verbosity: int, **flags: Any
) -> None:
    """Answer ProvisioningRequests beside the scheduler of a cluster, and place no pods.

    Give it the configuration of the scheduler with --config: it decides with the same profiles and plugins.

    The room of one request counts as taken for the others, but the scheduler doesn't know of it. `bayplan run
    --provisioning-requests` keeps it free of other pods, too.
    """
    with DumpSignal() as dump_signal:
        form = flags["logging_format"] or TEXT
        configure_logging(max(flags["v"] or 0, {0: 0, 1: INFO_LEVEL}.get(verbosity, DEBUG_LEVEL)), form)
        name = None if flags["config"] else "default-scheduler"
        flags["leader_elect_resource_name"] = flags["leader_elect_resource_name"] or LEASE
        requests = provisioning_of(provisioning_classes, alone=True)
        options = run_scheduler.RunOptions(name, context, provisioning=requests)
        run_scheduler.run_scheduler(flags, plugins, options, dump_signal)
