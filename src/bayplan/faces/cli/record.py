"""`bayplan record`: records what happens in a cluster to a folder."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from bayplan.faces.cli.following import LOOPBACK, check_readable, serving_metrics, stop_signal
from bayplan.faces.cli.insight.cluster_options import kubeconfig_options
from bayplan.faces.cli.insight.messages import errors_reported, fail
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.history import format as history_format
    from bayplan.answers.history import metrics as history_metrics
    from bayplan.answers.history import recording as history_recording
    from bayplan.answers.history import redacting
    from bayplan.core.api import kinds
    from bayplan.running.client import connection


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--redact",
    is_flag=True,
    help="Leave out all that scheduling does not depend on, and replace names, label keys and label values. The key "
    "that makes the names is in a file beside DIR: keep that to yourself.",
)
@click.option("--address", default=LOOPBACK, show_default=True, help="The address of the metrics.")
@click.option("--port", type=click.IntRange(0, 65535), help="Serve metrics at this port. Default: no metrics.")
@kubeconfig_options
def record(
    folder: Path, redact: bool, address: str, port: int | None, kubeconfig: str | None, context: str | None
) -> None:
    """Record what happens in a cluster to DIR, until Ctrl-C.

    The history has pods, nodes and what else a scheduler depends on, and never Secrets or ConfigMaps. The cluster is
    only read, with the role of `bayplan manifests --insight`, whichever scheduler it has. A recording that ended, for
    whatever reason, goes on in the same DIR.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with errors_reported():
        asyncio.run(_record(folder, redact, address, port, kubeconfig, context))


async def _record(
    folder: Path, redact: bool, address: str, port: int | None, kubeconfig: str | None, context: str | None
) -> None:
    stop = stop_signal()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connection.connect(kubeconfig, context))
        server = client.access.server
        history_format.import_pyarrow()
        await check_readable(client, kinds.NODE)
        redaction = redacting.Redactor(redacting.key_beside(folder)) if redact else None
        source = "a redacted cluster" if redact else f"cluster {server}"
        recorder = history_recording.HistoryRecorder(client, folder, source, redaction=redaction)
        if port is not None:
            collector = history_metrics.HistoryCollector(recorder)
            await stack.enter_async_context(serving_metrics(collector, recorder.synced.is_set, address, port))
        recording = asyncio.create_task(recorder.run(), name="record")
        stopped = asyncio.create_task(stop.wait(), name="wait for a signal")
        synced = asyncio.create_task(recorder.synced.wait(), name="wait for the first lists")
        await asyncio.wait((recording, stopped, synced), return_when=asyncio.FIRST_COMPLETED)
        if synced.done():
            click.echo(f"Recording {server} to {folder}. Press Ctrl-C to stop.")
        await asyncio.wait((recording, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in (stopped, synced):
            task.cancel()
        if recording.done():
            recording.result()
        recording.cancel()
        await asyncio.wait((recording,))
    if recorder.problem:
        fail(recorder.problem)
    _report(folder)


def _report(folder: Path) -> None:
    """Say what the manifest says, which needs no memory for the history."""
    manifest = msgspec.json.decode((folder / history_format.MANIFEST).read_bytes(), type=history_format.HistoryManifest)
    assert manifest.begin is not None
    assert manifest.end is not None
    length = timedelta(seconds=int((manifest.end - manifest.begin).total_seconds()))
    click.echo(f"Recorded {manifest.counts.pods:,} pods in {length} to {folder}")
