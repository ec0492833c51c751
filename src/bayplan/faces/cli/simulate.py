"""`bayplan simulate`: what a scheduler makes of a history."""

from __future__ import annotations

from contextlib import nullcontext

import click

from bayplan.faces.cli.backtest_options import BacktestOptions, backtest_options, read_simulated
from bayplan.faces.cli.insight.messages import fail
from bayplan.faces.cli.insight.progress import interruptible
from bayplan.faces.cli.shared_options import YAML_FILE, plugin_option
from bayplan.foundations.file_replacement import replacing
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import simulated


@click.command()
@backtest_options
@click.option(
    "--config", type=YAML_FILE, metavar="FILE", help="The KubeSchedulerConfiguration. Default: the default plugins."
)
@plugin_option("Your own plugins: a file, or a module. May be repeated.")
@click.option("--placements", type=click.Path(dir_okay=False), metavar="FILE", help="Write all placements as CSV.")
@click.option("-o", "--output", type=click.Choice(("table", "wide", "json")), default="table", show_default=True)
def simulate(
    asked: BacktestOptions,
    config: str | None,
    plugins: tuple[str, ...],
    placements: str | None,
    output: str,
) -> None:
    """Simulate a scheduler on the load of a history, in virtual time.

    Shows how many nodes there were, how long pods waited, and what was evicted or never placed. It decides exactly as
    `bayplan run`: queue, backoff, preemption, budgets, gangs and volumes included. The same seed gives the same result.
    """
    run = asked.run(read_simulated(config, plugins, asked.version))
    own = [each.name for each in run.scheduler.plugins]
    with interruptible("Simulating") as progress:
        history, ahead = asked.history(run)
        try:
            with nullcontext() if placements is None else replacing(placements, private=True) as file:
                found = asked.limited(
                    lambda tell: simulated.simulated(history, ahead, run, file, tell), own, progress, "the scheduler"
                )
        except OSError as error:
            fail(f"--placements {placements}: {error.strerror or error}")
    asked.show(found, output)
