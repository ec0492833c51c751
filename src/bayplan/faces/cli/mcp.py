"""`bayplan mcp`: answers questions about a cluster, which it only reads, as tools for assistants."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from bayplan.faces.cli.following import ListeningOptions, followed_source, serving_options, stop_signal
from bayplan.faces.cli.insight.follow_options import Followed, follow_options
from bayplan.faces.cli.insight.messages import errors_reported, fail
from bayplan.faces.cli.shared_options import FilesOfKind
from bayplan.foundations.lazy import library, on_use

with on_use():
    from bayplan.answers.backtest import errors
    from bayplan.faces.asking import asking, running, served_questions
    from bayplan.faces.assistants import http, recordings, server


if TYPE_CHECKING:
    from bayplan.faces.asking.served_questions import PastQuestions

Command = Callable[..., Any]


def _with_streams(command: Command) -> Command:
    """Give a command standard input and output as `streams`, unless it has --http.

    Plugins then read nothing, and what they print goes to stderr.
    """

    @functools.wraps(command)
    def call(*, http: bool, **arguments: Any) -> Any:
        if http:
            return command(http=http, streams=None, **arguments)
        sys.stdout.flush()
        with (
            os.fdopen(os.dup(_STDIN), encoding="utf-8", errors="surrogateescape") as requests,
            os.fdopen(os.dup(_STDOUT), "w", encoding="utf-8") as answers,
            Path(os.devnull).open(encoding="utf-8") as nothing,
        ):
            os.dup2(nothing.fileno(), _STDIN)
            os.dup2(_STDERR, _STDOUT)
            try:
                return command(http=http, streams=(requests, answers), **arguments)
            finally:
                sys.stdout.flush()
                os.dup2(requests.fileno(), _STDIN)
                os.dup2(answers.fileno(), _STDOUT)

    return call


_STDIN, _STDOUT, _STDERR = 0, 1, 2
_Streams = tuple[TextIO, TextIO]
"""Where requests are read, and where answers are written."""


@click.command()
@click.option("--http", is_flag=True, help="Listen on a port, in place of standard input and output.")
@serving_options
@click.option(
    "--recording",
    type=FilesOfKind("path", ""),
    metavar="PATH",
    default="",
    help="What `bayplan run --record` wrote, for why and replay. --plugin names the plugins that were recorded, too.",
)
@_with_streams
@follow_options
def mcp(followed: Followed, streams: _Streams | None, http: bool, serving: ListeningOptions, recording: str) -> None:
    """Answer questions about a cluster as tools for assistants, by the Model Context Protocol.

    An assistant starts this command, and talks to it by standard input and output. With --http, the command listens
    on a port: requests must have the printed token, as in `Authorization: Bearer TOKEN`. The server follows the
    cluster, or the file of --from. It only reads.
    """
    _need_extra()
    if not http and followed.source.path == "-":
        raise click.UsageError("--from -: the assistant uses standard input; use a file")
    if not http and serving.token_file is not None:
        raise click.UsageError("--token-file is for --http")
    logging.basicConfig(level=logging.ERROR)
    token = serving.token() if http else ""
    asyncio.run(_mcp(followed, serving, recording, streams or token))


def _need_extra() -> None:
    """End the process with status 2 if the SDK is not installed."""
    try:
        library("mcp")
    except ImportError as error:
        fail(f"assistants need {error.name}: pip install 'bayplan[mcp]'")


async def _mcp(followed: Followed, serving: ListeningOptions, recording: str, where: _Streams | str) -> None:
    """Answer on streams, or at a port to requests with a token."""
    answering = followed.insight()
    async with AsyncExitStack() as stack:
        kept = _kept(followed, serving, recording)
        for each in kept:
            stack.callback(each.close)
        source = await followed_source(followed, answering, stack)
        thread = asking.Asking(source, answering, serving.longest)
        assistants = server.AssistantServer(served_questions.ServedQuestions(thread, *kept), source.snapshot().source)
        if isinstance(where, str):
            served = http.serving(assistants, thread, address=serving.address, port=serving.port, token=where)
            await serving.until(stop_signal(), served)
            return
        await stack.enter_async_context(running.following(thread))
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing can end the thread that waits for input
        await assistants.run_on_stdio(*where)


def _kept(followed: Followed, serving: ListeningOptions, recording: str) -> list[PastQuestions]:
    """The questions about a history and a recording. Ends the process with status 2 if these can't be read."""
    kept: list[PastQuestions] = []
    moment = followed.moment
    recording = recording or (moment.path if moment is not None and moment.recorded else "")
    try:
        with errors_reported():
            if serving.history:
                history = served_questions.HistoryQuestions(serving.history, followed.insight(), serving.longest)
                kept.append(history)
            if recording:
                references, answering = followed.references, followed.insight()
                kept.append(recordings.RecordingQuestions(recording, references, answering, serving.longest))
    except errors.BacktestError as error:
        fail(str(error))
    return kept
