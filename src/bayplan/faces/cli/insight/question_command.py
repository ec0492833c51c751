"""The command of a question, made of its struct: its options, what they give, and how it is asked.

    question_command(AskDrain)      # `bayplan drain`

It fits all questions that have `Spoken`. Imports no slow modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields

from bayplan.answers.insight.question_parameters import (
    FILE,
    Option,
    Question,
    Spoken,
    default_of,
    options_of,
)
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, Command, cluster_options, state_options
from bayplan.faces.cli.insight.question_options import PATHS, question_options
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.faces.cli.insight import explain, files, given_manifests


def question_command(question: type[Question]) -> click.Command:
    """Return the command that asks a question. Its `spoken` says what the parameters don't say."""
    spoken = question.spoken
    if spoken is None:
        raise TypeError(f"{question.__name__}: expected a question that says what its command is")

    def command(asked: AskedCluster, *, yes: bool = False, saved: tuple[str, ...] = (), **given: Any) -> None:
        if spoken.unselected and asked.selector is not None:
            raise click.UsageError(spoken.unselected)
        places = [_place(each, spoken) for each in saved]
        if len({file for _, file in places}) < len(places):
            raise click.UsageError("--save: a file is named twice; the formats need files of their own")
        found = question_given(question, asked, given)
        if not found.complete:
            raise click.UsageError(spoken.expected)
        answer(asked, found.ask, doing=spoken.doing, yes=yes, saved=places)

    made: Command = cluster_options(command, spoken.forms) if spoken.decides else state_options(command)
    if spoken.forms:
        made = _save_option(made)
    if spoken.adds:
        made = yes_option(made)
    return click.command(question.name, help=spoken.help)(question_options(question)(made))


_save_option = click.option(
    "--save",
    "saved",
    multiple=True,
    metavar="FORMAT=FILE",
    help="Also write the answer to a file, as in junit=report.xml. May be repeated.",
)


def _place(text: str, spoken: Spoken) -> tuple[str, str]:
    """A format and a file."""
    output, _, file = text.partition("=")
    known = ("json", "html", *spoken.forms)
    if output not in known or not file:
        raise click.UsageError(f"--save {text}: expected FORMAT=FILE with one of the formats {', '.join(known)}")
    return output, file


def question_given(question: type[Question], asked: AskedCluster, given: Mapping[str, Any]) -> Question:
    """Return a question with what the user gave, read from files where the options name some."""
    values = {}
    for parameter, option in options_of(question):
        value = given.get(parameter.name)
        if option.file == FILE:
            value = (*(value or ()), *given.get(PATHS, ()))
        if value not in {None, ()}:
            values[parameter.name] = _value(parameter, option, asked, value)
        elif option.file == FILE and default_of(parameter) is NODEFAULT:
            raise click.UsageError("expected manifests: files or folders, or -f PATH")
    return question(**_shared(question, asked), **values)


def _shared(question: type[Question], asked: AskedCluster) -> dict[str, Any]:
    """The parameters whose options all commands share."""
    found: dict[str, Any] = {}
    for parameter in fields(question):
        if parameter.name == "namespace":
            found["namespace"] = asked.namespace if default_of(parameter) is None else asked.in_namespace
        elif parameter.name == "selector":
            found["selector"] = asked.labels
    return found


def _value(parameter: FieldInfo, option: Option, asked: AskedCluster, given: Any) -> Any:
    if option.file == FILE:
        documents = list(given_manifests.documents_in(asked, given))
        if default_of(parameter) is NODEFAULT and asked.source.path is not None:
            given_manifests.warn_of_lacking_kinds(asked, documents)
        return documents
    if option.file:
        return files.READERS[option.file](given)
    if option.pod:
        return explain.pod_key(asked, given)
    return list(given) if isinstance(given, tuple) else given
