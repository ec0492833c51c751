"""The flags of kube-scheduler as click options, parsed like Go's pflag and grouped in the help.

Imports no slow modules, so that help and completion are fast.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import click

from bayplan.core.api import durations
from bayplan.faces.cli.run_flags import FLAGS, Flag, FlagType, Treatment
from bayplan.faces.cli.shared_options import YAML_FILE, Checked

VERSION = "version"
OWN_GROUP = "Bayplan's own options"

_BOOLEANS = frozenset(flag.name for flag in FLAGS if flag.type is FlagType.BOOL) | {VERSION}
"""Flags without a separate value; an explicit value follows `=`."""


def _duration(value: str) -> str:
    """A duration in Go's format, as it was given."""
    try:
        durations.parse(value)
    except ValueError as error:
        raise ValueError(f"{value!r}: {error}") from None
    return value


_TYPES: dict[FlagType, click.ParamType[Any]] = {
    FlagType.STRING: click.STRING,
    FlagType.STRINGS: click.STRING,
    FlagType.FILE: click.Path(),
    FlagType.YAML_FILE: YAML_FILE,
    FlagType.OUTPUT_FILE: click.Path(),
    FlagType.INT: click.INT,
    FlagType.FLOAT: click.FLOAT,
    FlagType.DURATION: Checked(FlagType.DURATION.value, _duration),
    FlagType.BOOL: click.BOOL,
}


class FlagOption(click.Option):
    """A flag of kube-scheduler as an option."""

    def __init__(self, flag: Flag) -> None:
        works = flag.treatment is Treatment.WORKS
        shown = f"  [default: {flag.default}]" if flag.default and works else ""
        super().__init__(
            [f"--{flag.name}", flag.parameter],
            type=_TYPES[flag.type] if flag.treatment is not Treatment.REJECTED else click.STRING,
            multiple=flag.type is FlagType.STRINGS,
            metavar=flag.type.value.rpartition(" ")[2] or "[=true|false]",
            help=f"{flag.text}{shown}",
            hidden=not works,
            is_eager=flag.name == VERSION,
            callback=_print_version if flag.name == VERSION else None,
            expose_value=flag.name != VERSION,
        )
        self.flag = flag


_POLICY = "write a KubeSchedulerConfiguration instead of a Policy, and pass it with --config"
_REMOVED = {
    "--policy-config-file": _POLICY,
    "--policy-configmap": _POLICY,
    "--policy-configmap-namespace": _POLICY,
    "--use-legacy-policy-config": _POLICY,
    "--algorithm-provider": "choose plugins in the profiles of a KubeSchedulerConfiguration, and pass it with --config",
}
"""Flags of older versions, with what replaces them."""


class RunCommand(click.Command):
    """A command whose flags are parsed and listed like kube-scheduler's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after adapting them to click."""
        adapted = adapt_to_click(args)
        for arg in adapted[: adapted.index("--")] if "--" in adapted else adapted:
            name = arg.partition("=")[0]
            if name in _REMOVED:
                raise click.UsageError(f"{name} was removed from kube-scheduler in 1.23: {_REMOVED[name]}", ctx)
        return super().parse_args(ctx, adapted)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options by group, Bayplan's own first. Flags without effect are listed by reason."""
        groups: dict[str, list[click.Parameter]] = {}
        for parameter in self.get_params(ctx):
            group = parameter.flag.group if isinstance(parameter, FlagOption) else OWN_GROUP
            groups.setdefault(group, []).append(parameter)
        for group, parameters in groups.items():
            with formatter.section(group):
                records = [record for each in parameters if (record := each.get_help_record(ctx)) is not None]
                if records:
                    formatter.write_dl(records, col_max=38)
                _write_unused([each.flag for each in parameters if isinstance(each, FlagOption)], formatter)


def _write_unused(flags: Sequence[Flag], formatter: click.HelpFormatter) -> None:
    reasons: dict[str, list[str]] = {}
    for flag in flags:
        if flag.treatment is Treatment.WARNED:
            reasons.setdefault(flag.text, []).append(f"--{flag.name}")
    for reason, names in reasons.items():
        indent = " " * formatter.current_indent
        text = f"No effect ({reason}): {', '.join(names)}."
        wrapped = textwrap.fill(
            text, formatter.width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
        )
        formatter.write(f"{wrapped}\n")


def kube_scheduler_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all flags to a command. Each is a parameter, which is None or an empty tuple if the flag isn't given."""
    parameters: list[click.Option] = command.__dict__.setdefault("__click_params__", [])
    parameters[:0] = [FlagOption(flag) for flag in reversed(FLAGS)]
    return command


def adapt_to_click(args: Sequence[str]) -> list[str]:
    """Rewrite arguments where pflag and click differ.

    `--leader_elect` becomes `--leader-elect`. A boolean has no value or one after `=`. `-v=4`, `-v4` and `-v 4` set the
    level, while `-v` and `-vv` are counted.
    """
    adapted: list[str] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            return [*adapted, arg, *rest]
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
        adapted.append(f"{name}{equals}{value}")
    return adapted


def _print_version(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None or value.lower() in {"false", "0"}:
        return
    from importlib.metadata import version

    click.echo(f"bayplan, version {version('bayplan')}")
    ctx.exit()
