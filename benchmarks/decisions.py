#!/usr/bin/env python3
"""Measures the decision core alone: each pod is decoded, decided and assumed, one after the other. Prints JSON.

A pod that preempts is attempted again at once, on its nominated node and without its victims.

    benchmarks/decisions.py OBJECTS SOURCES

`compare_revisions.py` writes OBJECTS and starts this script for each revision, with the revision's SOURCES in the path.
The script uses only names that all these revisions have, so that each is measured by the same code. Seconds are CPU
times. Before each BATCH of pods, the script prints a line and waits for one, so that revisions can take turns.

The garbage collector visits the objects of a batch only, as in `bayplan run`. Otherwise one full collection of 25 ms
would count for the revision in which it falls on a measured pod, and not for the one in which it falls on another.
"""

from __future__ import annotations

import gc
import hashlib
import json
import random
import sys
import time
from pathlib import Path
from statistics import median

import bayplan
from bayplan.testing import make_cluster

try:
    from bayplan.core.cluster.pod_info import PodInfo
    from bayplan.core.scheduling import decide
    from bayplan.core.sharing import Sharing
except ImportError:  # a revision before the floors
    from bayplan.cluster.pod_info import PodInfo  # type: ignore[import-not-found,no-redef]
    from bayplan.scheduling import decide  # type: ignore[import-not-found,no-redef]
    from bayplan.sharing import Sharing  # type: ignore[import-not-found,no-redef]

BATCH = 100
"""Pods per turn: about 20 ms."""


def _nominated(raw: bytes, node: str | None) -> bytes:
    """Return the JSON of a pod that is nominated to a node."""
    return json.dumps({**json.loads(raw), "status": {"nominatedNodeName": node}}).encode()


def measure(objects: Path) -> dict[str, object]:
    """Measure a workload: a JSON array per line, with whether the object is a measured pod, and its document."""
    lines = [json.loads(line) for line in objects.read_text(encoding="utf-8").splitlines()]
    cluster = make_cluster(*(document for _, document in lines if document["kind"] != "Pod"))
    start, rng = Sharing(cluster.profile).start, random.Random(0)
    pods = [(measured, json.dumps(document).encode()) for measured, document in lines if document["kind"] == "Pod"]
    seconds: list[float] = []
    nodes: list[str] = []
    gc.collect()
    gc.freeze()
    for number, (measured, raw) in enumerate(pods):
        if number % BATCH == 0:
            print("next", flush=True)
            sys.stdin.readline()
            gc.freeze()
        began = time.process_time()
        pod = PodInfo.from_raw(raw)
        decision = decide(cluster.profile, cluster.state, pod, rng, start=start)
        if decision.victims:
            for victim in decision.victims:
                cluster.state.remove_pod(victim.uid)
            pod = PodInfo.from_raw(_nominated(raw, decision.nominated_node))
            decision = decide(cluster.profile, cluster.state, pod, rng, start=start)
        node = decision.node
        if node:
            cluster.state.assume(pod, node)
        if measured:
            seconds.append(time.process_time() - began)
            nodes.append(node or "")
    return {
        "pods": len(seconds),
        "scheduled": sum(map(bool, nodes)),
        "seconds": sum(seconds),
        "p50": median(seconds),
        "nodes": hashlib.sha256("\n".join(nodes).encode()).hexdigest(),
    }


if __name__ == "__main__":
    path, sources = map(Path, sys.argv[1:])
    if not Path(bayplan.__file__).is_relative_to(sources):
        sys.exit(f"bayplan was imported from {bayplan.__file__}, expected it in {sources}")
    print(json.dumps(measure(path)))
