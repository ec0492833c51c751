"""`bayplan when`: in how long pods start, as the cluster goes on from now."""

from __future__ import annotations

from typing import Any

import click

from bayplan.answers.insight.asked.when import AskWhen, WhenPending
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.question_command import question_given
from bayplan.faces.cli.insight.question_options import question_options


@click.command()
@question_options(AskWhen)
@click.option("--all-pending", is_flag=True, help="Show a table of all pending pods; -n and -l choose some of them.")
@yes_option
@cluster_options
def when(asked: AskedCluster, *, all_pending: bool, yes: bool, **given: Any) -> None:
    """Show in how long pods start, on which nodes, what they wait for, and what would let them start sooner.

    The cluster is simulated forward many times: with its queue, priorities, gangs and preemption, and with the ends of
    pods whose run time is known, by the annotation bayplan.dev/expected-duration, --durations, --history or
    activeDeadlineSeconds. All others run forever. TYPE/NAME is a workload or a PodGroup. Exits with 0 if the pods
    start, with 1 if they never do, and with 2 for bad input. Ctrl-C shows what is known so far.
    """
    if sum((bool(given["what"]), bool(given["objects"]), all_pending)) != 1:
        raise click.UsageError("expected one of a pod, a workload such as job/train, -f and --all-pending")
    question = question_given(WhenPending if all_pending else AskWhen, asked, given)
    answer(asked, question.ask, doing="Simulating", yes=yes)
