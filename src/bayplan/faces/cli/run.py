"""`bayplan run`: its options. `run_scheduler` runs the scheduler."""

from __future__ import annotations

from typing import Any

import click

from bayplan.faces.cli.dump_signal import DumpSignal
from bayplan.faces.cli.provisioning_options import provisioning_class_option, provisioning_of
from bayplan.faces.cli.run_logging import DEBUG_LEVEL, INFO_LEVEL, TEXT, configure_logging
from bayplan.faces.cli.run_options import RunCommand, kube_scheduler_flags
from bayplan.faces.cli.shared_options import plugin_option
from bayplan.foundations.collector import collecting_rarely
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.faces.cli import run_recording, run_scheduler


@click.command(cls=RunCommand)
@click.option("--context", help="Context of the kubeconfig. Default: the current context.")
@click.option(
    "--scheduler-name",
    help="Schedule pods with this spec.schedulerName. Default: that of --config, or bayplan-scheduler.",
)
@plugin_option("Your own plugins. With --config, they run where it enables them, else everywhere. May be repeated.")
@click.option("--seed", type=int, help="Seed for choosing among nodes with the same score.")
@click.option(
    "--record",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Record all that decisions rest on to DIR, for `bayplan replay` and `bayplan why`.",
)
@click.option(
    "--record-keep",
    metavar="24h|2Gi",
    help="How much of this process's recording to keep: a duration or a size. Default: all of it.",
)
@click.option(
    "--record-redact",
    is_flag=True,
    help="Record with other names, and without texts, so that the recording can be shared. The key that makes the "
    "names is in a file beside DIR: keep that to yourself.",
)
@click.option(
    "--provisioning-requests",
    is_flag=True,
    help="Also answer ProvisioningRequests, and hold the room that is found for them.",
)
@provisioning_class_option
@click.option("-v", "--verbose", "verbosity", count=True, help="Log what happens to each pod; -vv also logs why.")
@kube_scheduler_flags
def run(
    context: str | None,
    scheduler_name: str | None,
    plugins: tuple[str, ...],
    seed: int | None,
    record: str | None,
    record_keep: str | None,
    record_redact: bool,
    provisioning_requests: bool,
    provisioning_classes: tuple[str, ...],
    verbosity: int,
    **flags: Any,
) -> None:
    """Schedule the pods of a cluster that select this scheduler by name.

    The flags of kube-scheduler have the same names here, so that you can use its manifests.

    SIGTERM or Ctrl-C finishes in-flight bindings, then exits. A second one exits at once. SIGUSR2 logs the scheduler's
    state (nodes, their pods, and the queue) and its differences from the API server.
    """
    if record is None and (record_redact or record_keep is not None):
        raise click.UsageError("--record-keep and --record-redact say how to record: use them with --record")
    if provisioning_classes and not provisioning_requests:
        raise click.UsageError("--provisioning-class says which requests to answer: use --provisioning-requests, too")
    requests = provisioning_of(provisioning_classes) if provisioning_requests else None
    with DumpSignal() as dump_signal:  # before anything that takes time
        form = flags["logging_format"] or TEXT
        configure_logging(max(flags["v"] or 0, {0: 0, 1: INFO_LEVEL}.get(verbosity, DEBUG_LEVEL)), form)
        recording = None if record is None else run_recording.RecordOptions(record, record_keep, record_redact, plugins)
        with collecting_rarely():  # modules that are imported need no visits
            settings = run_scheduler.RunOptions(scheduler_name, context, seed, recording, requests)
            run_scheduler.run_scheduler(flags, plugins, settings, dump_signal)
