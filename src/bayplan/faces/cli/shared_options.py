"""Options and types of options that several commands share. Imports no slow modules."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

T = TypeVar("T")


class Checked(click.ParamType[T]):
    """What a function makes of the text. It raises ValueError if that can't be used; the text of the error says why."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return what the function returns."""
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class FilesOfKind(click.ParamType[str]):
    """A path. Completion offers directories, and files with certain extensions."""

    def __init__(self, name: str, *endings: str) -> None:
        self.name = name
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path unchanged."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete a path."""
        folder, beginning = os.path.split(incomplete)
        try:
            entries = sorted(Path(folder or ".").expanduser().iterdir())
        except (OSError, RuntimeError):  # RuntimeError: an unknown home directory
            return []
        found = [entry for entry in entries if entry.name.startswith(beginning)]
        return [
            CompletionItem(os.path.join(folder, entry.name) + ("/" if entry.is_dir() else ""))  # noqa: PTH118 - as typed
            for entry in found
            if (entry.is_dir() or entry.name.endswith(self.endings))
            and (beginning.startswith(".") or not entry.name.startswith("."))
        ]


YAML_FILE = FilesOfKind("file", ".yaml", ".yml", ".json")
TABLE_FILE = FilesOfKind("file", ".yaml", ".yml", ".json", ".csv", ".tsv")
PYTHON_FILE = FilesOfKind("file", ".py")


def plugin_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --plugin with a help text."""
    return click.option("--plugin", "plugins", multiple=True, metavar="FILE|MODULE[:NAME]", type=PYTHON_FILE, help=text)


def configurations_option(help_text: str) -> Callable[[Any], Any]:
    """Return the option --config that may be given twice, as the parameter `configs`."""
    return click.option("--config", "configs", type=YAML_FILE, metavar="FILE", multiple=True, help=help_text)


def memory_option(help_text: str) -> Callable[[Any], Any]:
    """Return the option for the most memory of a process that calls plugins of the user."""
    return click.option(
        "--memory", type=click.IntRange(64), default=4096, show_default=True, metavar="MIB", help=help_text
    )
