#!/usr/bin/env python3
"""Compares when `bayplan when` says that jobs start with when they do.

    benchmarks/when_truth.py                                     # on the simulation itself: some minutes
    KUBEBUILDER_ASSETS=DIR benchmarks/when_truth.py --real       # on a real control plane: about 6 minutes
    benchmarks/when_truth.py --real --again                      # foretell again, of the run that is there
    benchmarks/when_truth.py --spread                            # how far the share of one run says something

60 nodes are full of jobs, and 400 more come. `when` is told the distribution of each kind of job, and never how long a
job really runs. On the simulation, the truth is a run with the real run times, for each of several clusters. On a
control plane in DIR (etcd, kube-apiserver, kube-scheduler), snapshots are taken while the jobs run, and `bayplan
record` notes when each one gets its node. Of ten true starts, eight should be between p10 and p90. Exits with 1 if
fewer than 70 % or more than 90 % are.

The starts of one run depend on the same ends, so its share is seldom 80 % if few jobs wait. `--spread` simulates each
snapshot of a run 60 times, foretells each time by others, and prints how far the shares are apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.control_plane import ASSETS

from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.questions.forecast import NEVER
from bayplan.answers.insight.questions.starts import StartTimes
from bayplan.insight import Foresight, Insight, Snapshot
from truth_table import write_between_markers
from when_jobs import cluster, covered, told, truth
from when_plot import starts_plot

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LEAST, MOST = 0.7, 0.9
SIMULATED, REAL = 60.0, 3.0
"""How much longer jobs run than their kinds say: minutes on the simulation, and not too long on a control plane."""
_OTHER = 1_000_000
"""Seeds from here on are not those of forecasts."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What was foretold of the start of a job, and its true start, in seconds from `moment`."""

    moment: str
    job: str
    p10: float | None
    p50: float | None
    p90: float | None
    true: float


