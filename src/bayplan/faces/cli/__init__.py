"""The `bayplan` command: argument parsing and printing only.

Commands are imported when they are used, so that help and completion are fast. To add one: a file here and its line
below; of a question that has `Spoken`, its line alone. The flags of `bayplan run` are in `run_flags.json`. What runs in
a cluster is in `templates/`: then run `bayplan manifests` for `deploy/` (tests compare them). `ending.py` is how a
process with plugins ends, `cluster_detached.py` how `bayplan cluster` runs in the background.

Other packages use `run`.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.faces.cli.insight import question_command

COMMANDS = {
    "demo": ("demo:demo", "Run the scheduler on an embedded cluster and show what it does."),
    "cluster": ("cluster:cluster", "Serve an embedded Kubernetes cluster for kubectl and other clients."),
    "run": ("run:run", "Schedule the pods of a cluster."),
    "provision": ("provision:provision", "Answer capacity checks of queues such as Kueue, beside any scheduler."),
    "doctor": (
        "bayplan.answers.insight.asked.doctor:AskDoctor",
        "Show what is wrong with a cluster now, on one screen.",
    ),
    "explain": ("insight.explain:explain", "Explain why pods are pending, or why a pod is on its node."),
    "why-not": ("bayplan.answers.insight.asked.why_not:AskWhyNot", "Show everything that keeps a pod from a node."),
    "fit": ("bayplan.answers.insight.asked.fit:AskFit", "Show whether all pods of manifests would be placed now."),
    "check": (
        "bayplan.answers.insight.asked.check:AskCheck",
        "Check manifests before they are merged: fit, evictions, quota, rollouts, likely mistakes.",
    ),
    "capacity": ("insight.capacity:capacity", "Show how many more pods fit, and what stops the next one."),
    "drain": (
        "bayplan.answers.insight.asked.drain:AskDrain",
        "Show where the pods of nodes would go, and what keeps them from being drained.",
    ),
    "shrink": ("bayplan.answers.insight.asked.shrink:AskShrink", "Show which nodes can go, and what holds the others."),
    "scale-up": (
        "bayplan.answers.insight.asked.scale_up:AskScaleUp",
        "Show how many nodes of which pool would be enough for what is pending, or for manifests.",
    ),
    "when": ("insight.when:when", "Show when pods will start, what they wait for, and what would be sooner."),
    "what-if": ("insight.what_if:what_if", "Show which pods change if nodes, workloads or the scheduler change."),
    "balance": (
        "bayplan.answers.insight.asked.balance:AskBalance",
        "Show how evenly a cluster is used, and the largest pods that fit.",
    ),
    "usage": (
        "bayplan.answers.insight.asked.usage:AskUsage",
        "Show what pods request, by namespace, workload and priority.",
    ),
    "diff": ("insight.diff:diff", "Show what changes between two snapshots, or between two configurations."),
    "compare": ("compare:compare", "Show what another scheduler or other nodes would have made of last week."),
    "simulate": ("simulate:simulate", "Simulate a scheduler on the load of a history."),
    "sweep": ("sweep:sweep", "Simulate many schedulers and node pools on a history, and show the best."),
    "upgrade-preview": (
        "insight.upgrade_preview:upgrade_preview",
        "Show what the next version of Kubernetes would decide differently on a cluster.",
    ),
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
"""command -> its `module:attribute` in this package, or its question, and its line in the help"""
_ASKED = "bayplan.answers.insight.asked."


class LazyGroup(click.Group):
    """A group that imports the module of a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        asked = module.startswith(_ASKED)
        found = getattr(import_module(module if asked else f"{__name__}.{module}"), attribute)
        command: click.Command = question_command.question_command(found) if asked else found
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. The error for an unknown one suggests a similar one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            close = get_close_matches(name.lower(), COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}.{f' Did you mean {close[0]!r}?' if close else ''}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        found = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with one line each, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bayplan", prog_name="bayplan")
def main() -> None:
    """Bayplan: a Kubernetes scheduler, and a framework for writing schedulers."""


def kubectl_plugin() -> None:
    """The program `kubectl-bayplan`, which kubectl runs as `kubectl bayplan`."""
    main(prog_name="kubectl bayplan")
