"""`bayplan capacity`: how many more pods fit."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.answers.insight.asked.capacity import AskCapacity, PodKind
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.given_manifests import documents_in
from bayplan.faces.cli.insight.question_options import manifests_option, question_options

_MOST_COPIES = 10_000
"""The most copies of one sort of pods in a set."""


@click.command()
@manifests_option(
    "The manifests of one kind of pods, and how many copies of it are in a set. May be repeated.",
    "files",
    required=True,
    metavar="PATH[=N]",
)
@click.option("--ratio", metavar="N:M...", help="The copies of each kind in a set, in the order of the files.")
@question_options(AskCapacity)
@yes_option
@cluster_options
def capacity(
    asked: AskedCluster,
    files: tuple[str, ...],
    ratio: str | None,
    most: int | None,
    labels: tuple[str, ...],
    *,
    preempt: bool,
    yes: bool,
) -> None:
    """Show how many more pods of manifests fit, what stops the next one, and on which nodes they are.

    All pods of a file are one copy of it; a workload counts with one replica. Several files are placed in a ratio, as
    in `-f web.yaml=2 -f db.yaml=1`, set by set, until a set does not fit as a whole. Ctrl-C shows what fits so far.
    """
    counted = [_counted(file) for file in files]
    if ratio is not None:
        if any(number is not None for _, number in counted):
            raise click.UsageError("--ratio and PATH=N: expected one of them")
        numbers = _numbers(ratio, len(files))
    else:
        numbers = [1 if number is None else number for _, number in counted]
    kinds = [
        PodKind(objects=list(documents_in(asked, (path,))), copies=number)
        for (path, _), number in zip(counted, numbers, strict=True)
    ]
    question = AskCapacity(kinds=kinds, most=most, preempt=preempt, labels=list(labels))
    answer(asked, question.ask, doing="Placing pods", yes=yes)


def _counted(file: str) -> tuple[str, int | None]:
    """Split PATH=N. A file whose name ends like that is found, too."""
    path, equals, number = file.rpartition("=")
    if not equals or not number.isdecimal() or Path(file).exists():
        return file, None
    if not 0 < int(number) <= _MOST_COPIES:
        raise click.UsageError(f"--filename {file}: expected 1 to {_MOST_COPIES:,} copies in a set")
    return path, int(number)


def _numbers(ratio: str, count: int) -> list[int]:
    parts = ratio.split(":")
    if len(parts) != count or not all(part.isdecimal() and 0 < int(part) <= _MOST_COPIES for part in parts):
        example = ":".join(["2", *["1"] * (count - 1)])
        raise click.UsageError(f"--ratio {ratio}: expected a positive number for each file, as in {example}")
    return [int(part) for part in parts]
