"""The `bayplan` command: argument parsing and printing only.

Commands are imported when they are used, so that help and completion are fast. To add one: a file here and its line
below. Those of questions come from their list: of a question that has `Spoken`, the command is made of its struct; of
another one, it is in `insight/` in a file of its name. The flags of `bayplan run` are in `run_flags.json`. What runs in
a cluster is in `templates/`: then run `bayplan manifests` for `deploy/` (tests compare them). `ending.py` is how a
process with plugins ends, `cluster_detached.py` how `bayplan cluster` runs in the background.

Other packages use `run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem

from bayplan.answers.insight.question_list import LISTED
from bayplan.faces.cli.standard_streams import interruption_reported, unwritable_output_reported
from bayplan.foundations.lazy import import_named, on_use

with on_use():
    from bayplan.answers.insight import question_types
    from bayplan.faces.cli.insight import question_command

_FIRST = {
    "demo": ("demo:demo", "Run the scheduler on an embedded cluster and show what it does."),
    "cluster": ("cluster:cluster", "Serve an embedded Kubernetes cluster for kubectl and other clients."),
    "run": ("run:run", "Schedule the pods of a cluster."),
    "provision": ("provision:provision", "Answer capacity checks of queues such as Kueue, beside any scheduler."),
}
_LATER = {
    "compare": ("compare:compare", "Show what another scheduler or other nodes would have made of last week."),
    "simulate": ("simulate:simulate", "Simulate a scheduler on the load of a history."),
    "sweep": ("sweep:sweep", "Simulate many schedulers and node pools on a history, and show the best."),
    "ui": ("ui:ui", "Serve a page about a cluster: its bay plan, the queue, pods, nodes and what-ifs."),
    "serve": ("serve:serve", "Answer questions about a cluster as JSON over HTTP, for programs."),
    "mcp": ("mcp:mcp", "Answer questions about a cluster as tools for assistants (Model Context Protocol)."),
    "manifests": ("manifests:manifests", "Print the Kubernetes objects that run the scheduler in a cluster."),
    "snapshot": ("insight.snapshot:snapshot", "Save what a scheduler knows of a cluster to a file."),
    "record": ("record:record", "Record what happens in a cluster to a folder, beside any scheduler."),
    "replay": ("replay:replay", "Make recorded decisions again, and name the first that differs."),
    "why": ("why:why", "Say why something was decided about a pod last night, from a recording."),
    "shadow": ("shadow:shadow", "Show what Bayplan would have decided, beside any scheduler of a cluster."),
    "history": ("history:history", "Make a history from audit logs, traces or a snapshot, or look at one."),
    "extender": ("extender:extender", "Serve plugins to the stock kube-scheduler as an HTTP extender."),
    "new": ("new:new", "Create a project for a scheduler with your own plugins."),
    "conformance": ("conformance:conformance", "Compare decisions with recorded decisions of kube-scheduler."),
    "perf": ("perf:perf", "Run the Kubernetes scheduler benchmark."),
    "completion": ("completion:completion", "Print the completion script for a shell."),
}
"""command -> its `module:attribute` in this package, and its line in the help; before and after the questions"""


def commands() -> Mapping[str, str]:
    """Return the commands in the order of the help, each with its line there. None of them is imported."""
    return {
        **{name: summary for name, (_, summary) in _FIRST.items()},
        **{name: listed.summary for name, listed in LISTED.items() if listed.summary},
        **{name: summary for name, (_, summary) in _LATER.items()},
    }


def _question(name: str) -> click.Command:
    """The command of a question."""
    question = question_types.QUESTIONS[name]
    if question.spoken is not None:
        return question_command.question_command(question)
    module = name.replace("-", "_")
    found: click.Command = import_named(f"{__name__}.insight.{module}:{module}")
    return found


class LazyGroup(click.Group):
    """A group that imports the module of a command when it is used."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command, and end the process."""
        with unwritable_output_reported():
            return super().main(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the arguments name."""
        with interruption_reported():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by name."""
        if cmd_name not in commands():
            return None
        if cmd_name in LISTED:
            return _question(cmd_name)
        place, _ = (_FIRST | _LATER)[cmd_name]
        command: click.Command = import_named(f"{__name__}.{place}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. The error for an unknown one suggests a similar one."""
        name = args[0]
        if name not in commands() and not name.startswith("-") and not ctx.resilient_parsing:
            close = get_close_matches(name.lower(), commands(), n=1)
            ctx.fail(f"No such command {name!r}.{f' Did you mean {close[0]!r}?' if close else ''}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        found = [CompletionItem(name, help=text) for name, text in commands().items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with one line each, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(commands().items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bayplan", prog_name="bayplan")
def main() -> None:
    """Bayplan: a Kubernetes scheduler, and a framework for writing schedulers."""


def kubectl_plugin() -> None:
    """The program `kubectl-bayplan`, which kubectl runs as `kubectl bayplan`."""
    main(prog_name="kubectl bayplan")
