"""What commands print to stderr, and the statuses that they exit with: for input that can't be used, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from bayplan.faces.cli.standard_streams import EXIT_INTERRUPTED
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import answers
    from bayplan.faces.cli.insight import bad_input


_MOST_WARNINGS = 40
"""More than there are kinds, so that every missing permission is named."""
EXIT_BAD_INPUT = 2


@contextmanager
def errors_reported() -> Iterator[None]:
    """End the process with status 2 and one message for input that can't be used, and with 130 after Ctrl-C."""
    try:
        yield
    except MemoryError:
        fail("there is not enough memory for this")
    except KeyboardInterrupt:
        _interrupted()
    except Exception as error:
        if isinstance(error, answers.Stopped):  # before the question has begun to note what it knows
            _interrupted()
        if (lines := bad_input.lines_of(error)) is not None:
            click.echo(lines, err=True)
            raise SystemExit(EXIT_BAD_INPUT) from None
        if (message := bad_input.message_of(error)) is None:
            raise
        fail(message)


def _interrupted() -> NoReturn:
    click.echo("interrupted before anything was known", err=True)
    raise SystemExit(EXIT_INTERRUPTED) from None


def warn(messages: Iterable[str]) -> None:
    """Print warnings to stderr, up to `_MOST_WARNINGS` of them."""
    found = list(messages)
    for message in found[:_MOST_WARNINGS]:
        click.echo(f"warning: {message}", err=True)
    if len(found) > _MOST_WARNINGS:
        click.echo(f"warning: and {len(found) - _MOST_WARNINGS:,} more", err=True)


def fail(message: str) -> NoReturn:
    """End the process with status 2 and a message."""
    context = click.get_current_context(silent=True)
    command = context.command_path if context is not None else "bayplan"
    click.echo(f"{command}: {message}", err=True)
    raise SystemExit(EXIT_BAD_INPUT) from None
