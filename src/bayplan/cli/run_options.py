"""kube-scheduler's flags as options of a click command: parsed as Go's pflag parses them, and grouped in the help.

Imports nothing that takes time: help and completion need no scheduler.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bayplan.api import durations
from bayplan.cli.run_flags import FLAGS, Flag, Kind, Treatment

VERSION = "version"
OWN_GROUP = "Bayplan's own options"

_BOOLEANS = frozenset(flag.name for flag in FLAGS if flag.kind is Kind.BOOL) | {VERSION}
"""Flags that stand alone: a value has to follow a `=`."""


class FilesOfKind(click.ParamType[str]):
    """A path; completion offers the files with certain endings, and folders on the way to them."""

    def __init__(self, name: str, *endings: str) -> None:
        self.name = name
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path as it was given."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What a path may go on with."""
        folder, beginning = os.path.split(incomplete)
        try:
            entries = sorted(Path(folder or ".").expanduser().iterdir())
        except (OSError, RuntimeError):  # the latter for the home of nobody
            return []
        found = [entry for entry in entries if entry.name.startswith(beginning)]
        return [
            CompletionItem(os.path.join(folder, entry.name) + ("/" if entry.is_dir() else ""))  # noqa: PTH118 - as typed
            for entry in found
            if (entry.is_dir() or entry.name.endswith(self.endings))
            and (beginning.startswith(".") or not entry.name.startswith("."))
        ]


class Duration(click.ParamType[str]):
    """A duration as Go writes it, which stays a string."""

    name = Kind.DURATION.value

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuses what is none."""
        try:
            durations.parse(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return str(value)


YAML_FILE = FilesOfKind("file", ".yaml", ".yml", ".json")
PYTHON_FILE = FilesOfKind("file", ".py")

_TYPES: dict[Kind, click.ParamType[Any]] = {
    Kind.STRING: click.STRING,
    Kind.STRINGS: click.STRING,
    Kind.FILE: click.Path(),
    Kind.YAML_FILE: YAML_FILE,
    Kind.OUTPUT_FILE: click.Path(),
    Kind.INT: click.INT,
    Kind.FLOAT: click.FLOAT,
    Kind.DURATION: Duration(),
    Kind.BOOL: click.BOOL,
}


class FlagOption(click.Option):
    """The option of a flag of kube-scheduler."""

    def __init__(self, flag: Flag) -> None:
        works = flag.treatment is Treatment.WORKS
        shown = f"  [default: {flag.default}]" if flag.default and works else ""
        super().__init__(
            [f"--{flag.name}", flag.parameter],
            type=_TYPES[flag.kind] if flag.treatment is not Treatment.REFUSED else click.STRING,
            multiple=flag.kind is Kind.STRINGS,
            metavar=flag.kind.value.rpartition(" ")[2] or "[=true|false]",
            help=f"{flag.text}{shown}",
            hidden=not works,
            is_eager=flag.name == VERSION,
            callback=_print_version if flag.name == VERSION else None,
            expose_value=flag.name != VERSION,
        )
        self.flag = flag


class RunCommand(click.Command):
    """A command whose flags are parsed and listed as kube-scheduler's are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what click takes for what the user means."""
        return super().parse_args(ctx, as_click_takes(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options by group, ours first, and those without effect in a paragraph each."""
        groups: dict[str, list[click.Parameter]] = {}
        for parameter in self.get_params(ctx):
            group = parameter.flag.group if isinstance(parameter, FlagOption) else OWN_GROUP
            groups.setdefault(group, []).append(parameter)
        for group, parameters in groups.items():
            with formatter.section(group):
                records = [record for each in parameters if (record := each.get_help_record(ctx)) is not None]
                if records:
                    formatter.write_dl(records, col_max=38)
                _write_idle([each.flag for each in parameters if isinstance(each, FlagOption)], formatter)


def _write_idle(flags: Sequence[Flag], formatter: click.HelpFormatter) -> None:
    reasons: dict[str, list[str]] = {}
    for flag in flags:
        if flag.treatment is Treatment.WARNED:
            reasons.setdefault(flag.text, []).append(f"--{flag.name}")
    for reason, names in reasons.items():
        indent = " " * formatter.current_indent
        text = f"Without effect ({reason}): {', '.join(names)}."
        wrapped = textwrap.fill(
            text, formatter.width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
        )
        formatter.write(f"{wrapped}\n")


def kube_scheduler_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all flags to a command; each is passed by its name, None (or an empty tuple) where it is not given."""
    parameters: list[click.Option] = command.__dict__.setdefault("__click_params__", [])
    parameters[:0] = [FlagOption(flag) for flag in reversed(FLAGS)]
    return command


def as_click_takes(args: Sequence[str]) -> list[str]:
    """Arguments rewritten where pflag and click differ.

    `--leader_elect` is `--leader-elect`, a boolean stands alone or has its value after `=`, and a level comes after
    `-v` in any way (`-v=4`, `-v4`, `-v 4`), while `-v` and `-vv` alone count.
    """
    taken: list[str] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            return [*taken, arg, *rest]
        name, equals, value = arg.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
            if name[2:] in _BOOLEANS and not equals:
                equals, value = "=", "true"
        elif equals and name == "-v":
            name = "--v"
        elif re.fullmatch(r"-v\d+", arg):
            name, equals, value = "--v", "=", arg[2:]
        elif arg == "-v" and rest and re.fullmatch(r"\d+", rest[0]):
            name, equals, value = "--v", "=", rest.pop(0)
        taken.append(f"{name}{equals}{value}")
    return taken


def _print_version(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None or value.lower() in {"false", "0"}:
        return
    from importlib.metadata import version

    click.echo(f"bayplan, version {version('bayplan')}")
    ctx.exit()
