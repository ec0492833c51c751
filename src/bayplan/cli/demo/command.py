"""`bayplan demo`: the main job on an embedded cluster, to watch."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import signal
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import click
from rich.console import Console, RenderableType

from bayplan.cli.demo import stage
from bayplan.cli.demo.screens import LineScreen, Screen, TableScreen, picture, summary
from bayplan.cli.demo.show import Show, on_stage
from bayplan.client import connect
from bayplan.clock import RunningClock
from bayplan.devcluster.cluster import DevCluster

LIMIT = 14.0
"""Seconds after which what has not come yet will not come, the CronJobs apart."""
CRON_MINUTE = 60.0
"""Seconds of the cluster's clock between two firings of a CronJob."""
FRAME = 0.125
"""Seconds between two looks."""

INTERRUPTED = 130


@click.command()
@click.option("--keep", is_flag=True, help="Stay up afterwards, for kubectl, until Ctrl-C.")
@click.option(
    "--clock-rate",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="How many times as fast as the wall's the cluster's clock runs: CronJobs fire once in its minute.",
)
@click.option(
    "--save-svg",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Draw the last picture to a file.",
)
def demo(keep: bool, clock_rate: float, save_svg: Path | None) -> None:
    """Show the scheduler at work on an embedded cluster of twelve nodes.

    Takes about ten seconds; exits with 0 if all pods went where they should.
    """
    if save_svg is not None and not save_svg.parent.is_dir():
        raise click.BadParameter(f"{save_svg.parent} is no folder", param_hint="--save-svg")
    logging.basicConfig(level=logging.ERROR)
    raise SystemExit(asyncio.run(_demo(clock_rate, keep=keep, svg=save_svg)))


async def _demo(clock_rate: float, *, keep: bool, svg: Path | None) -> int:
    """The exit status: 0 if all went as expected, 1 if not, 130 if somebody stopped it before that was known."""
    stop = asyncio.Event()
    console = _Audience(leaves=stop.set)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    nodes, clock = stage.nodes(), RunningClock(clock_rate)
    async with AsyncExitStack() as stack:
        kubeconfig = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-demo-")), "kubeconfig")
        cluster = await stack.enter_async_context(DevCluster(nodes, clock=clock))
        await cluster.nodes_ready()
        cluster.write_kubeconfig(kubeconfig)
        client = await stack.enter_async_context(connect(kubeconfig))
        show = await stack.enter_async_context(on_stage(client))
        draw = partial(picture, show, nodes, cluster.url, clock)
        with TableScreen(console, draw) if console.is_terminal else LineScreen(console, show) as screen:
            await _play(show, screen, stop, LIMIT + CRON_MINUTE / clock_rate)
        console.print(summary(show))
        if stop.is_set():
            return INTERRUPTED
        if svg is not None:
            _save(svg, draw(), summary(show))
        if keep:
            click.echo(f"export KUBECONFIG={kubeconfig}\n\nkubectl works with this, until Ctrl-C.")
            await stop.wait()
        return 0 if show.succeeded else 1


class _Audience(Console):
    """Standard output; `leaves` is called when nobody reads it any more."""

    def __init__(self, leaves: Callable[[], None]) -> None:
        super().__init__()
        self._leaves = leaves

    def on_broken_pipe(self) -> None:
        """Write no more, and leave the rest to `leaves`: exiting here would tear the cluster's tasks apart."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        self._leaves()


async def _play(show: Show, screen: Screen, stop: asyncio.Event, limit: float) -> None:
    """Play and draw until the show is over, somebody stops it, or it has taken too long."""
    async with asyncio.TaskGroup() as tasks:
        drawing = tasks.create_task(_draw(screen), name="screen")
        stopping = tasks.create_task(stop.wait(), name="stop")
        playing = tasks.create_task(show.play(), name="show")
        await asyncio.wait((playing, stopping), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for task in (drawing, stopping, playing):
            task.cancel()


async def _draw(screen: Screen) -> None:
    while True:
        screen.refresh()
        await asyncio.sleep(FRAME)


def _save(file: Path, *pictures: RenderableType) -> None:
    """Draw pictures as a terminal would show them."""
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print("[bold green]$[/] make demo")
    for one in pictures:
        console.print(one)
    svg = _FONT_FACE.sub("", console.export_svg(title="make demo"))
    try:
        file.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"bayplan demo: {file}: {error.strerror}") from None


_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A font that a picture would fetch from elsewhere."""
