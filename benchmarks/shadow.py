#!/usr/bin/env python3
"""Measures the CPU time of a shadow for each binding, from the JSON of the watch to the comparison.

benchmarks/shadow.py --nodes 1000 --pods 10000 --bindings 3000
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from datetime import UTC, datetime, timedelta

import msgspec

from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.core.scheduling import Unit
from bayplan.foundations.collector import Collector
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent

NAME = "default-scheduler"
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
KINDS = 10
"""How many kinds of pods there are."""


def main() -> None:
    """Let a shadow follow a scheduler that decides as Bayplan does, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 1000), ("pods", 10_000), ("bindings", 3000), ("rate", 300), ("late", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    shadow, decoder = Shadow(World(), {NAME}), PodDecoder()
    for number in range(options.nodes):
        node = make_node(f"node-{number}", cpu="64", memory="256Gi", pods=500, labels={"zone": f"z{number % 3}"})
        shadow.load(NODE, f"node-{number}", node, seconds=0.0, time=BEGIN)
    for number in range(options.pods):
        raw = _pod(f"old-{number}", number, f"node-{number % options.nodes}")
        shadow.load(POD, f"default/old-{number}", decoder.decode(raw), seconds=0.0, time=BEGIN)
    Collector().begin()
    used, order = 0.0, random.Random(0)
    waiting: list[tuple[str, int, str]] = []
    for number in range(options.bindings):
        name, seconds = f"new-{number}", 11 + number / options.rate
        pending = decoder.decode(_pod(name, number))
        plan = shadow.world.attempt(Unit(pending))
        waiting.append((name, number, plan.placed[0].node or ""))
        used += _seen(shadow, decoder, [_pod(name, number)], seconds)
        if len(waiting) >= options.late:  # bindings are seen later than decisions are made, and in another order
            order.shuffle(waiting)
            used += _seen(shadow, decoder, [_pod(*waiting.pop()), _pod(f"old-{number}", 0, "", "Succeeded")], seconds)
    tally = shadow.tally
    print(f"{options.nodes:,} nodes, {options.pods:,} pods, {options.rate} bindings/s, {options.late} in flight")
    print(
        f"  CPU for each binding: {1000 * used / options.bindings:.2f} ms, with its pod's arrival and another one's end"
    )
    print(f"  of a core: {used / options.bindings * options.rate:.0%}")
    print(f"  equal: {tally.equal():,} of {tally.total():,}; unknown: {tally.unknown}")
    print(f"  memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def _seen(shadow: Shadow, decoder: PodDecoder, versions: list[bytes], seconds: float) -> float:
    """Let the shadow see versions of pods. Returns the seconds of CPU that took."""
    began = time.process_time()
    for raw in versions:
        pod = decoder.decode(raw)
        shadow.put(POD, pod.key, pod, seconds=seconds, time=BEGIN + timedelta(seconds=seconds))
    return time.process_time() - began


def _pod(name: str, number: int, node: str = "", phase: str = "Pending") -> bytes:
    kind = number % KINDS
    document = as_sent(make_pod(name, cpu=f"{100 + 20 * kind}m", memory="128Mi", labels={"app": f"app-{kind}"}))[1]
    document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": f"{name}-{node}-{phase}"}
    document["spec"] |= {"nodeName": node} if node else {}
    return msgspec.json.encode({**document, "status": {"phase": phase}})


if __name__ == "__main__":
    main()
