"""`bayplan replay --step`: a recording decision by decision, forwards and backwards."""

from __future__ import annotations

import click

from bayplan.answers.replay.moments import snapshot_at
from bayplan.answers.replay.policies import Policy
from bayplan.answers.replay.replay import Moment, describe_decision
from bayplan.answers.snapshots.reading import SnapshotError
from bayplan.faces.cli.insight.messages import fail
from bayplan.running.recording.files import Recording

_HELP = "Enter: next, p: previous, a number: that decision, s FILE: save the cluster as it is before it, q: quit"


class Steps:
    """Shows the decisions of a run. To go back, the run is replayed again: a moment is never changed."""

    def __init__(self, recording: Recording, policy: Policy) -> None:
        self._recording = recording
        self._policy = policy
        self._next = 1
        self._quit = False

    def run(self) -> None:
        """Show decisions and ask what comes next, until the end of the run or of the input."""
        click.echo(_HELP)
        while not self._quit:
            found = self._policy.replay(self._recording).run(self._visit)
            if found.problem:
                fail(found.problem)
            if found.difference is not None:
                fail(f"decision {found.difference.number:,} can't be made again: without --step, the answer says why")
            if not found.stopped:
                click.echo(f"the end, after {found.decisions:,} decisions")
                return

    def _visit(self, moment: Moment) -> bool:
        """Show a decision if it is the next one to be shown. Returns whether the run has to begin again, or to end."""
        if moment.number < self._next or not moment.recorded:
            return False
        self._show(moment)
        while True:
            try:
                asked = input("> ").strip()
            except (EOFError, KeyboardInterrupt):
                asked = "q"
            word, _, rest = asked.partition(" ")
            if word in {"", "n"}:
                self._next = moment.number + 1
                return False
            if word == "p":
                self._next = max(1, moment.number - 1)
                return True
            if word.isdecimal():
                self._next = max(1, int(word))
                return self._next <= moment.number
            if word == "q":
                self._quit = True
                return True
            if word == "s" and rest:
                self._save(moment, rest.strip())
            else:
                click.echo(_HELP)

    def _show(self, moment: Moment) -> None:

        state, pending = moment.scheduler.state, moment.scheduler.queue.pending_pods()
        waiting = f"{pending.active:,} active, {pending.backoff:,} in backoff, {pending.unschedulable:,} unschedulable"
        click.echo(
            f"decision {moment.number:,} at {moment.time:%Y-%m-%d %H:%M:%S.%f}: {state.table.live_count:,} nodes, "
            f"{state.pod_count:,} pods on them; in the queue {waiting}, {pending.gated:,} gated"
        )
        for each in moment.recorded:
            click.echo(f"  pod {each.key}: {describe_decision(each, moment.preemptions)}")

    def _save(self, moment: Moment, path: str) -> None:

        try:
            snapshot_at(moment.scheduler, moment.time, f"{self._recording.source} at {moment.time:%H:%M:%S}").save(path)
        except SnapshotError as error:
            click.echo(str(error))
        else:
            click.echo(f"wrote {path}; ask about it with --from {path}")
