"""The options of a command, made of the parameters of its question.

@click.command()
@question_options(AskShrink)
@cluster_options
def shrink(asked: AskedCluster, **given: Any) -> None: ...

The command gets them by the names of the parameters. Those that all commands share are in `cluster_options.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import click
from msgspec import NODEFAULT, Meta
from msgspec.structs import FieldInfo

from bayplan.answers.insight.question_parameters import (
    DURATIONS,
    FILE,
    HISTORY,
    RECOMMENDATIONS,
    Option,
    Question,
    default_of,
    kind_of,
    metadata_of,
    options_of,
)
from bayplan.faces.cli.insight.cluster_options import Command, with_options
from bayplan.faces.cli.shared_options import TABLE_FILE, YAML_FILE, FilesOfKind

PATHS = "paths"
"""The argument of commands that take manifests without -f, too."""
_SHARED = {"-n", "-l", "--config"}
_FILES = {DURATIONS: TABLE_FILE, RECOMMENDATIONS: TABLE_FILE, HISTORY: FilesOfKind("path", "")}
"""What options read that is no YAML."""


def question_options(question: type[Question]) -> Callable[[Command], Command]:
    """Add the options of a question, in the order of its parameters. See `manifests_option` for its objects."""
    paths = question.spoken is not None and question.spoken.paths
    own = [_click_option(*each, paths=paths) for each in options_of(question) if each[1].name not in _SHARED]
    if paths:
        own.insert(0, click.argument(PATHS, nargs=-1, type=FilesOfKind("path", ""), metavar="[PATH]..."))
    return lambda command: with_options(command, own)


def manifests_option(
    help_text: str, name: str = "objects", *, required: bool = False, metavar: str = "PATH"
) -> Callable[[Command], Command]:
    """Return the option `--filename` of a command, which gets paths. See `documents_in`."""
    return click.option(
        "-f",
        "--filename",
        name,
        multiple=True,
        required=required,
        type=FilesOfKind("path", ""),
        metavar=metavar,
        help=help_text,
    )


def _click_option(parameter: FieldInfo, option: Option, *, paths: bool) -> Callable[[Command], Command]:
    found = [each for each in metadata_of(parameter.type) if isinstance(each, Meta)]
    text = option.help or next((each.description for each in reversed(found) if each.description), "")
    default = default_of(parameter)
    if option.file == FILE:
        return manifests_option(text, parameter.name, required=default is NODEFAULT and not paths)
    kind = kind_of(parameter.type)
    many = get_origin(kind) is list
    if not option.name:
        needed = default is NODEFAULT and not many
        return click.argument(parameter.name, nargs=-1 if many else 1, metavar=option.metavar, required=needed)
    settings: dict[str, Any] = {"help": text, "metavar": option.metavar}
    if option.file:
        settings |= {"type": _FILES.get(option.file, YAML_FILE)}
    elif kind is bool:
        settings |= {"is_flag": True}
    elif kind is int:
        least = next((int(each.ge) for each in found if each.ge is not None), None)
        settings |= {"type": click.IntRange(least), "default": default, "show_default": default is not None}
    elif get_origin(kind) is Literal:
        settings |= {"type": click.Choice(get_args(kind)), "default": default, "show_default": True}
    elif many:
        (item,) = get_args(kind)
        settings |= {"multiple": True, "type": click.Choice(get_args(item)) if get_origin(item) is Literal else None}
        if get_origin(item) is tuple:
            settings |= {"nargs": len(get_args(item))}
    return click.option(option.name, parameter.name, **settings)
