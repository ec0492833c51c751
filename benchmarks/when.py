#!/usr/bin/env python3
"""Measures `bayplan when` on a large cluster: how long it takes until p50 is known, of one and of two runs, and all.

    benchmarks/when.py                                # 1,000 nodes, 5,000 pending pods
    benchmarks/when.py --nodes 60 --pending 300

All nodes are full of jobs whose run times are known as distributions. Asked are the last pod of the queue, one in its
middle, and all that are pending. All times are seconds of CPU of this process; quote them with the machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bayplan.insight import Foresight, Insight, Snapshot
from when_jobs import cluster, told

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SCALE = 60.0
"""Jobs take minutes, not seconds."""


def main() -> None:
    """Ask, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pending", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    documents, known = cluster(options.nodes, options.pending, options.seed, NOW, SCALE)
    waiting = known[-options.pending :]
    print(f"{options.nodes:,} nodes, {len(known) - options.pending:,} running pods, {options.pending:,} pending pods")
    insight = Insight(Snapshot.of(documents, source="a benchmark", taken=NOW))
    foresight = Foresight(durations=told(SCALE))
    for what, job in (("the last pod", waiting[-1]), ("a pod in the middle", waiting[len(waiting) // 2])):
        _measure(
            what,
            lambda progress, job=job: insight.when(
                f"default/{job.name}-0", foresight=foresight, sooner="no", progress=progress
            ),
        )
    _measure("all pending pods", lambda progress: insight.when_pending(foresight=foresight, progress=progress))


def _measure(what: str, ask: Callable[[Callable[[str], None]], Any]) -> None:
    began = time.process_time()
    heard: list[tuple[float, str]] = []
    found = ask(lambda text: heard.append((time.process_time() - began, text)))
    took = time.process_time() - began
    first, second = (
        next((f"{seconds:.1f}" for seconds, text in heard if text.startswith(runs)), "-")
        for runs in ("1 run:", "2 runs:")
    )
    start = f", starts in {found.start.text}" if hasattr(found, "start") else ""
    print(
        f"{what:22} p50 of 1 run after {first} s, of 2 runs after {second} s, {found.runs} runs after {took:5.1f} s, "
        f"{len(heard)} lines{start}",
        flush=True,
    )


if __name__ == "__main__":
    main()
