"""`bayplan replay`: makes recorded decisions again."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from bayplan.faces.cli.insight.follow_options import settings_option
from bayplan.faces.cli.insight.messages import errors_reported, fail, warn
from bayplan.faces.cli.replay_moments import moment_options
from bayplan.faces.cli.shared_options import YAML_FILE, plugin_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.replay import candidates, causes, moments, outcome, policies, recorded_plugins
    from bayplan.answers.replay import replay as replaying
    from bayplan.answers.replay import wanted as wanted_moments
    from bayplan.core import versions
    from bayplan.faces.cli import replay_steps
    from bayplan.faces.cli.insight import follow_options, given_scheduler
    from bayplan.running.recording import files


if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Answer
    from bayplan.answers.replay.policies import Policy
    from bayplan.answers.replay.recorded_plugins import NamedPlugins
    from bayplan.answers.replay.replay import Replayed
    from bayplan.answers.replay.wanted import DecisionSelector
    from bayplan.running.recording.files import Recording

EXIT_DIFFERENT = 1


@click.command()
@click.argument("recording", metavar="RECORDING", type=click.Path(exists=True, path_type=Path))
@moment_options
@click.option("--save", "snapshot", metavar="FILE", help="Write what the scheduler knew at that moment, as a snapshot.")
@click.option("--step", "stepping", is_flag=True, help="Show one decision after the other, forwards and backwards.")
@click.option("--list", "listing", is_flag=True, help="Print the decisions, one line each, and replay nothing.")
@click.option(
    "--pack", metavar="FILE", help="Write the recording to one file, which can be mailed, and replay nothing."
)
@click.option("--config", type=YAML_FILE, metavar="FILE", help="Ask another configuration at the same moments.")
@plugin_option(
    "A plugin that was recorded, found by its hash: a recording's own are never loaded. Any other one is asked at the "
    "same moments. A file, or a module. May be repeated."
)
@click.option("--emulated-version", "version", metavar="VERSION", help="Ask as another version of Kubernetes.")
@settings_option
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Differences to show; 0: all.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
def replay(
    recording: Path,
    wanted: DecisionSelector,
    snapshot: str | None,
    stepping: bool,
    listing: bool,
    pack: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    version: str | None,
    settings: tuple[str, ...],
    limit: int,
    output: str,
) -> None:
    """Make the decisions of a recording again, and name the first that differs.

    RECORDING is a folder that `bayplan run --record` wrote, or a file made of one by --pack. The exit status is 1 if a
    decision differs. With --until, --pod or --preemption-of, the replay stops before that decision: --save FILE then
    writes the cluster as the scheduler knew it, for `explain`, `why-not`, `what-if` and `ui`, each with --from FILE.
    """
    with errors_reported():
        if pack is not None:
            files.pack_recording(recording, Path(pack))
            click.echo(f"Wrote {pack}")
            return
        runs, named = files.Recording.runs(recording), recorded_plugins.NamedPlugins(plugins)
        if listing:
            _list(runs, output)
            return
        others = tuple(named.others(runs))
        if stepping:
            replay_steps.Steps(runs[-1], policies.recorded_policy(runs[-1], named)).run()
            return
        if config is not None or others or version is not None or settings:
            if wanted.given:
                raise click.UsageError("--until, --pod and --preemption-of stop a replay: not with another policy")
            for run in runs:
                _ask_another(
                    run, policies.recorded_policy(run, named), (config, others, version, settings), limit, output
                )
        elif wanted.given:
            _stop_before(runs, wanted, named, snapshot, output)
        elif snapshot is not None:
            raise click.UsageError("--save needs a moment: --until, --pod or --preemption-of")
        else:
            for run in runs:
                _replay(run, policies.recorded_policy(run, named), output)


def _replay(recording: Recording, policy: Policy, output: str) -> None:

    run = policy.replay(recording)
    began = time.monotonic()
    found = run.run()
    seconds = time.monotonic() - began
    if found.difference is not None:
        found.difference = causes.explained(found.difference, run, policy.plugins, policy.changed)
    if output == "json":
        click.echo(json.dumps(_document(found), indent=2))
    elif found.decisions > found.before or found.difference is not None or not found.problem:
        for line in outcome.lines_of(found, seconds):
            click.echo(line)
    if found.problem:
        fail(found.problem)
    if found.difference is not None:
        raise SystemExit(EXIT_DIFFERENT)


def _document(found: Replayed) -> dict[str, object]:

    document: dict[str, object] = msgspec.to_builtins(found, builtin_types=())
    return document


def _list(runs: Sequence[Recording], output: str) -> None:

    for run in runs:
        names = moments.PodNames()
        for decided in moments.decisions_of(run, names.take):
            for pod in decided.pods:
                victims = decided.victims_of(pod.uid)
                if output == "json":
                    document = {"number": decided.number, "time": decided.time, **msgspec.structs.asdict(pod)}
                    document["victimNames"] = names.of(pod.victims or victims)
                    click.echo(msgspec.json.encode(document))
                else:
                    what = replaying.describe_decision(pod, decided.preemptions)
                    who = f" ({', '.join(names.of(victims))})" if victims else ""
                    click.echo(f"{decided.number:>7} {decided.time:%Y-%m-%d %H:%M:%S.%f} {pod.key}: {what}{who}")


def _stop_before(
    runs: Sequence[Recording], wanted: DecisionSelector, named: NamedPlugins, snapshot: str | None, output: str
) -> None:
    decided = wanted_moments.find(runs, wanted, warn)
    cluster = wanted_moments.cluster_before(decided.run, decided, named, warn)
    saved = "  --save FILE writes the cluster as the scheduler knew it"
    if snapshot is not None:
        cluster.save(snapshot)
        question = f"bayplan explain {decided.pods[0].key} --from {snapshot}"
        saved = f"  {snapshot} has the cluster as the scheduler knew it: {question}"
    _show(outcome.StoppedBefore(decided, (saved,)), output)


def _ask_another(
    recording: Recording,
    policy: Policy,
    another: tuple[str | None, tuple[str, ...], str | None, tuple[str, ...]],
    limit: int,
    output: str,
) -> None:
    found, problem = candidates.ask_another(recording, policy, _other_policy(policy, *another))
    _show(outcome.OtherReplay(found, problem, limit), output)
    if problem and output != "json":
        fail(problem)


def _show(found: Answer, output: str) -> None:
    """Print an answer. Its lines aren't wrapped."""
    click.echo(json.dumps(found.to_dict(), indent=2) if output == "json" else found.text(width=10_000).rstrip("\n"))


def _other_policy(
    policy: Policy, config: str | None, references: tuple[str, ...], version: str | None, settings: tuple[str, ...]
) -> Policy:
    gates = policy.gates if version is None else versions.gates_of(given_scheduler.read_version(version))
    given = given_scheduler.read_scheduler(config, references, (), gates.version, policy.plugins)
    changed = given if given != (None, ()) or version is not None else None
    return follow_options.changed_policy(policy, changed, settings, gates)
