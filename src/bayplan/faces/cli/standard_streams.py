"""How `bayplan` ends after Ctrl-C, or if its output can't be written: with one line, and a status that is no answer.

Commands just print, and do themselves what they know better, such as what to show after Ctrl-C. Imports no slow
modules.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

import click

EXIT_UNWRITTEN = 2
EXIT_INTERRUPTED = 130
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""How a write fails that is no fault of the program; a closed pipe is left to click."""


@contextmanager
def unwritable_output_reported() -> Iterator[None]:
    """End the process with status 2 and one line if a disk is full. What goes to a closed stream (`>&-`) is dropped.

    Characters that can't be encoded are written as escapes.
    """
    nowhere = Path(os.devnull)
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    if isinstance(sys.stdout, TextIOWrapper):  # what a terminal can't show, or half a character of a file, is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        click.echo(f"bayplan: cannot write the output: {error.strerror}", err=True)
        if (stdout := sys.__stdout__) is not None:  # what is left in its buffer can't be written at the end, either
            os.dup2(os.open(nowhere, os.O_WRONLY), stdout.fileno())
        raise SystemExit(EXIT_UNWRITTEN) from None


@contextmanager
def interruption_reported() -> Iterator[None]:
    """End the process with status 130 after Ctrl-C: 1 is an answer of some commands."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None
