"""`bayplan when`: in how long pods start, as the cluster goes on from now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayplan.answers.insight.asked.when import AskWhen, WhenPending
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.given_manifests import documents_in
from bayplan.faces.cli.insight.messages import fail, warn
from bayplan.faces.cli.insight.question_options import question_options
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import errors, running
    from bayplan.answers.history import run_times
    from bayplan.answers.insight import durations_file
    from bayplan.foundations import manifest_files


@click.command()
@question_options(AskWhen)
@click.option("--all-pending", is_flag=True, help="Show a table of all pending pods; -n and -l choose some of them.")
@yes_option
@cluster_options
def when(
    asked: AskedCluster,
    what: str | None,
    objects: tuple[str, ...],
    durations: str | None,
    seen: str | None,
    models: str | None,
    sooner: str,
    *,
    all_pending: bool,
    yes: bool,
    **given: Any,
) -> None:
    """Show in how long pods start, on which nodes, what they wait for, and what would let them start sooner.

    The cluster is simulated forward many times: with its queue, priorities, gangs and preemption, and with the ends of
    pods whose run time is known, by the annotation bayplan.dev/expected-duration, --durations, --history or
    activeDeadlineSeconds. All others run forever. TYPE/NAME is a workload or a PodGroup. Exits with 0 if the pods
    start, with 1 if they never do, and with 2 for bad input. Ctrl-C shows what is known so far.
    """
    if sum((bool(what), bool(objects), all_pending)) != 1:
        raise click.UsageError("expected a pod, a workload such as job/train, -f or --all-pending")
    told = {
        "durations": _durations(durations),
        "seen": _seen(seen),
        "models": _document("--models", models),
        **given,
    }
    if all_pending:
        pending = WhenPending(namespace=asked.namespace, selector=asked.labels, **told)
        answer(asked, pending.ask, doing="Simulating", yes=yes)
        return
    documents = list(documents_in(asked, objects)) if objects else None
    question = AskWhen(what=what or "", namespace=asked.in_namespace, objects=documents, sooner=sooner, **told)  # type: ignore[arg-type] # one of the choices
    answer(asked, question.ask, doing="Simulating", yes=yes)


def _durations(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found, problems = durations_file.read_durations(Path(file))
    except durations_file.DurationsFileError as error:
        fail(str(error))
    warn(problems)
    return found


def _seen(folder: str | None) -> dict[str, list[float]]:
    if folder is None:
        return {}
    try:
        return run_times.run_times_seen(running.open_history(folder))
    except errors.BacktestError as error:
        fail(str(error))


def _document(option: str, file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        document = manifest_files.read_yaml(Path(file))
    except manifest_files.ManifestError as error:
        fail(str(error))
    if not isinstance(document, dict):
        fail(f"{option} {file}: expected a mapping")
    return document
