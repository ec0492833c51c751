"""`bayplan replay`: makes recorded decisions again."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.follow_options import settings_option
from bayplan.faces.cli.insight.messages import errors_reported, fail, warn
from bayplan.faces.cli.replay_moments import moment_options
from bayplan.faces.cli.shared_options import YAML_FILE, plugin_option

if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Answer
    from bayplan.answers.replay.policies import Policy
    from bayplan.answers.replay.recorded_plugins import NamedPlugins
    from bayplan.answers.replay.replay import Replayed
    from bayplan.answers.replay.wanted import WantedMoment
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
    wanted: WantedMoment,
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
        from bayplan.answers.replay.policies import recorded_policy
        from bayplan.answers.replay.recorded_plugins import NamedPlugins
        from bayplan.running.recording.files import Recording, pack_recording

        if pack is not None:
            pack_recording(recording, Path(pack))
            click.echo(f"Wrote {pack}")
            return
        runs, named = Recording.runs(recording), NamedPlugins(plugins)
        if listing:
            _list(runs, output)
            return
        others = tuple(named.others(runs))
        if stepping:
            from bayplan.faces.cli.replay_steps import Steps

            Steps(runs[-1], recorded_policy(runs[-1], named)).run()
            return
        if config is not None or others or version is not None or settings:
            if wanted.given:
                raise click.UsageError("--until, --pod and --preemption-of stop a replay: not with another policy")
            for run in runs:
                _ask_another(run, recorded_policy(run, named), (config, others, version, settings), limit, output)
        elif wanted.given:
            _stop_before(runs, wanted, named, snapshot, output)
        elif snapshot is not None:
            raise click.UsageError("--save needs a moment: --until, --pod or --preemption-of")
        else:
            for run in runs:
                _replay(run, recorded_policy(run, named), output)


def _replay(recording: Recording, policy: Policy, output: str) -> None:
    from bayplan.answers.replay.causes import explained
    from bayplan.answers.replay.outcome import lines_of

    run = policy.replay(recording)
    began = time.monotonic()
    found = run.run()
    seconds = time.monotonic() - began
    if found.difference is not None:
        found.difference = explained(found.difference, run, policy.plugins, policy.changed)
    if output == "json":
        click.echo(json.dumps(_document(found), indent=2))
    elif found.decisions > found.before or found.difference is not None or not found.problem:
        for line in lines_of(found, seconds):
            click.echo(line)
    if found.problem:
        fail(found.problem)
    if found.difference is not None:
        raise SystemExit(EXIT_DIFFERENT)


def _document(found: Replayed) -> dict[str, object]:
    import msgspec

    document: dict[str, object] = msgspec.to_builtins(found, builtin_types=())
    return document


def _list(runs: Sequence[Recording], output: str) -> None:
    import msgspec

    from bayplan.answers.replay.moments import PodNames, decisions_of
    from bayplan.answers.replay.replay import told

    for run in runs:
        names = PodNames()
        for decided in decisions_of(run, names.take):
            for pod in decided.pods:
                victims = decided.victims_of(pod.uid)
                if output == "json":
                    document = {"number": decided.number, "time": decided.time, **msgspec.structs.asdict(pod)}
                    document["victimNames"] = names.of(pod.victims or victims)
                    click.echo(msgspec.json.encode(document))
                else:
                    what = told(pod, decided.preemptions)
                    who = f" ({', '.join(names.of(victims))})" if victims else ""
                    click.echo(f"{decided.number:>7} {decided.time:%Y-%m-%d %H:%M:%S.%f} {pod.key}: {what}{who}")


def _stop_before(
    runs: Sequence[Recording], wanted: WantedMoment, named: NamedPlugins, snapshot: str | None, output: str
) -> None:
    from bayplan.answers.replay.outcome import StoppedBefore
    from bayplan.answers.replay.wanted import cluster_before, find

    decided = find(runs, wanted, warn)
    cluster = cluster_before(decided.run, decided, named, warn)
    saved = "  --save FILE writes the cluster as the scheduler knew it"
    if snapshot is not None:
        cluster.save(snapshot)
        question = f"bayplan explain {decided.pods[0].key} --from {snapshot}"
        saved = f"  {snapshot} has the cluster as the scheduler knew it: {question}"
    _show(StoppedBefore(decided, (saved,)), output)


def _ask_another(
    recording: Recording,
    policy: Policy,
    another: tuple[str | None, tuple[str, ...], str | None, tuple[str, ...]],
    limit: int,
    output: str,
) -> None:
    from bayplan.answers.replay.candidates import ask_another
    from bayplan.answers.replay.outcome import OtherReplay

    found, problem = ask_another(recording, policy, _other_policy(policy, *another))
    _show(OtherReplay(found, problem, limit), output)
    if problem and output != "json":
        fail(problem)


def _show(found: Answer, output: str) -> None:
    """Print an answer. Its lines aren't wrapped."""
    click.echo(json.dumps(found.to_dict(), indent=2) if output == "json" else found.text(width=10_000).rstrip("\n"))


def _other_policy(
    policy: Policy, config: str | None, references: tuple[str, ...], version: str | None, settings: tuple[str, ...]
) -> Policy:
    from bayplan.core.versions import gates_of
    from bayplan.faces.cli.insight.cluster_options import read_scheduler, read_version
    from bayplan.faces.cli.insight.follow_options import changed_policy

    gates = policy.gates if version is None else gates_of(read_version(version))
    given = read_scheduler(config, references, (), gates.version, policy.plugins)
    return changed_policy(policy, given if given != (None, ()) or version is not None else None, settings, gates)
