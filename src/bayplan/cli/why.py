"""`bayplan why`: why something was decided about a pod, from a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.insight.answering import show
from bayplan.cli.insight.messages import errors_reported, fail
from bayplan.cli.replay_moments import WantedMoment, find, qualified, stop_before
from bayplan.cli.shared_options import plugin_option

if TYPE_CHECKING:
    from bayplan.recording.files import Recording
    from bayplan.replay.evictions import EvictionsFor
    from bayplan.replay.moments import PodNames, RecordedDecision
    from bayplan.replay.recorded_plugins import NamedPlugins


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
        from bayplan.recording.files import Recording
        from bayplan.replay.recorded_plugins import NamedPlugins

        runs, named = Recording.runs(recording), NamedPlugins(plugins)
        key = qualified(pod)
        assert key is not None
        if moved:
            _moves(runs, key)
            return
        if others := named.others(runs):
            fail(f"--plugin {others[0]}: the recording has no such plugin; `bayplan replay` asks other ones")
        asked = (
            WantedMoment(at, preemption_of=key, option="--at") if evicted else WantedMoment(at, pod=key, option="--at")
        )
        _explain(find(runs, asked), key, named, output, evicted=evicted)


def _moves(runs: Sequence[Recording], pod: str) -> None:
    from bayplan.replay.moments import decisions_of

    places = [
        (decided, one.node)
        for run in runs
        for decided in decisions_of(run)
        if (one := decided.of(pod)) is not None and one.node
    ]
    if not places:
        find(runs, WantedMoment(pod=pod))  # ends here if there is no decision at all
        fail(f"pod {pod} was never placed; without --moved, the answer says why")
    for decided, node in places:
        click.echo(f"{decided.time:%Y-%m-%d %H:%M:%S} decision {decided.number:,}: pod {pod} was placed on node {node}")


def _explain(decided: RecordedDecision, pod: str, named: NamedPlugins, output: str, *, evicted: bool) -> None:
    from bayplan.insight import QuestionError
    from bayplan.replay.evictions import EvictionsFor
    from bayplan.replay.explaining import ExplainedDecision
    from bayplan.replay.moments import PodNames, decisions_of
    from bayplan.replay.policies import recorded_policy

    names, evictions = PodNames(), EvictionsFor()
    for each in decisions_of(decided.run, names.take, evictions.take):
        if each.number > decided.number + _LOOKED_AHEAD:
            break
    asked = _preemptor_of(decided, pod, names) if evicted else pod
    if output != "json":
        click.echo("\n".join(_told(decided, pod, asked, names, evictions)))
    policy = recorded_policy(decided.run, named)
    if output != "json":
        for line in policy.changed:
            click.echo(f"warning: {line}")
        click.echo("As the cluster was just before:")
    _, snapshot = stop_before(policy, decided)
    try:
        found = ExplainedDecision(decided, names, evictions, snapshot, policy).about(asked)
    except QuestionError as error:
        fail(str(error))
    show(found, output)


_LOOKED_AHEAD = 1000
"""How many decisions after one the outcome of its eviction is looked for."""


def _preemptor_of(decided: RecordedDecision, pod: str, names: PodNames) -> str:
    """The pod for which another one was evicted."""
    for uid, _, victims in decided.preemptions:
        if pod in names.of(victims):
            return names.of([uid])[0]
    return pod


def _told(decided: RecordedDecision, pod: str, asked: str, names: PodNames, evictions: EvictionsFor) -> Iterator[str]:
    """What was decided, and what was evicted for that."""
    from bayplan.replay.replay import told

    one = decided.of(asked)
    victims = names.of(decided.victims_of(one.uid)) if one is not None else []
    if asked != pod and one is not None:
        others = [each for each in victims if each != pod]
        more = f", with {_pods(others)}," if others else ""
        yield f"pod {pod} was evicted from node {decided.node_for(one.uid)}{more} to make room for pod {asked}"
    yield f"at {decided.time:%Y-%m-%d %H:%M:%S.%f} UTC (decision {decided.number:,}), it was decided about pod {asked}:"
    yield f"  {told(one, decided.preemptions)}{f' ({_listed(victims)})' if victims else ''}"
    if one is None:
        return
    begin = "to get there, it" if one.node else "before, it had"
    for before in evictions.of(one.uid):
        if before.number < decided.number:
            evicted, node = _pods(names.of(before.victims_of(one.uid))), before.node_for(one.uid)
            when = f"at {before.time:%H:%M:%S.%f} (decision {before.number:,})"
            yield f"  {begin} evicted {evicted} from node {node} {when}"


def _pods(names: Sequence[str]) -> str:
    return f"pod{'s' if len(names) > 1 else ''} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    from bayplan.insight.answers import listed

    return listed(names)
