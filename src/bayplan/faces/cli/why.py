"""`bayplan why`: why something was decided about a pod, from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.answering import show
from bayplan.faces.cli.insight.messages import errors_reported, fail, warn
from bayplan.faces.cli.shared_options import plugin_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight
    from bayplan.answers.replay import policies, recorded_plugins, wanted
    from bayplan.answers.replay import why as recorded_why
    from bayplan.running.recording import files


if TYPE_CHECKING:
    from bayplan.answers.replay.moments import RecordedDecision
    from bayplan.answers.replay.recorded_plugins import NamedPlugins


@click.command()
@click.argument("pod", metavar="POD")
@click.option(
    "--recording",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="What `bayplan run --record` wrote.",
)
@click.option("--at", metavar="TIME", help="The last decision about POD before TIME: 2026-03-02T03:12:00Z, or 03:12.")
@click.option("--evicted", is_flag=True, help="Why POD was evicted: which pod needed its room, and what else it tried.")
@click.option("--moved", is_flag=True, help="Each time that POD, or a pod of its name, was placed.")
@plugin_option("A plugin that was recorded, found by its hash: a recording's own are never loaded. May be repeated.")
@click.option("-o", "--output", type=click.Choice(("table", "wide", "json")), default="table", show_default=True)
def why(
    pod: str,
    recording: Path,
    at: str | None,
    evicted: bool,
    moved: bool,
    plugins: tuple[str, ...],
    output: str,
) -> None:
    """Say why something was decided about a pod, as the scheduler saw the cluster then.

    POD is a name, or NAMESPACE/NAME. Without --at, --evicted or --moved, it is the last decision about the pod.
    """
    if evicted and moved:
        raise click.UsageError("--evicted and --moved: expected only one of them")
    with errors_reported():
        runs, named = files.Recording.runs(recording), recorded_plugins.NamedPlugins(plugins)
        key = wanted.qualified(pod)
        assert key is not None
        if moved:
            show(recorded_why.Moves.of(runs, key), output)
            return
        if others := named.others(runs):
            fail(f"--plugin {others[0]}: the recording has no such plugin; `bayplan replay` asks other ones")
        asked = (
            wanted.DecisionSelector(at, preemption_of=key, option="--at")
            if evicted
            else wanted.DecisionSelector(at, pod=key, option="--at")
        )
        _explain(wanted.find(runs, asked, warn), key, named, output, evicted=evicted)


def _explain(decided: RecordedDecision, pod: str, named: NamedPlugins, output: str, *, evicted: bool) -> None:

    asked = recorded_why.AskedDecision.of(decided, pod, evicted=evicted)
    if output != "json":
        click.echo("\n".join(asked.lines()))
    policy = policies.recorded_policy(decided.run, named)
    if output != "json":
        for line in policy.changed:
            click.echo(f"warning: {line}")
        if asked.explains_itself:
            return
        click.echo(recorded_why.BEFORE)
    try:
        found = asked.explained(policy, warn=warn)
    except insight.QuestionError as error:
        fail(str(error))
    show(found, output)
