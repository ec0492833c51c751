"""`bayplan why`: why something was decided about a pod, from a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.insight.answering import show
from bayplan.cli.insight.messages import errors_reported, fail
from bayplan.cli.replay_moments import WantedMoment, find, qualified, stop_before

if TYPE_CHECKING:
    from bayplan.recording.files import Recording
    from bayplan.replay.moments import RecordedDecision
    from bayplan.replay.policies import Policy


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
@click.option("-o", "--output", type=click.Choice(("table", "wide", "json")), default="table", show_default=True)
def why(pod: str, recording: Path, at: str | None, evicted: bool, moved: bool, output: str) -> None:
    """Say why something was decided about a pod, as the scheduler saw the cluster then.

    POD is a name, or NAMESPACE/NAME. Without --at, --evicted or --moved, it is the last decision about the pod.
    """
    if evicted and moved:
        raise click.UsageError("--evicted and --moved: expected only one of them")
    with errors_reported():
        from bayplan.recording.files import Recording
        from bayplan.replay.policies import recorded_policy

        runs = Recording.runs(recording)
        key = qualified(pod)
        assert key is not None
        if moved:
            _moves(runs, key)
            return
        asked = (
            WantedMoment(at, preemption_of=key, option="--at") if evicted else WantedMoment(at, pod=key, option="--at")
        )
        decided = find(runs, asked)
        _explain(recorded_policy(decided.run), decided, key, output, evicted=evicted)


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


def _explain(policy: Policy, decided: RecordedDecision, pod: str, output: str, *, evicted: bool) -> None:
    from bayplan.insight import Insight, QuestionError
    from bayplan.replay.replay import told

    moment, snapshot = stop_before(policy, decided)
    asked = pod
    lines = []
    if evicted:
        uids = {each.uid: each.key for each in decided.pods}
        for uid, node, victims in decided.preemptions:
            asked = uids.get(uid, moment.queued.pod.key)
            more = len(victims) - 1
            others = f", with {more} other pod{'s' if more > 1 else ''}," if more else ""
            lines.append(f"pod {pod} was evicted from node {node}{others} to make room for pod {asked}")
    one = decided.of(asked)
    lines.append(
        f"at {decided.time:%Y-%m-%d %H:%M:%S.%f} UTC (decision {decided.number:,}), it was decided about pod {asked}:"
    )
    lines.append(f"  {told(one, decided.preemptions)}")
    lines += [f"warning: {line}" for line in policy.changed]
    try:
        insight = Insight(snapshot, policy.configuration, policy.plugins, gates=policy.gates)
        found = insight.explain(asked)
    except QuestionError as error:
        fail(str(error))
    if output != "json":
        click.echo("\n".join(lines))
        click.echo("As the cluster was just before (of nodes that are as good, another one may be named):")
    show(found, output)
