"""`bayplan ui`: serves a page about a cluster, which it only reads."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.following import (
    address_option,
    followed_source,
    limit_plugins,
    listening,
    port_option,
    stop_signal,
)
from bayplan.faces.cli.insight.cluster_options import version_option
from bayplan.faces.cli.insight.follow_options import Followed, follow_options, settings_option
from bayplan.faces.cli.insight.messages import fail
from bayplan.faces.cli.insight.progress import reporting
from bayplan.foundations.lazy import library, on_use

with on_use():
    from bayplan import insight
    from bayplan.answers.shadow import record
    from bayplan.faces.ui import moments, server, shadow_file


if TYPE_CHECKING:
    from bayplan.faces.asking.sources import Source
    from bayplan.faces.cli.insight.moments import MomentFile
    from bayplan.faces.ui.moments import MomentSources
    from bayplan.faces.ui.shadow_file import ShadowFile


@click.command()
@address_option
@port_option
@version_option
@settings_option
@click.option(
    "--shadow",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also show what a shadow has found: the file of `bayplan shadow --state`, read again when it changes.",
)
@follow_options
def ui(followed: Followed, address: str, port: int, shadow: Path | None) -> None:
    """Serve a page about a cluster: its bay plan, the queue with causes, pods, nodes and what-ifs.

    The page follows the cluster, or the file of --from. If that is a history or a recording, the page goes through it,
    forwards and backwards. It only reads. Open the printed address: it has a token, which every request must have.
    """
    need_extra()
    logging.basicConfig(level=logging.ERROR)
    moments = None if followed.moment is None else _moments(followed, followed.moment)
    asyncio.run(_ui(followed, moments, None if shadow is None else _shadow_file(shadow), address, port))


def need_extra() -> None:
    """End the process with status 2 if the package of the page is not installed."""
    try:
        library("jinja2")
    except ImportError as error:
        fail(f"the page needs {error.name}: pip install 'bayplan[ui]'")


async def _ui(
    followed: Followed, moments: MomentSources | None, shadow: ShadowFile | None, address: str, port: int
) -> None:

    stop = stop_signal()
    answering = followed.insight()
    async with AsyncExitStack() as stack:
        source: Source
        if moments is None:
            source = await followed_source(followed, answering, stack)
        else:
            limit_plugins(followed)
            source = moments.of(moments.first_shown)
            await _check(source)
        with listening(address, port):
            url = await stack.enter_async_context(
                server.serving(source, answering, address=address, port=port, moments=moments, shadow=shadow)
            )
        click.echo(f"{url}\n\nOpen this address in a browser. Press Ctrl-C to stop.")
        await stop.wait()


def _moments(followed: Followed, moment: MomentFile) -> MomentSources:
    """The moments of the history or the recording that the page goes through."""
    with reporting(f"Reading {moment.path}"):
        if moment.recorded:
            recording, number = moment.recording()
            other = followed.other
            compare = None if other is None else partial(moments.compare_recording, recording, other)
            return moments.MomentSources(recording, number, compare=compare)
        history, number = moment.history()
        return moments.MomentSources(history, number, compare=partial(moments.compare_history, history))


def _shadow_file(path: Path) -> ShadowFile:
    """The file of a shadow. Ends the process if it can't be read."""
    file = shadow_file.ShadowFile(path)
    try:
        file.read()
    except record.ShadowFileError as error:
        fail(f"--shadow: {error}")
    return file


async def _check(source: Source) -> None:
    """End the process if the moment that is shown first can't be reached."""
    try:
        await source.ready()
    except insight.QuestionError as error:
        fail(str(error))
