"""The `bayplan` command: argument parsing and printing only; the work is done by the packages above.

Commands are imported when they are called for, so that help and completion answer at once.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

import click
from click.shell_completion import CompletionItem

COMMANDS = {
    "demo": ("demo:demo", "Show the scheduler at work on an embedded cluster."),
    "cluster": ("cluster:cluster", "Serve an embedded Kubernetes cluster for kubectl and any client."),
    "run": ("run:run", "Schedule the pods of a cluster."),
    "manifests": ("manifests:manifests", "Print the objects that run the scheduler in a cluster."),
    "extender": ("extender:extender", "Lend plugins to the stock kube-scheduler, over HTTP."),
    "new": ("new:new", "Start a project for a scheduler with plugins of your own."),
    "conformance": ("conformance:conformance", "Compare decisions with those recorded of kube-scheduler."),
    "perf": ("perf:perf", "Run Kubernetes' own scheduler benchmark."),
    "completion": ("completion:completion", "Print what makes a shell complete all this."),
}
"""Command to `module:attribute` of this package and its line in the help, in the order of the help."""


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported when one is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What completes a command's name, without importing any."""
        found = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with one line each, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("bayplan"), prog_name="bayplan")
def main() -> None:
    """Bayplan: a Kubernetes scheduler, and a framework to write schedulers in."""
