#!/usr/bin/env python3
"""Measures the overhead of metrics: alternates between decisions with and without metrics, in one run.

    benchmarks/metrics.py                      # 5,000 nodes
    benchmarks/metrics.py --nodes 100

As in the scheduling loop, each pod is popped from the queue, decided and assumed. Batches with and without metrics
alternate, so both run on the same machine and cluster. The benchmark reports the medians of the batches' means, and
the median ratio of two consecutive batches, in CPU time of this thread. The means include sampling, and sorting the
recorded values into buckets. There are two cases: pods that are all alike, which reuse earlier results, and pods that
all differ. Metrics of bindings are not included; a binding is a request to the API server.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median

from bayplan import PodInfo
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import KubeSchedulerConfiguration, build_profile
from bayplan.core.framework.calling import call
from bayplan.core.queue import QueuedPod, QueueProfile, SchedulingQueue
from bayplan.core.scheduling import Rotation, decide
from bayplan.core.sharing import Sharing
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.testing import make_node, make_pod

BATCH = 1000


def main() -> None:
    """Run both cases and print the results."""
    options = _options()
    for name, pods in (("pods alike", _alike()), ("no two alike", _different())):
        off, on = _alternate(options.nodes, options.batches, pods)
        ratio = median(after / before for before, after in zip(off, on, strict=True))
        print(
            f"{name:14} {options.nodes} nodes   without {median(off):7.1f} us   with {median(on):7.1f} us   "
            f"{100 * (ratio - 1):+.1f} %"
        )


def _alternate(nodes: int, batches: int, pods: Iterator[PodInfo]) -> tuple[list[float], list[float]]:
    """Return the microseconds per decision of each batch, without and with metrics."""
    state = ClusterState()
    for number in range(nodes):
        state.set_node(make_node(f"node-{number}", cpu="64", memory="256Gi", pods=500))
    profile = build_profile(KubeSchedulerConfiguration().profiles[0], OfflineHandle(state))
    metrics, sharing, rng, rotation = Metrics(), Sharing(profile), random.Random(0), Rotation()
    queue = SchedulingQueue({profile.scheduler_name: QueueProfile.of(profile)}, state.nominations)
    measured = SchedulingQueue(
        {profile.scheduler_name: QueueProfile.of(profile)},
        state.nominations,
        caller=metrics.pre_enqueue_caller,
        ask_hint=metrics.ask_hint,
    )

    def without(queued: QueuedPod) -> None:
        decision = decide(profile, state, queued.pod, rng, start=sharing.start, rotation=rotation)
        state.assume(queued.pod, decision.node)

    def with_metrics(queued: QueuedPod) -> None:
        times = next(metrics.stopwatches)
        caller = call if times is None else times.call
        decision = decide(profile, state, queued.pod, rng, start=sharing.start, rotation=rotation, call=caller)
        metrics.new_decisions.append(metrics.now() - queued.popped_at)
        if times is not None:
            metrics.timed(queued, decision, times)
        if not decision.node:
            metrics.not_placed(decision)
        state.assume(queued.pod, decision.node)
        if times is not None:
            times.finish()

    figures: tuple[list[float], list[float]] = [], []
    gc.disable()
    for batch in range(2 * batches + 2):
        side = (batch + batch // 2) % 2  # off, on, on, off: a steady drift favors neither side
        if side:
            taken = _batch(measured, pods, with_metrics, metrics.fold)
        else:
            taken = _batch(queue, pods, without, lambda: None)
        if batch >= 2:
            figures[side].append(taken)
    gc.enable()
    return figures


def _batch(
    queue: SchedulingQueue, pods: Iterator[PodInfo], attempt: Callable[[QueuedPod], None], finish: Callable[[], None]
) -> float:
    """Return the mean microseconds per decision. Reading the thread's clock is slow, so it is read once per batch."""
    for pod in islice(pods, BATCH):
        queue.add(pod, time.monotonic())
    began = time.thread_time()
    while (queued := queue.pop(time.monotonic())) is not None:
        attempt(queued)
        queue.done(queued.uid)
    finish()
    return 1e6 * (time.thread_time() - began) / BATCH


def _alike() -> Iterator[PodInfo]:
    number = 0
    while True:
        number += 1
        yield make_pod(f"alike-{number}", cpu="100m", memory="100Mi", labels={"app": "web"})


def _different() -> Iterator[PodInfo]:
    number = 0
    while True:
        number += 1
        yield make_pod(f"other-{number}", cpu=f"{100 + number % 997}m", memory=f"{100 + number}Mi")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--batches", type=int, default=20, help="number of batches with and without metrics each")
    return parser.parse_args()


if __name__ == "__main__":
    main()
