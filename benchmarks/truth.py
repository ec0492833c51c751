#!/usr/bin/env python3
"""Compares what `bayplan compare` foretells with what a real control plane does.

    KUBEBUILDER_ASSETS=DIR benchmarks/truth.py                   # about 25 minutes
    benchmarks/truth.py --again --runs FOLDER                    # foretell again, of runs that are there

DIR has etcd, kube-apiserver and kube-scheduler. The same workload runs on them six times, on 60 nodes and with 1,200
pods: three times as it is, which shows how much runs of the same differ, and once with each candidate. `bayplan record`
records all of them. `bayplan compare` then foretells each candidate from the first run alone. Prints a table of what
was measured and what was foretold, and exits with 1 if a figure is off by more than twice the noise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.control_plane import ASSETS

from truth_run import run
from truth_table import AS_IT_IS, CANDIDATES, Experiment, configuration_of, write_between_markers
from truth_workload import Size

PROGRAMS = "etcd", "kube-apiserver", "kube-scheduler"


def main() -> None:
    """Run what is asked for, and print the table."""
    usual = Size()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("build/truth"), help="where the histories are kept")
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--pods", type=int, default=usual.pods)
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="how long a run takes")
    parser.add_argument("--seed", type=int, default=usual.seed, help="chooses the workload")
    parser.add_argument("--seeds", type=int, default=5, help="with how many seeds is foretold")
    parser.add_argument("--only", action="append", choices=[*AS_IT_IS, *CANDIDATES], help="run only this one")
    parser.add_argument("--again", action="store_true", help="run nothing: foretell of the runs that are there")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table between the markers of this page")
    options = parser.parse_args()
    size = Size(options.nodes, options.pods, options.seconds, options.seed)
    options.runs.mkdir(parents=True, exist_ok=True)
    if not options.again:
        missing = [each for each in PROGRAMS if not os.access(Path(os.environ.get(ASSETS, "")) / each, os.X_OK)]
        if missing:
            raise SystemExit(f"{ASSETS} has to name a folder with {', '.join(PROGRAMS)}; it lacks {', '.join(missing)}")
        for name in options.only or [*AS_IT_IS, *CANDIDATES]:
            began = time.monotonic()
            shutil.rmtree(options.runs / name, ignore_errors=True)
            asyncio.run(run(options.runs / name, size, configuration_of(CANDIDATES.get(name, {}))))
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        if options.only:
            return
    experiment = Experiment(options.runs, size, options.seeds)
    table = experiment.table()
    print(table)
    if options.write is not None:
        write_between_markers(options.write, table)
    raise SystemExit(1 if experiment.misses else 0)


if __name__ == "__main__":
    main()