def main() -> None:
    """Run what is asked for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true", help="on a real control plane")
    parser.add_argument("--again", action="store_true", help="run nothing: foretell of the run that is there")
    parser.add_argument("--spread", action="store_true", help="how far the share of one run may be from that of many")
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=400, help="that come once all nodes are full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--truths", type=int, default=5, help="how many clusters are simulated")
    parser.add_argument("--folder", type=Path, default=Path("build/when"), help="where a run is kept")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a plot, an SVG")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the figures between the markers of this page")
    options = parser.parse_args()
    if options.spread:
        for file in sorted(options.folder.glob("*.snapshot")):
            shares = spread(Snapshot.open(file))
            least, most = shares[len(shares) // 10], shares[-len(shares) // 10]
            mean, few = sum(shares) / len(shares), sum(each < LEAST for each in shares) / len(shares)
            text = f"of ten runs, eight have {least:.0%} to {most:.0%}; fewer than {LEAST:.0%} in {few:.0%}"
            print(f"after {file.stem} s: {mean:.0%} of the starts are between p10 and p90; {text}", flush=True)
        return
    if options.real:
        found = real(options)
        what = f"kube-scheduler, {options.nodes} nodes"
    else:
        found = simulated(options.nodes, options.jobs, options.seed, options.truths)
        what = f"simulated, {plural(options.truths, 'cluster')} of {options.nodes} nodes"
    lines, share = figures(found)
    text = "\n".join([f"{what}, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} processors:", "", *lines])
    print(text)
    if options.plot is not None:
        options.plot.write_text(starts_plot([asdict(each) for each in found if each.moment == found[0].moment]))
    if options.write is not None:
        write_between_markers(options.write, text)
    raise SystemExit(0 if LEAST <= share <= MOST else 1)


def figures(found: Sequence[Foretold]) -> tuple[list[str], float]:
    """Return a table in Markdown, and the share of the true starts that are between p10 and p90."""
    rows = ["| asked | jobs | between p10 and p90 | before p50 | error of p50, median |", "|---|---:|---:|---:|---:|"]
    moments = list(dict.fromkeys(each.moment for each in found))
    for moment in [*moments, ""]:
        some = [each for each in found if moment in {"", each.moment}]
        inside = list(covered([(each.p10, each.p90, each.true) for each in some]))
        known = [each for each in some if each.p50 is not None]
        early = sum(each.true <= (each.p50 or 0) for each in known) / len(known)
        errors = sorted(abs(each.true - (each.p50 or 0)) for each in known)
        cells = [moment or "all", f"{len(some):,}", f"{sum(inside) / len(inside):.0%}", f"{early:.0%}"]
        rows.append(f"| {' | '.join(cells)} | {errors[len(errors) // 2]:.1f} s |")
    whole = list(covered([(each.p10, each.p90, each.true) for each in found]))
    return rows, sum(whole) / len(whole)


def simulated(nodes: int, waiting: int, seed: int, truths: int, runs: int | None = None) -> list[Foretold]:
    """Foretell of several clusters, and simulate each with the real run times. `runs`: of each forecast."""
    found = []
    for number in range(truths):
        documents, jobs = cluster(nodes, waiting, seed + 10 * number, NOW, SIMULATED)
        insight = Insight(Snapshot.of(documents, source="a simulation", taken=NOW))
        foretold = insight.when_pending(foresight=Foresight(durations=told(SIMULATED), runs=runs))
        other = Insight(insight.snapshot, seed=_OTHER + number)
        real = other.when_pending(foresight=Foresight(durations=truth(jobs), runs=1))
        starts = {each.pod: each.start.p50 for each in real.pods}
        for each in foretold.pods:
            start, true = each.start, starts[each.pod]
            if true is not None and true > 1:  # the others fit now, which is no forecast
                found.append(Foretold(f"cluster {number + 1}", each.pod, start.p10, start.p50, start.p90, true))
        print(f"cluster {number + 1}: {foretold.runs} runs, {len(foretold.pods)} jobs", flush=True)
    return found


def spread(snapshot: Snapshot, truths: int = 60, runs: int = 39) -> list[float]:
    """Simulate a snapshot often. Return the share of the starts of each time that are between p10 and p90 of others."""
    found = []
    for number in range(truths):
        insight = Insight(snapshot, seed=_OTHER + number)
        answer = insight.when_pending("default", foresight=Foresight(durations=told(REAL), runs=1))
        found.append({each.pod: each.start.p50 for each in answer.pods if each.start.p50 is not None})
    shares = []
    for number, true in enumerate(found):
        others = [each for other, each in enumerate(found) if other != number][:runs]
        starts = {pod: StartTimes.of([each.get(pod, NEVER) for each in others]) for pod in true}
        inside = list(covered([(starts[pod].p10, starts[pod].p90, at) for pod, at in true.items()]))
        shares.append(sum(inside) / len(inside))
    return sorted(shares)


def real(options: argparse.Namespace) -> list[Foretold]:
    """Run the jobs on a control plane, unless that was done, and foretell from each snapshot."""
    if not options.again:
        from when_run import PROGRAMS, run

        missing = [each for each in PROGRAMS if not os.access(Path(os.environ.get(ASSETS, "")) / each, os.X_OK)]
        if missing:
            raise SystemExit(f"{ASSETS} has to name a folder with {', '.join(PROGRAMS)}; it lacks {', '.join(missing)}")
        run(options.folder, options.nodes, options.jobs, options.seed, REAL)
    starts = {
        job: datetime.fromisoformat(time)
        for job, time in json.loads((options.folder / "starts.json").read_text()).items()
    }
    found = []
    for file in sorted(options.folder.glob("*.snapshot")):
        snapshot = Snapshot.open(file)
        assert snapshot.taken is not None
        insight = Insight(snapshot)
        answer = insight.when_pending("default", foresight=Foresight(durations=told(REAL)))
        moment = f"after {file.stem} s"
        for each in answer.pods:
            job = each.pod.rpartition("/")[2].rpartition("-")[0]
            if job in starts:
                start, true = each.start, (starts[job] - snapshot.taken).total_seconds()
                found.append(Foretold(moment, each.pod, start.p10, start.p50, start.p90, true))
    return found


if __name__ == "__main__":
    main()
