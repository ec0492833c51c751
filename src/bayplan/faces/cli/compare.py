"""`bayplan compare`: what another scheduler or other nodes would have made of a history."""

from __future__ import annotations

import click

from bayplan.faces.cli.backtest_options import AUTOSCALERS, BacktestOptions, backtest_options, read_simulated
from bayplan.faces.cli.insight.cluster_options import DEFAULT_LIMIT
from bayplan.faces.cli.insight.files import recommendations_in
from bayplan.faces.cli.insight.given_manifests import manifests_in
from bayplan.faces.cli.insight.progress import interruptible
from bayplan.faces.cli.insight.question_options import manifests_option
from bayplan.faces.cli.shared_options import TABLE_FILE, configurations_option, plugin_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import changed_pods, comparison, new_pools, running


@click.command()
@backtest_options
@configurations_option(
    "The candidate's KubeSchedulerConfiguration. Given twice, the first one is that of now. Default: the default "
    "plugins."
)
@click.option(
    "--set",
    "settings",
    metavar="SETTING",
    multiple=True,
    help="A setting of the candidate: [PROFILE/]PLUGIN.ARGUMENT=VALUE, PLUGIN.weight=N, PLUGIN.enabled=false or "
    "FIELD=VALUE. May be repeated.",
)
@plugin_option("The candidate's own plugins: a file, or a module. May be repeated.")
@click.option(
    "--node-pool",
    "pools",
    metavar="POOL",
    multiple=True,
    help="A pool that the candidate has: name=NAME,cpu=N,memory=N[,type=T][,pods=N][,zones=A+B][,price=P][,max=N]"
    "[,replaces=POOL]. May be repeated.",
)
@manifests_option(
    "Changed workloads of the candidate, in YAML or JSON: pods of theirs that arrive in the history have the new "
    "template. May be repeated."
)
@click.option(
    "--requests",
    type=TABLE_FILE,
    metavar="FILE",
    help="What the candidate's containers request: VerticalPodAutoscaler objects, the JSON of KRR or Goldilocks, or "
    "CSV with the columns namespace, kind, name, container, cpu and memory.",
)
@click.option(
    "--scale-requests",
    metavar="[TYPE/]NAME=FACTOR",
    multiple=True,
    help="Let all containers of a workload request cpu and memory times a factor, as in deployment/web=0.7. May be "
    "repeated.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace of names without one.")
@click.option("--candidate-emulated-version", metavar="VERSION", help="Default: as --emulated-version.")
@click.option("--candidate-autoscaler", type=click.Choice(AUTOSCALERS), help="Default: as --autoscaler.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    help="With how many seeds both are simulated, from --seed on. Default: 5 for a small history, 1 for a large one.",
)
@click.option("--limit", type=click.IntRange(0), default=DEFAULT_LIMIT, show_default=True, help="Rows; 0: all.")
@click.option("-o", "--output", type=click.Choice(("table", "wide", "json")), default="table", show_default=True)
def compare(
    asked: BacktestOptions,
    configs: tuple[str, ...],
    settings: tuple[str, ...],
    plugins: tuple[str, ...],
    pools: tuple[str, ...],
    objects: tuple[str, ...],
    requests: str | None,
    scale_requests: tuple[str, ...],
    namespace: str,
    candidate_emulated_version: str | None,
    candidate_autoscaler: str | None,
    seeds: int | None,
    limit: int,
    output: str,
) -> None:
    """Show what another configuration, plugins, node pools or workloads would have made of a history.

    Nodes, costs, waits, evictions and what is never placed are those of two simulations of the history: as it is now,
    and with the candidate. The first line says how well the simulation of now matches what was recorded. Then come
    decisions that the candidate would have made differently in the same situation. It only reads.
    """
    if len(configs) > 2:
        raise click.UsageError(f"--config: expected at most two configurations, got {len(configs)}")
    changes = changed_pods.WorkloadChanges(
        objects=list(manifests_in(objects, namespace)) if objects else [],
        requests=recommendations_in(requests),
        scale_requests=scale_requests,
        namespace=namespace,
    )
    if not (configs or settings or plugins or pools or changes or candidate_emulated_version or candidate_autoscaler):
        raise click.UsageError(
            "expected a candidate: --config, --set, --plugin, --node-pool, --filename, --requests, --scale-requests, "
            "--candidate-emulated-version or --candidate-autoscaler"
        )
    now = candidate = read_simulated(configs[0] if len(configs) == 2 else None, (), asked.version)
    if configs or plugins or settings or candidate_emulated_version:
        other_version = candidate_emulated_version or asked.version
        candidate = read_simulated(configs[-1] if configs else None, plugins, other_version, settings)
    new = tuple(map(new_pools.parse_pool, pools))
    own = [each.name for each in (*now.plugins, *candidate.plugins)]
    run = asked.run(now)
    other = run.but(candidate, running.FleetChoice(candidate_autoscaler or asked.autoscaler, new))
    with interruptible("Comparing") as progress:
        history, ahead = asked.history(run)
        other = other.with_changes(history, changes)
        found = asked.limited(
            lambda tell: comparison.compare(history, ahead, run, other, shown=limit, seeds=seeds or 0, progress=tell),
            own,
            progress,
        )
    names = [
        *(configs[-1:]),
        *settings,
        *(f"plugin {each}" for each in plugins),
        *(f"node pool {each}" for each in pools),
        *objects,
        *([] if requests is None else [requests]),
        *(f"requests {each}" for each in scale_requests),
        *([] if candidate_autoscaler is None else [f"autoscaler {candidate_autoscaler}"]),
        *([] if candidate_emulated_version is None else [f"Kubernetes {candidate_emulated_version}"]),
    ]
    asked.show(found, output, lambda: found.report(", ".join(names)))
