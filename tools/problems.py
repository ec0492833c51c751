"""What stops a tool, said in one line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click


class Problem(click.ClickException):
    """Ends a command with one line and status 1."""

    def show(self, file: object = None) -> None:
        """Print the line."""
        click.echo(self.format_message(), err=True)


def output(
    command: Sequence[str | Path], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Return what a program prints. Its last line on standard error says what failed."""
    done = _run(command, cwd, environment)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1]
        raise Problem(f"{Path(command[0]).name} {command[1] if len(command) > 1 else ''}: {said}")
    return done.stdout


def _run(
    command: Sequence[str | Path], cwd: Path | None, environment: Mapping[str, str] | None
) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        raise Problem(f"needs {command[0]}, which isn't on the PATH")
    return subprocess.run(  # noqa: S603 - the commands are those of the tools
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
