"""Asks a question for a command, and prints the answer in the format that the user chose."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.cluster_options import AskedCluster
from bayplan.faces.cli.insight.messages import fail, warn
from bayplan.faces.cli.insight.progress import interruptible
from bayplan.faces.cli.standard_streams import EXIT_INTERRUPTED
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight
    from bayplan.answers.insight import answers, limits
    from bayplan.faces.cli.insight import terminal
    from bayplan.foundations import file_replacement


if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Answer, Progress
    from bayplan.answers.insight.insight import Insight

EXIT_NOT_PASSED = 1

yes_option = click.option(
    "--yes", is_flag=True, help="Ask even if the question adds more to the cluster than a typo should."
)
"""The option of commands that add to a cluster: their questions have limits, unless the user confirms."""


def answer(
    asked: AskedCluster,
    ask: Callable[[Insight, Progress, int], Answer],
    *,
    doing: str = "",
    yes: bool = False,
    saved: Iterable[tuple[str, str]] = (),
) -> None:
    """Ask, and print the answer to stdout. The status is 1 if it doesn't pass. `ask`: that of a question.

    `yes`: without the limits of `bayplan.answers.insight.limits`. `doing`: what takes time, for the line of progress,
    if Ctrl-C may end the question early. `saved`: formats, and the files to which the answer is written in these, too.
    A question that can't be answered ends the process with status 2, and an interrupted one with status 130 after what
    is known was printed.
    """
    try:
        answering = insight.Insight(
            asked.snapshot,
            asked.configuration,
            asked.plugins,
            seed=asked.seed,
            limits=limits.UNLIMITED if yes else limits.Limits(),
            gates=asked.gates,
        )
        with interruptible(doing) if doing else nullcontext(answers.silent) as progress:
            found = ask(answering, progress, asked.limit)
    except insight.LimitError as error:
        fail(f"{error}; if that is not a typo, pass --yes")
    except insight.QuestionError as error:
        fail(str(error))
    warn(answering.problems)
    show(found, asked.output)
    for output, file in saved:
        try:
            file_replacement.replace_text(file, f"{_form(found, output)}\n")
        except OSError as error:
            fail(f"--save {output}={file}: {error.strerror or error}")
    if found.interrupted:
        raise SystemExit(EXIT_INTERRUPTED)
    if not found.passes:
        raise SystemExit(EXIT_NOT_PASSED)


def show(found: Answer, output: str) -> None:
    """Print an answer to stdout. `output`: one of `cluster_options.OUTPUTS`, or of the answer's own forms."""
    if output not in {"table", "wide"}:
        text = _form(found, output)
        click.echo(text, nl=bool(text))
    else:
        wide = output == "wide"
        if sys.stdout.isatty():
            terminal.show(found, wide=wide)
        else:
            click.echo(found.text(width=10_000 if wide else 160, wide=wide), nl=False)


def _form(found: Answer, output: str) -> str:
    """An answer in a format that programs read."""
    if output == "json":
        return json.dumps(found.to_dict(), indent=2)
    return found.html(wide=True) if output == "html" else found.forms[output]
