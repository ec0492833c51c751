"""`bayplan shadow`: compares the decisions of any scheduler with those that Bayplan would have made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from bayplan.faces.cli.insight.cluster_options import kubeconfig_options, version_option
from bayplan.faces.cli.insight.messages import fail
from bayplan.faces.cli.shared_options import configurations_option, plugin_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.shadow import following, record
    from bayplan.answers.shadow import report as shadow_report
    from bayplan.faces.cli import shadow_running


OUTPUTS = ("auto", "table", "lines", "json")
_SECONDS = click.FloatRange(0, min_open=True)


@click.command()
@click.option(
    "--scheduler-name",
    "names",
    metavar="NAME",
    multiple=True,
    help="The spec.schedulerName of the pods whose scheduler is compared. Default: the profiles of --config, or "
    "default-scheduler. May be repeated.",
)
@configurations_option(
    "The KubeSchedulerConfiguration that Bayplan decides with. Given twice, the first one is that of the "
    "scheduler itself. Default: the default plugins."
)
@click.option(
    "--set",
    "settings",
    metavar="SETTING",
    multiple=True,
    help="A setting that the scheduler itself has: [PROFILE/]PLUGIN.ARGUMENT=VALUE, PLUGIN.weight=N, "
    "PLUGIN.enabled=false, PLUGIN.POINT.enabled=false or FIELD=VALUE. Bayplan decides with it, too, unless --config "
    "says how it decides. May be repeated.",
)
@plugin_option("Your own plugins: a file, or a module. May be repeated.")
@version_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    default="auto",
    show_default=True,
    help="A live table, or a line for each difference. auto: a table in a terminal, lines elsewhere.",
)
@click.option("--all", "every", is_flag=True, help="Print a line for each decision, not only for those that differ.")
@click.option(
    "--report",
    "reports",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    multiple=True,
    help="Write a report every minute and at the end: FILE.html, FILE.json or FILE.parquet. May be repeated.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep what was found in FILE, and go on from there after a restart.",
)
@click.option("--address", default="127.0.0.1", show_default=True, help="The address of the metrics.")
@click.option("--port", type=click.IntRange(0, 65535), help="Serve metrics at this port. Default: no metrics.")
@click.option("--duration", type=_SECONDS, metavar="SECONDS", help="Stop after this time. Default: at Ctrl-C.")
@click.option("--decisions", type=click.IntRange(1), metavar="N", help="Stop after this many decisions.")
@click.option(
    "--at-least",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Exit with status 1 if fewer decisions are equal, or if there are none.",
)
@click.option(
    "--unknown-at-most",
    type=click.IntRange(0),
    metavar="N",
    help="Exit with status 1 if more differences have no known cause.",
)
@kubeconfig_options
def shadow(
    names: tuple[str, ...],
    configs: tuple[str, ...],
    settings: tuple[str, ...],
    plugins: tuple[str, ...],
    version: str | None,
    reports: tuple[Path, ...],
    at_least: float | None,
    unknown_at_most: int | None,
    **others: Any,
) -> None:
    """Compare a scheduler's decisions with those that Bayplan would have made, until Ctrl-C.

    For each pod that the scheduler binds, nominates a node for or finds no node for, this shows what Bayplan would have
    decided just before, and why the two differ. The cluster is only read, with the role of `bayplan manifests
    --shadow`, whichever scheduler it has.
    """
    if len(configs) > 2:
        raise click.UsageError(f"--config: expected at most two configurations, got {len(configs)}")
    for report in reports:
        if problem := shadow_report.check_report_name(report):
            fail(f"--report {problem}")
    compared = shadow_running.read_compared(names, configs, plugins, version, settings)
    run = shadow_running.ShadowRun(compared, shadow_running.ShadowOptions(reports=reports, **others))
    try:
        asyncio.run(run.run())
    except (following.ShadowError, record.ShadowFileError) as error:
        fail(str(error))
    if problem := run.verdict(at_least, unknown_at_most):
        click.echo(f"bayplan shadow: {problem}", err=True)
        raise SystemExit(1)
