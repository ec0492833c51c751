"""`bayplan snapshot`: saves what a scheduler knows of a cluster to a file."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.faces.cli.insight.cluster_options import SourceOptions, moment_of, source_options
from bayplan.faces.cli.insight.messages import errors_reported


@click.command()
@click.argument("file", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--redact",
    is_flag=True,
    help="Leave out environment variables, annotations, arguments, commands and all that scheduling does not depend "
    "on, and replace names, label keys and label values. Decisions stay the same.",
)
@click.option(
    "--at",
    metavar="MOMENT",
    help="With --from and a recording of `bayplan run --record`, or a history: the moment, as in 03:12 (UTC). "
    "Default: its end.",
)
@source_options
def snapshot(source: SourceOptions, file: Path, redact: bool, at: str | None) -> None:
    """Save what a scheduler knows of a cluster to PATH, for `--from PATH`.

    The file never has Secrets or ConfigMaps. The cluster is only read.
    """
    moment = moment_of(source, at, ())
    with errors_reported():
        found = source.read() if moment is None else moment.read()
    found.save(file, redact=redact)
    size = file.stat().st_size / 1e6
    click.echo(f"Saved {len(found):,} objects of {found.source} to {file} ({size:.1f} MB)")
