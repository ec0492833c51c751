"""`bayplan demo`: runs the scheduler on an embedded cluster and shows what it does."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import click
from rich.console import Console, RenderableType

from bayplan.faces.cli.demo import stage
from bayplan.faces.cli.demo.screens import LineScreen, Screen, TableScreen, picture, summary
from bayplan.faces.cli.demo.show import Show, running_show
from bayplan.faces.cli.following import stop_signal
from bayplan.faces.cli.ui import need_extra
from bayplan.foundations.clock import RunningClock
from bayplan.foundations.file_replacement import replace_text
from bayplan.foundations.lazy import on_use
from bayplan.running.client.connection import connect
from bayplan_devcluster.cluster import DevCluster

with on_use():
    from bayplan.faces.cli.demo import page


LIMIT = 14.0
"""Seconds after which the demo gives up, without the time for CronJobs."""
CRON_MINUTE = 60.0
"""Seconds of the cluster's clock between two runs of a CronJob."""
FRAME = 0.125
"""Seconds between two updates of the screen."""

INTERRUPTED = 130


@click.command()
@click.option("--keep", is_flag=True, help="Keep the cluster running until Ctrl-C, for kubectl.")
@click.option("--ui", is_flag=True, help="Serve a page about the cluster until Ctrl-C; see bayplan ui.")
@click.option(
    "--clock-rate",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="How many times faster than real time the cluster's clock runs. CronJobs run once per minute of it.",
)
@click.option(
    "--save-svg",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Save the final screen to a file.",
)
def demo(keep: bool, ui: bool, clock_rate: float, save_svg: Path | None) -> None:
    """Run the scheduler on an embedded cluster of twelve nodes and show what it does.

    Takes about ten seconds. The exit status is 0 if all pods are on the expected nodes.
    """
    if save_svg is not None and not save_svg.parent.is_dir():
        raise click.BadParameter(f"{save_svg.parent} is not a directory", param_hint="--save-svg")
    if ui:
        need_extra()
    logging.basicConfig(level=logging.ERROR)
    raise SystemExit(asyncio.run(_demo(clock_rate, keep=keep or ui, ui=ui, svg=save_svg)))


async def _demo(clock_rate: float, *, keep: bool, ui: bool, svg: Path | None) -> int:
    """Run the demo and return its exit status: 0 if it succeeds, 1 if not, 130 if it is interrupted."""
    stop = stop_signal()
    console = _Output(closed=stop.set)
    nodes, clock = stage.nodes(), RunningClock(clock_rate)
    console.print(f"Starting a cluster of {len(nodes)} simulated nodes ...", style="dim")
    async with AsyncExitStack() as stack:
        kubeconfig = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-demo-")), "kubeconfig")
        cluster = await stack.enter_async_context(DevCluster(nodes, clock=clock))
        await cluster.nodes_ready()
        cluster.write_kubeconfig(kubeconfig)
        client = await stack.enter_async_context(connect(kubeconfig))
        if ui:
            console.print(
                f"Open {await stack.enter_async_context(page.serving_page(client))}", soft_wrap=True, highlight=False
            )
        show = await stack.enter_async_context(running_show(client))
        draw = partial(picture, show, nodes, cluster.url, clock)
        with TableScreen(console, draw) if console.is_terminal else LineScreen(console, show) as screen:
            await _play(show, screen, stop, LIMIT + CRON_MINUTE / clock_rate)
        console.print(summary(show))
        if stop.is_set():
            return INTERRUPTED
        if not keep:
            console.print(_next_commands(), soft_wrap=True, markup=False)
        if svg is not None:
            _save(svg, draw(), summary(show))
        if keep:
            click.echo(f"export KUBECONFIG={kubeconfig}\n\nUse kubectl with this kubeconfig. Press Ctrl-C to stop.")
            await stop.wait()
        return 0 if show.succeeded else 1


def _program() -> str:
    """How to start Bayplan from this directory, as it was started now."""
    if shutil.which("bayplan"):
        return "bayplan"
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{os.path.relpath(sys.executable)} -m bayplan"
    return os.path.relpath(sys.argv[0])


def _next_commands() -> str:
    """Commands to try after the demo."""
    program = _program()
    commands = {
        "cluster --scheduler": "a cluster with a scheduler, for kubectl",
        "demo --keep": "the cluster of this demo, for kubectl",
        "demo --ui": "this demo on a page in the browser",
        "new my-scheduler": "a project for your own plugins",
    }
    lines = (f"  {program} {command}    # {what}" for command, what in commands.items())
    return "\n".join(["Try next:", "", *lines])


class _Output(Console):
    """Standard output. Calls `closed` when its reader has closed the pipe."""

    def __init__(self, closed: Callable[[], None]) -> None:
        super().__init__()
        self._closed = closed

    def on_broken_pipe(self) -> None:
        """Stop writing and call `closed`. Exiting here would interrupt the cluster's tasks."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        self._closed()


async def _play(show: Show, screen: Screen, stop: asyncio.Event, limit: float) -> None:
    """Run and draw the show until it ends, is stopped, or exceeds the time limit."""
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
    """Save pictures as a terminal would show them."""
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print("[bold green]$[/] make demo")
    for one in pictures:
        console.print(one)
    svg = _FONT_FACE.sub("", console.export_svg(title="make demo"))
    try:
        replace_text(file, svg)
    except OSError as error:
        raise SystemExit(f"bayplan demo: {file}: {error.strerror}") from None


_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A font that viewers would download."""
